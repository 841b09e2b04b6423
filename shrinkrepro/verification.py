"""The last word is plain Python: programs are run in new interpreters, with several hash seeds and nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shrinkrepro.isolation.workers import Begun, Workers
from shrinkrepro.oracle import Target, job_for
from shrinkrepro.program.layout import laid_out
from shrinkrepro.program.source import Program
from shrinkrepro.reduction.engine import Adopted, Judged
from shrinkrepro.runtime.messages import NOWHERE, Limits

__all__ = ["SEEDS", "Foresight", "Verification", "last_holding"]

# Hash seeds of the interpreters that a program is run in, one each.
SEEDS = ("1", "2", "3")
# After how many verdicts in a row that change nothing the program is probably the last one.
_QUIET = 10


@dataclass(frozen=True)
class Verification:
    """Runs in plain new interpreters, which must show `target`."""

    target: Target
    workers: Workers
    limits: Limits

    def alone(self, program: Program) -> Begun:
        """Begin to run the program without its folder."""
        return self._begin(program.moved_to(NOWHERE))

    def alone_behind_others(self, program: Program) -> Begun:
        """The same, but the candidates that run meanwhile go first: they take milliseconds, this takes seconds."""
        return self._begin(program.moved_to(NOWHERE), patient=True)

    def holds(self, begun: Begun) -> bool:
        """Whether all runs that were begun fail as `target` says; waits for them."""
        return all(map(self.target.shown_by, begun.reports()))

    def holds_in_its_folder(self, program: Program) -> bool:
        """Whether the program, where its folder and arguments are, fails as `target` says."""
        return self.holds(self._begin(program))

    def _begin(self, program: Program, *, patient: bool = False) -> Begun:
        job = replace(job_for(program, "fresh", self.limits), patient=patient)
        seeds = [{**job.environment, "PYTHONHASHSEED": seed} for seed in SEEDS]
        return self.workers.begin([replace(job, environment=environment) for environment in seeds])


class Foresight:
    """A listener of the reduction that begins to verify what will probably be its result, as long as it is not done.

    New interpreters import PyTorch for seconds. The search hardly ever keeps every core busy.
    """

    def __init__(self, verification: Verification) -> None:
        self._verification = verification
        self._latest: Program | None = None
        self._quiet = 0
        self._begun: tuple[Program, Begun] | None = None

    def __call__(self, event: object) -> None:
        """Take note of what happens in the reduction."""
        if isinstance(event, Adopted):
            self._latest, self._quiet = event.program, 0
            self._give_up()
        elif isinstance(event, Judged) and self._latest is not None:
            self._quiet += 1
            if self._quiet == _QUIET:
                foreseen = laid_out(self._latest)
                self._begun = foreseen, self._verification.alone_behind_others(foreseen)

    def alone(self, program: Program) -> Begun:
        """The runs of `program` without its folder, begun long ago or now."""
        if self._begun is not None and self._begun[0].texts == program.texts:
            return self._begun[1]
        self._give_up()
        return self._verification.alone(program)

    def _give_up(self) -> None:
        if self._begun is not None:
            self._begun[1].cancel()
            self._begun = None


def last_holding(count: int, holds: Callable[[int], bool]) -> int | None:
    """A late index below `count` for which `holds` is true: the last one, when those that hold come before all others.

    Asks about the last index first, then ever further back, then in between; None when index 0 does not hold either.
    """
    good, bad, step = count - 1, count, 1
    while not holds(good):
        if good == 0:
            return None
        good, bad, step = max(0, good - step), good, step * 2
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good
