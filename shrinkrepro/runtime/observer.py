"""What one run of the program shows: which lines ran, how long they took, which values expressions had."""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any

from shrinkrepro.runtime.describe import describe
from shrinkrepro.runtime.instrument import Site, instrument, renumber
from shrinkrepro.runtime.messages import Observation, Seen, Value


class Observer:
    """Records what the program's own files do: executed lines, the seconds between them, first values of expressions.

    A line's seconds include what it calls. Frames of libraries are not traced, so the cost falls on the program's own
    lines only.
    """

    def __init__(self, own_files: Mapping[str, str]) -> None:
        self._own = own_files
        self._lines: dict[str, set[int]] = defaultdict(set)
        self._seconds: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._sites: list[tuple[str, Site]] = []
        self._values: dict[int, Value] = {}

    def __enter__(self) -> Observer:
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def compile(self, path: str, source: str, location: str) -> CodeType:
        """The code of one of the program's files, every expression of which tells its value."""
        tree, sites = instrument(source, _every_statement)
        renumber(tree, len(self._sites))
        self._sites += [(path, site) for site in sites]
        return compile(tree, location, "exec", dont_inherit=True)

    def see(self, index: int, value: Any) -> Any:
        """What instrumented expressions call: keeps the description of a site's first value, no value itself."""
        if index not in self._values:
            self._values[index] = describe(value, self._own)
        return value

    def observation(self) -> Observation:
        """What was seen so far."""
        return Observation(
            executed={path: tuple(sorted(lines)) for path, lines in self._lines.items()},
            seconds={path: dict(seconds) for path, seconds in self._seconds.items()},
            values=tuple(
                Seen(path, site.line, site.column, site.end_line, site.end_column, self._values[index])
                for index, (path, site) in enumerate(self._sites)
                if index in self._values
            ),
        )

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        path = self._own.get(frame.f_code.co_filename)
        if path is None:
            return None
        lines, seconds = self._lines[path], self._seconds[path]
        lines.add(frame.f_lineno)
        current, since = 0, time.perf_counter()

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal current, since
            now = time.perf_counter()
            if current:
                seconds[current] += now - since
            if event == "line":
                current = frame.f_lineno
                lines.add(current)
            since = time.perf_counter()
            return step

        return step


def _every_statement(statement: ast.stmt) -> bool:
    return not isinstance(statement, (ast.Import, ast.ImportFrom))
