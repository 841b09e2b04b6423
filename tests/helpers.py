"""A script that fails, and a reduction without processes: its failure is whatever a predicate on the text says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from shrinkrepro.oracle import Counts, Judgement, Oracle, Verdict
from shrinkrepro.program.source import Program
from shrinkrepro.reduction.engine import Budget, Event, Pass, Reduction, Stopped

Predicate = Callable[[str], bool]
UNBOUNDED = Budget()

# A script that fails, with a line that the failure does not need.
SCRIPT = """\
import torch
x = torch.ones(1, requires_grad=True)
print("noise")
y = x.exp()
y += 1
y.sum().backward()
"""


class FakeOracle:
    """Judges by the text of the entry, and remembers what it judged."""

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate
        self.judged: list[str] = []
        self.foreseen: list[list[str]] = []
        self.adoptions = 0
        self.counts = Counts()

    def judge(self, candidate: Program, ahead: Iterable[Program] = ()) -> Judgement:
        text = candidate.entry.text
        self.judged.append(text)
        self.counts.run += 1
        self.foreseen.append([program.entry.text for program, _ in zip(ahead, range(3), strict=False)])
        return Judgement(Verdict.SAME if self._predicate(text) else Verdict.PASSED)

    def adopt(self, program: Program, judgement: Judgement) -> None:
        self.adoptions += 1


def reduction(
    before: str, predicate: Predicate, *, budget: Budget = UNBOUNDED, events: list[Event] | None = None
) -> tuple[Reduction, FakeOracle]:
    """A reduction of `before` that has not begun, and its oracle; what happens is appended to `events`."""
    oracle = FakeOracle(predicate)
    listeners = [] if events is None else [events.append]
    return Reduction(Program.of(before), None, cast(Oracle, oracle), listeners, budget), oracle


def reduce_with(
    passes: Sequence[Pass], before: str, predicate: Predicate, *, budget: Budget = UNBOUNDED
) -> tuple[str, list[Event]]:
    """The text that the passes make of `before` as long as the predicate holds, and all that happened on the way."""
    events: list[Event] = []
    stopped: Stopped = reduction(before, predicate, budget=budget, events=events)[0].run(passes)
    return stopped.program.entry.text, events
