"""What is known about one version of a program: its syntax, and what one run of it showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from shrinkrepro.diagnosis import Diagnosis
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree, parse
from shrinkrepro.runtime.messages import Observation, Value


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about `program`: dropped, and gathered again when asked for, once another program is adopted.

    `diagnosis` explains how this version fails (None: not known). `observe` runs the program once and says what ran.
    """

    program: Program
    diagnosis: Diagnosis | None
    observe: Callable[[], Observation | None]

    @cached_property
    def observation(self) -> Observation | None:
        """What one run of the program executed; None when it could not be observed."""
        return self.observe()

    def tree(self, path: str) -> Tree:
        """The syntax of one of the program's files."""
        return parse(self.program[path])

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The syntax of every file, the entry last: definitions before their uses, as imports run them."""
        entry = self.program.invocation.entry
        return tuple(parse(f) for f in sorted(self.program.files, key=lambda file: (file.path == entry, file.path)))

    def executed(self, path: str, line: int) -> bool:
        """Whether the line ran before the failure; True when nobody knows."""
        return self.observation is None or line in self.observation.executed.get(path, ())

    def seconds(self, path: str, line: int) -> float:
        """How long the line took, callees included; 0.0 when nobody knows."""
        return 0.0 if self.observation is None else self.observation.seconds.get(path, {}).get(line, 0.0)

    def values(self, path: str) -> Mapping[Span, Value]:
        """The value that each expression of a file had first, by its span; empty when nobody knows."""
        return self._values.get(path, {})

    @cached_property
    def _values(self) -> Mapping[str, Mapping[Span, Value]]:
        found: dict[str, dict[Span, Value]] = {}
        for seen in self.observation.values if self.observation else ():
            span = self.program[seen.file].span_of(seen.line, seen.column, seen.end_line, seen.end_column)
            found.setdefault(seen.file, {})[span] = seen.value
        return found

    @cached_property
    def culprit(self) -> Statement | None:
        """The in-place statement responsible, in this version of the program."""
        return self._statement(self.diagnosis.culprit if self.diagnosis else None)

    @cached_property
    def saving(self) -> Statement | None:
        """The statement that saved the tensor, in this version of the program."""
        return self._statement(self.diagnosis.saved if self.diagnosis else None)

    @cached_property
    def needing(self) -> Statement | None:
        """The statement whose backward needed the tensor, in this version of the program."""
        return self._statement(self.diagnosis.needed if self.diagnosis else None)

    def _statement(self, place: object) -> Statement | None:
        if place is None:
            return None
        path, line, column = place.file, place.line, place.column  # type: ignore[attr-defined]
        return self.tree(path).statement_at(line, column)
