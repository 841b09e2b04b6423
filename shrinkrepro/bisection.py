"""Which edits of a failing program stop the crash, and whether they change anything else: found by running them.

The trace names the write that broke the saved tensor, so the search starts there: each repair of it is run, simplest
first, until one is proven. A repair after which the program fails in another way has mended one culprit of several:
the search goes on from there, best first, so that the edits found together are as few as can be. Where no trace
helps, the statements that write are bisected instead.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from shrinkrepro.diagnosis import Diagnosis, diagnose
from shrinkrepro.facts import Facts
from shrinkrepro.failure import VersionMismatch
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.oracle import job_for
from shrinkrepro.program.check import invalid
from shrinkrepro.program.edit import Conflict, Patch
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import parse
from shrinkrepro.proof import Proof, prove
from shrinkrepro.repair import Repair, rebased, repairs, rewrites
from shrinkrepro.results import Attempt, Mending
from shrinkrepro.runtime.messages import Job, Limits, Observation, Place, Report, Trace, Watch

# Passes that are compared, before and after the one that failed: a repair may change their order.
_BEFORE, _AFTER = 3, 10
# Passes that a mended program may run beyond the one that failed, and seconds, before it is stopped.
_BEYOND = 200
_MOST_EDITS = 6
# How many times as long a run may take that is watched closely.
_SLOWER = 4
# Rewrites that mend one of several saved tensors without changing a word of the message.
_ONE_OF_SEVERAL = ("copy saved", "copy parameters", "detach")
_CUTS = ("detach", "recompute")
_NO_REFERENCE = (
    "The reference run did not get through that backward pass{why}: whether loss and gradients change is not known."
)


class OutOfRuns(Exception):
    """The number of runs that the search may take is used up."""


@dataclass
class Trials:
    """Runs versions of a failing program and counts the runs.

    `failure` is how PyTorch words the failure of `program`, `number` the backward pass that fails. `limits` bound each
    run, `seconds` is how long a version that does not fail is left to run, `most` how many runs there may be, and
    `until` the reading of `time.monotonic` after which none is begun.
    """

    program: Program
    failure: VersionMismatch
    workers: Workers
    number: int
    limits: Limits
    seconds: float
    most: int
    until: float = math.inf
    runs: int = 0
    _reference: Report | None = field(default=None, repr=False)

    def reference(self, ahead: Iterable[Job] = ()) -> Report:
        """The run of the original that copies each tensor as it is saved, so that no write can break it."""
        if self._reference is None:
            self._reference = self._run(self._proving(self.program, reference=True), ahead)
        return self._reference

    def prove(
        self, candidate: Program, made: Iterable[Repair] = (), ahead: Iterable[Program] = ()
    ) -> tuple[Report, Proof]:
        """How a candidate runs, to which the repairs `made` have led, and what that proves.

        `ahead` are the candidates that will probably be asked for next.
        """
        job, others = self._proving(candidate), [self._proving(program) for program in ahead]
        reference = self.reference([job, *others])
        report = self._run(job, others)
        limited = any(repair.limits for repair in made)
        return report, prove(report, reference, self.number, limited=limited)

    def trace(self, candidate: Program) -> Trace | None:
        """Why a candidate fails; None when it does not once it is traced."""
        traced = self._run(self._job(candidate, "trace")).trace
        if traced is None or traced.mutations:
            return traced
        polled = self._run(replace(self._job(candidate, "poll"), hint=asdict(traced))).trace
        return traced if polled is None else replace(polled, written=traced.written)

    @property
    def unproven(self) -> str | None:
        """Why nothing can be proven; None unless the reference run says nothing about the backward pass that matters.

        A script may have another error there, which the crash has hidden.
        """
        reference = self._reference
        if reference is None or any(p.number == self.number and p.finished for p in reference.passes):
            return None
        why = "" if reference.error is None else f", where it ended with {reference.error_type}: {reference.error}"
        return _NO_REFERENCE.format(why=why)

    def observe(self, candidate: Program) -> Observation | None:
        """What the expressions of a candidate are."""
        return self._run(self._job(candidate, "observe")).observation

    def _run(self, job: Job, ahead: Iterable[Job] | None = None) -> Report:
        if self.runs >= self.most or time.monotonic() >= self.until:
            raise OutOfRuns
        self.runs += 1
        return self.workers.run(job, ahead)

    def _job(self, program: Program, watch: Watch) -> Job:
        patient = self.limits.wall * _SLOWER
        return job_for(program, watch, replace(self.limits, wall=patient, backwards=None))

    def _proving(self, program: Program, *, reference: bool = False) -> Job:
        hint = {
            "first": max(1, self.number - _BEFORE),
            "last": self.number + _AFTER,
            "reference": reference,
            "seconds": self.seconds,
        }
        limits = replace(self.limits, wall=self.limits.wall + self.seconds, backwards=self.number + _BEYOND)
        return replace(job_for(program, "prove", limits), hint=hint)


@dataclass(frozen=True)
class _State:
    """A version of the program that still fails, after the repairs made so far; how it fails, and how it ran."""

    program: Program
    repairs: tuple[Repair, ...]
    trace: Trace
    report: Report

    @property
    def diagnosis(self) -> Diagnosis:
        return diagnose(self.trace, dict(self.program.texts))


def mend(trials: Trials, trace: Trace | None = None) -> Mending:
    """The repairs tried on the failing program, and the smallest proven set of them, as far as the runs suffice.

    `trace` is that of the program, where it has been traced already. Ctrl-C ends the search.
    """
    started = time.monotonic()
    attempts: list[Attempt] = []
    minimal: bool | None = None
    notes: list[str] = []
    try:
        if trace is None or not trace.mutations:
            trace = trials.trace(trials.program)
        for attempt in _search(trials, trace):
            attempts.append(attempt)
            if attempt.proof.complete:
                break
        chosen = best(attempts)
        if chosen is not None:
            chosen, minimal = _without_surplus(trials, chosen)
    except (OutOfRuns, KeyboardInterrupt):
        chosen = best(attempts)
        more = "a better repair may exist" if chosen else "no repair until then"
        notes.append(f"Stopped after {trials.runs} runs: {more}.")
    if trials.unproven is not None:
        notes.append(trials.unproven)
    writes = () if trace is None else diagnose(trace, dict(trials.program.texts)).writes
    seconds = time.monotonic() - started
    other = alternative(attempts, chosen)
    return Mending(tuple(attempts), chosen, minimal, writes, trials.runs, seconds, tuple(notes), other)


def best(attempts: Iterable[Attempt]) -> Attempt | None:
    """The attempt that stops the crash and changes least; of equals the one with fewest edits, then the first one.

    One that changes what is learned, by cutting or renewing a graph, comes after those that only write elsewhere.
    """
    mending = [attempt for attempt in attempts if attempt.proof.mends]
    return min(mending, key=_cost, default=None)


def alternative(attempts: Iterable[Attempt], chosen: Attempt | None) -> Attempt | None:
    """What most people would write where `chosen` copies parameters: another order, or a graph that is cut.

    That changes the numbers, and may well be what is wanted. None where nothing of the kind stops the crash.
    """
    if chosen is None or all(repair.kind != "copy parameters" for repair in chosen.repairs):
        return None
    plain = (a for a in attempts if a.proof.mends and all(r.kind in ("move", "detach") for r in a.repairs))
    return min(plain, key=lambda a: (*_cost(a), sum(len(repair.patch.edits) for repair in a.repairs)), default=None)


def smallest(count: int, holds: Callable[[Sequence[int]], bool]) -> tuple[int, ...] | None:
    """A set of the indices below `count` for which `holds` is true, none of which can be left out; None if all fail.

    `holds` must stay true when indices are added. It is asked about each index that is found, and about the logarithm
    of `count` of others for each.
    """
    if not holds(range(count)):
        return None
    kept: list[int] = []
    high = count
    while high and not (kept and holds(kept)):
        low, enough = 0, high  # the first `enough` and those kept hold; how many of the first are needed?
        while enough - low > 1:
            middle = (low + enough) // 2
            low, enough = (low, middle) if holds([*range(middle), *kept]) else (middle, enough)
        kept.insert(0, enough - 1)
        high = enough - 1
    return tuple(kept)


def _search(trials: Trials, trace: Trace | None) -> Iterator[Attempt]:
    """Every repair that the trace suggests, as it is tried, and those of what still fails after them, best first."""
    if trace is None or not trace.mutations:
        yield from _by_force(trials, trace)
        return
    report = Report("failed", failure=trials.failure.message, backwards=trials.number - 1)
    order = itertools.count()
    waiting = [(False, 0, next(order), _State(trials.program, (), trace, report))]
    while waiting:
        *_, state = heapq.heappop(waiting)
        for repair, candidate, ahead in _proposals(trials, state):
            made = (*state.repairs, repair)
            report, proof = trials.prove(candidate, made, ahead)
            yield Attempt(made, candidate, proof)
            trace = _further(trials, state, repair, candidate, report) if len(made) < _MOST_EDITS else None
            if trace is not None:
                changes = repair.kind in _CUTS or _known_to_change(proof)
                heapq.heappush(waiting, (changes, len(made), next(order), _State(candidate, made, trace, report)))


def _proposals(trials: Trials, state: _State) -> Iterator[tuple[Repair, Program, list[Program]]]:
    """The repairs of a failing version, each with the program that it makes and those that come after it.

    Repairs that make nothing that can run are left out.
    """
    facts = Facts(state.program, state.diagnosis, lambda: trials.observe(state.program))
    for family in repairs(facts, state.trace):
        candidates: list[tuple[Repair, Program]] = []
        for repair in family:
            try:
                candidate = repair.patch.apply(state.program)
            except Conflict:
                continue
            if candidate.texts != state.program.texts and invalid(candidate, state.program) is None:
                candidates.append((_as_written(trials.program, state.program, repair), candidate))
        for position, (repair, candidate) in enumerate(candidates, 1):
            yield repair, candidate, [program for _, program in candidates[position:]]


def _as_written(original: Program, changed: Program, repair: Repair) -> Repair:
    """The repair of a changed program with the line that its statement has in the original."""
    file = changed[repair.file]
    start = file.offset_of(repair.line)
    run = next(file.origins(start, file.offset_of(repair.line + 1)), None)
    return repair if run is None else replace(repair, file=run.path, line=original[run.path].line_at(run.offset))


def _further(trials: Trials, state: _State, repair: Repair, candidate: Program, report: Report) -> Trace | None:
    """Why the candidate fails, if a repair has come further: it fails later, or another tensor or write is to blame."""
    if report.outcome != "failed" or report.backwards < state.report.backwards:
        return None
    later = report.backwards > state.report.backwards or _words(report) != _words(state.report)
    if not later and repair.kind not in _ONE_OF_SEVERAL:
        return None
    trace = trials.trace(candidate)
    if trace is None or not trace.mutations:
        return None
    return trace if later or _blamed(candidate, trace) != _blamed(state.program, state.trace) else None


def _known_to_change(proof: Proof) -> bool:
    return any(part is not None and not part.same for part in (proof.loss, proof.gradients))


def _words(report: Report) -> str:
    return (report.failure or "").partition("Hint:")[0]


def _blamed(program: Program, trace: Trace) -> tuple[object, ...]:
    """What saved the tensor and what changed it, by where that stood in the original program."""
    places = (trace.saved, trace.mutations[0].place)
    return trace.attribute, *(_position(program, place) for place in places if place is not None)


def _position(program: Program, place: Place) -> object:
    frame = place.stack[0] if place.stack else None
    if frame is None or frame.column is None:
        return frame
    file = program[frame.file]
    start, end = file.offset_of(frame.line, frame.column), file.offset_of(frame.line + 1)
    return next(((run.path, run.offset) for run in file.origins(start, end)), frame)


def _cost(attempt: Attempt) -> tuple[int, ...]:
    """What speaks against an attempt, most important first; of each number whether it is off (2) or not known (1)."""
    proof = attempt.proof
    parts = (proof.loss, proof.gradients, proof.later)
    changed = (1 if part is None else 0 if part.same else 2 for part in parts)
    cuts = any(repair.kind in _CUTS for repair in attempt.repairs)
    return int(not proof.complete), int(cuts), *changed, len(attempt.repairs)


def _by_force(trials: Trials, trace: Trace | None) -> Iterator[Attempt]:
    """The fewest of all in-place statements that stop the crash when they are written out-of-place, if any do."""
    program = trials.program
    writes = () if trace is None else diagnose(trace, dict(program.texts)).writes
    lines = {(write.statement.file, write.statement.line) for write in writes}
    found: list[Repair] = []
    for file in program:
        tree = parse(file)
        for statement in tree.statements:
            if not lines or (file.path, statement.lines.start) in lines:
                found += rewrites(tree, statement)[:1]

    def made(indices: Sequence[int]) -> Program:
        return Patch(tuple(edit for index in indices for edit in found[index].patch.edits)).apply(program)

    def holds(indices: Sequence[int]) -> bool:
        try:
            return trials.prove(made(indices))[1].mends
        except Conflict:
            return False

    chosen = smallest(len(found), holds) if found else None
    if chosen:
        candidate = made(chosen)
        yield Attempt(tuple(found[index] for index in chosen), candidate, trials.prove(candidate)[1])


def _without_surplus(trials: Trials, attempt: Attempt) -> tuple[Attempt, bool | None]:
    """The attempt without repairs that it can do without; whether each that stays is needed, None when not known."""
    patches = _on_original(trials.program, attempt.repairs)
    if len(attempt.repairs) > 1 and patches is None:
        return attempt, None
    position = 0
    while patches is not None and len(attempt.repairs) > 1 and position < len(attempt.repairs):
        fewer = [*patches[:position], *patches[position + 1 :]]
        kept = (*attempt.repairs[:position], *attempt.repairs[position + 1 :])
        try:
            candidate = Patch(tuple(edit for patch in fewer for edit in patch.edits)).apply(trials.program)
        except Conflict:
            return attempt, None
        proof = trials.prove(candidate, kept)[1]
        if proof.mends and (proof.complete or not attempt.proof.complete):
            attempt, patches = Attempt(kept, candidate, proof), fewer
        else:
            position += 1
    return attempt, True


def _on_original(program: Program, made: Sequence[Repair]) -> list[Patch] | None:
    """The patches of repairs that were made one after the other, each as a patch of the original program."""
    changed, patches = program, []
    for repair in made:
        patch = rebased(repair.patch, changed)
        if patch is None:
            return None
        patches.append(patch)
        changed = repair.patch.apply(changed)
    return patches
