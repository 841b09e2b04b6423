"""Applies passes until none of their patches holds any more. Programs are adopted here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from shrinkrepro.diagnosis import Diagnosis
from shrinkrepro.facts import Facts
from shrinkrepro.oracle import Judgement, Oracle, Verdict, job_for
from shrinkrepro.program.check import invalid
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program, Size
from shrinkrepro.reduction.search import search
from shrinkrepro.runtime.messages import Observation

Pass = Callable[[Program, Facts], Iterator[Patch]]


@dataclass(frozen=True)
class Started:
    """A reduction begins at `program`."""

    program: Program
    size: Size


@dataclass(frozen=True)
class Judged:
    """A candidate was judged in the pass named `step`."""

    candidate: Program
    judgement: Judgement
    step: str


@dataclass(frozen=True)
class Adopted:
    """`program`, judged to show the same failure, is the smallest so far; `step` names the pass that made it."""

    program: Program
    judgement: Judgement
    size: Size
    step: str


@dataclass(frozen=True)
class PassFinished:
    """A pass has had each of its patches decided."""

    step: str
    patches: int
    adopted: bool


@dataclass(frozen=True)
class Stopped:
    """The reduction ended: `reason` is "fixpoint", "budget" or "interrupted"."""

    program: Program
    reason: str
    patches: int


Event = Started | Judged | Adopted | PassFinished | Stopped
Listener = Callable[[Event], None]


@dataclass(frozen=True)
class Budget:
    """When to stop: `expired` is asked before each candidate."""

    expired: Callable[[], bool] = lambda: False


# How many times as long as a plain run one may take that records every line and value.
_OBSERVING = 10


class _Over(Exception):
    """The budget has run out."""


@dataclass
class Reduction:
    """One reduction under way: the smallest program so far, and all that is needed to make it smaller."""

    program: Program
    diagnosis: Diagnosis | None
    oracle: Oracle
    listeners: Sequence[Listener] = ()
    budget: Budget = Budget()
    # Two passes that undo each other without changing the size must not go round in a circle.
    _adopted: set[tuple[tuple[str, str], ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._adopted.add(self.program.texts)

    def run(self, passes: Sequence[Pass], guesses: Sequence[Program] = ()) -> Stopped:
        """Apply the passes, in order and again from the first, until a whole round adopts nothing.

        The first of the `guesses`, whole programs, that holds is where the passes begin. Ends early, with what was
        reached, when the budget has run out or at Ctrl-C.
        """
        self._tell(Started(self.program, Size.of(self.program)))
        patches, reason = 0, "fixpoint"
        try:
            self._guess(guesses)
            while True:
                outcomes = [self._apply(step) for step in passes]
                patches = sum(count for count, _ in outcomes)
                if not any(adopted for _, adopted in outcomes):
                    break
        except _Over:
            reason = "budget"
        except KeyboardInterrupt:
            reason = "interrupted"
        stopped = Stopped(self.program, reason, patches)
        self._tell(stopped)
        return stopped

    def _guess(self, guesses: Sequence[Program]) -> None:
        for position, candidate in enumerate(guesses):
            if self._try(candidate, "distil", iter(guesses[position + 1 :])):
                return

    def facts(self) -> Facts:
        """What is known about the program as it is now; observed when first asked for."""
        program = self.program
        return Facts(program, self.diagnosis, lambda: self._observe(program))

    def _apply(self, step: Pass) -> tuple[int, bool]:
        """Decide every patch that the pass proposes for the program; how many there were, and whether any held."""
        base, name = self.program, step.__name__
        patches = tuple(step(base, self.facts()))
        state = search(base, patches)
        while (candidate := state.candidate) is not None:
            state = state.after(self._try(candidate, name, state.ahead()))
        adopted = self.program is not base
        self._tell(PassFinished(name, len(patches), adopted))
        return len(patches), adopted

    def _try(self, candidate: Program, step: str, ahead: Iterator[Program]) -> bool:
        """Judge the candidate and adopt it when it shows the same failure and is no larger than the program now."""
        if self.budget.expired():
            raise _Over
        longer = sum(len(f.text) for f in candidate) >= sum(len(f.text) for f in self.program)
        if longer and invalid(candidate) is None and self._grows(candidate):
            return False  # not worth a run
        judgement = self.oracle.judge(candidate, ahead)
        self._tell(Judged(candidate, judgement, step))
        if judgement.verdict is not Verdict.SAME or self._grows(candidate):
            return False
        self.program, self.diagnosis = candidate, judgement.diagnosis
        self._adopted.add(candidate.texts)
        self.oracle.adopt(judgement)
        self._tell(Adopted(candidate, judgement, Size.of(candidate), step))
        return True

    def _grows(self, candidate: Program) -> bool:
        """Whether a candidate is larger than the program now, or as large and was adopted before."""
        size, current = Size.of(candidate), Size.of(self.program)
        return size > current or (size == current and candidate.texts in self._adopted)

    def _observe(self, program: Program) -> Observation | None:
        limits = replace(self.oracle.limits, wall=self.oracle.limits.wall * _OBSERVING)
        report = self.oracle.workers.run(job_for(program, "observe", limits))
        return report.observation

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)
