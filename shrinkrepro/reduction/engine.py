"""Applies passes until none of their patches holds any more. Programs are adopted here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice

from shrinkrepro.diagnosis import Diagnosis
from shrinkrepro.facts import Facts
from shrinkrepro.oracle import Judgement, Oracle, Verdict, job_for
from shrinkrepro.program.check import invalid
from shrinkrepro.program.edit import Patch, conflicting
from shrinkrepro.program.source import Program, Size
from shrinkrepro.reduction.search import search
from shrinkrepro.runtime.messages import Observation

Pass = Callable[[Program, Facts], Iterator[Patch]]
Guesses = Sequence[Sequence[Program]]
Stages = Sequence[Sequence[Pass]]


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


_GUESS = "distil"
# How many runs pairs of patches may take, and of how many patches pairs are still worth making.
_PAIRS, _MANY = 20, 300
_FAR_LARGER = 2


class _Over(Exception):
    """The budget has run out."""


def no_guesses(program: Program) -> Guesses:
    """Nothing to try but patches."""
    return ()


def _stages(passes: Sequence[Pass], late: Collection[Pass]) -> Stages:
    """The passes that come first, and those that are late, each in their order."""
    return [step for step in passes if step not in late], [step for step in passes if step in late]


def _length(program: Program) -> int:
    return sum(len(file.text) for file in program)


@dataclass
class Reduction:
    """One reduction under way: the smallest program so far, and all that is needed to make it smaller."""

    program: Program
    diagnosis: Diagnosis | None
    oracle: Oracle
    listeners: Sequence[Listener] = ()
    budget: Budget = Budget()
    _facts: Facts | None = None

    def run(
        self,
        passes: Sequence[Pass],
        guess: Callable[[Program], Guesses] = no_guesses,
        late: Collection[Pass] = (),
    ) -> Stopped:
        """Apply the passes, in order and again from the first, until a whole round adopts nothing.

        Those that are `late` as well wait until the others adopt nothing more.
        `guess` makes whole programs of one, in groups. The first that holds of the first group in which one does is
        where the passes begin. What they make of the first that holds of another group is adopted if it is smaller
        still. As long as no guess has held, new ones are made after each round of the passes, and where there were
        none after each pass that changed something: what hid the failure may have gone.
        Ends early, with what was reached, when the budget has run out or at Ctrl-C.
        """
        self._tell(Started(self.program, Size.of(self.program)))
        patches, reason = 0, "fixpoint"
        try:
            stages = _stages(passes, late)
            rivals, patches = self._guess_and_settle(stages, guess)
            for rival in rivals:
                if self._outdone_by(rival, stages):
                    patches = self._settle(stages)
            while self._apply_pair(passes):
                patches = self._settle(stages)
        except _Over:
            reason = "budget"
        except KeyboardInterrupt:
            reason = "interrupted"
        stopped = Stopped(self.program, reason, patches)
        self._tell(stopped)
        return stopped

    def _guess_and_settle(self, stages: Stages, guess: Callable[[Program], Guesses]) -> tuple[Guesses, int]:
        """Guess, and apply the passes to the fixpoint: the groups left to try, and how many patches there are then.

        A stage begins when the one before adopts nothing more. What a later one adopts leads back to the first.
        """
        rivals: Guesses | None = None
        guessed: Guesses = ()
        patches = [0] * len(stages)
        number = 0
        while number < len(stages):
            if rivals is None and number == 0:
                guessed = guess(self.program)
                rivals = self._guess(guessed)
            base, patches[number] = self.program, 0
            for step in stages[number]:
                before = self.program
                patches[number] += self._apply(step)
                if rivals is None and not guessed and self.program is not before:
                    guessed = guess(self.program)
                    rivals = self._guess(guessed)
            number = number + 1 if self.program is base else 0
        return rivals or (), sum(patches)

    def _settle(self, stages: Stages) -> int:
        """Apply the passes to the fixpoint; how many patches they propose there."""
        return self._guess_and_settle(stages, no_guesses)[1]

    def _apply_pair(self, passes: Sequence[Pass]) -> bool:
        """Adopt the first pair of patches that holds together, smallest first, within a bound of runs.

        What two patches can do and neither can alone is mostly small: a shape and the one that must match it.
        """
        facts, length = self.facts(), _length(self.program)
        saved: dict[Patch, int] = {}
        for patch in (patch for step in passes for patch in step(self.program, facts)):
            if (less := length - _length(patch.apply(self.program))) > 0:
                saved.setdefault(patch, less)
        if len(saved) > _MANY:
            return False
        pairs = sorted(combinations(saved, 2), key=lambda pair: saved[pair[0]] + saved[pair[1]])
        program, allowed = self.program, self.oracle.counts.run + _PAIRS

        def together(start: int) -> Iterator[tuple[int, Program]]:
            for number, pair in enumerate(islice(pairs, start, None), start):
                if not conflicting(pair):
                    yield number, (pair[0] | pair[1]).apply(program)

        for number, candidate in together(0):
            if self.oracle.counts.run >= allowed:
                return False
            if self._try(candidate, "pairs", (later for _, later in together(number + 1))):
                return True
        return False

    def _guess(self, groups: Guesses) -> Guesses | None:
        """Adopt the first guess that holds; the groups that are left, None when none held."""
        for number, group in enumerate(groups):
            for position, candidate in enumerate(group):
                if self._try(candidate, _GUESS, iter(group[position + 1 :])):
                    return groups[number + 1 :]
        return None

    def _outdone_by(self, guesses: Sequence[Program], stages: Stages) -> bool:
        """Adopt what the passes make of the first guess that holds, if that is smaller than the program now.

        Guesses that are far larger than what was reached are left alone: passes rarely take more than half of one.
        """
        reached = Size.of(self.program)
        for candidate in guesses:
            if Size.of(candidate).tokens > _FAR_LARGER * reached.tokens:
                continue
            judgement = self.oracle.judge(candidate)
            self._tell(Judged(candidate, judgement, _GUESS))
            if judgement.verdict is Verdict.SAME:
                unseen = [lambda event: self._tell(event) if isinstance(event, Judged) else None]
                rival = Reduction(candidate, judgement.diagnosis, self.oracle, unseen, self.budget)
                rival._settle(stages)
                return Size.of(rival.program) < reached and self._try(rival.program, _GUESS, iter(()))
        return False

    def facts(self) -> Facts:
        """What is known about the program as it is now, the same for every pass; observed when first asked for."""
        program = self.program
        if self._facts is None or self._facts.program is not program:
            self._facts = Facts(program, self.diagnosis, lambda: self._observe(program))
        return self._facts

    def _apply(self, step: Pass) -> int:
        """Decide every patch that the pass proposes for the program; how many there were."""
        base, name = self.program, step.__name__
        patches = tuple(step(base, self.facts()))
        state = search(base, patches)
        while (candidate := state.candidate) is not None:
            state = state.after(self._try(candidate, name, state.ahead()))
        self._tell(PassFinished(name, len(patches), self.program is not base))
        return len(patches)

    def _try(self, candidate: Program, step: str, ahead: Iterator[Program]) -> bool:
        """Judge the candidate and adopt it when it shows the same failure and is smaller than the program now."""
        if self.budget.expired():
            raise _Over
        if _length(candidate) >= _length(self.program) and invalid(candidate) is None and not self._shrinks(candidate):
            return False  # not worth a run
        judgement = self.oracle.judge(candidate, ahead)
        self._tell(Judged(candidate, judgement, step))
        if judgement.verdict is not Verdict.SAME or not self._shrinks(candidate):
            return False
        self.program, self.diagnosis = candidate, judgement.diagnosis
        self.oracle.adopt(candidate, judgement)
        self._tell(Adopted(candidate, judgement, Size.of(candidate), step))
        return True

    def _shrinks(self, candidate: Program) -> bool:
        """Whether a candidate is smaller than the program now."""
        return Size.of(candidate) < Size.of(self.program)

    def _observe(self, program: Program) -> Observation | None:
        limits = replace(self.oracle.limits, wall=self.oracle.limits.wall * _OBSERVING)
        report = self.oracle.workers.run(job_for(program, "observe", limits))
        return report.observation

    def _tell(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)
