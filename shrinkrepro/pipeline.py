"""From a failing program to its explanation, and on to the smallest program. Nothing is printed here."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace

from shrinkrepro import distil
from shrinkrepro.bisection import Trials, mend
from shrinkrepro.diagnosis import Diagnosis, diagnose, in_cells
from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.facts import Facts
from shrinkrepro.failure import VersionMismatch, parse, same_error
from shrinkrepro.freedom import free
from shrinkrepro.hints import hints
from shrinkrepro.isolation.backend import Backend
from shrinkrepro.isolation.persistent import Persistent
from shrinkrepro.isolation.workers import Begun, Workers, processors
from shrinkrepro.isolation.zygote import STARTS_THREADS, Zygote
from shrinkrepro.oracle import Counts, Oracle, Sameness, Target, job_for
from shrinkrepro.passes import LATE, PASSES
from shrinkrepro.passes.inplace import twins
from shrinkrepro.problems import failure_in
from shrinkrepro.program.check import invalid
from shrinkrepro.program.layout import laid_out
from shrinkrepro.program.load import from_above, with_strays
from shrinkrepro.program.source import Program
from shrinkrepro.reduction.engine import Adopted, Budget, Guesses, Judged, Pass, Reduction, Stopped
from shrinkrepro.reduction.engine import Event as EngineEvent
from shrinkrepro.report.environment import versions
from shrinkrepro.results import Bisected, Candidates, Explanation, Mending, Reduced, Result, Step, place
from shrinkrepro.runtime.messages import Limits, Observation, Report, Trace
from shrinkrepro.stability import Stability, measure, pinned, seeded
from shrinkrepro.verification import SEEDS, Foresight, Verification, last_holding

# How long a mended script is left to run, at least.
_SECONDS = 5.0
# Runs, and seconds for all of them, that go into a repair where the repair is not what was asked for.
_RUNS_BESIDES, _SECONDS_BESIDES = 12, 60.0
# How many of the files that the script writes are named.
_MOST_WRITTEN = 4
# How many times as long as a plain run one may take that is traced.
_INSTRUMENTED = 4
# How many times as long as a candidate the twin may take: a busy machine must not cost the proof.
_CONFIRMING = 10


@dataclass(frozen=True)
class Options:
    """What a user can choose.

    `timeout` bounds each of the first runs, `budget` the reduction (both in seconds; None: no bound). `jobs` is how
    many runs go on at once (None: as many as there are cores). `sameness` is what a candidate's failure must share
    with the script's. `tries` is how often a run is repeated until it fails: more than once for scripts that fail
    only now and then.
    """

    timeout: float = 600.0
    budget: float | None = None
    jobs: int | None = None
    sameness: Sameness = "statement"
    tries: int = 1


@dataclass(frozen=True)
class Explained:
    """The first runs are over and explain the failure."""

    explanation: Explanation


@dataclass(frozen=True)
class Searching:
    """The reduction is about to begin; `counts` is kept up to date while it goes on."""

    counts: Counts


@dataclass(frozen=True)
class Verifying:
    """`program` is about to be run in fresh interpreters."""

    program: Program


@dataclass(frozen=True)
class Repairing:
    """Repairs of the script are about to be tried."""


Event = Explained | Searching | Verifying | Repairing | EngineEvent
Listener = Callable[[Event], None]


def explain(
    program: Program,
    options: Options = Options(),
    listeners: Sequence[Listener] = (),
    *,
    start: Callable[[], Backend] = Zygote,
) -> Explanation:
    """Why `program` fails: what saved the tensor, what changed it, what needed it.

    `start` makes the backend that runs it.
    Raises ShrinkReproError when the program does not fail with a version mismatch, or not every time.
    """
    with closing(start()) as backend:
        explanation = _look(program, options, backend, _workers(backend, options)).explanation
    _tell(listeners, Explained(explanation))
    return explanation


def bisect(
    program: Program,
    options: Options = Options(),
    listeners: Sequence[Listener] = (),
    *,
    runs: int = 60,
    start: Callable[[], Backend] = Zygote,
) -> Bisected:
    """Which edits of `program` stop the crash, and whether they change anything else; found with at most `runs` runs.

    Ctrl-C ends the search with what has been found. `start` makes the backend that runs the candidates.
    Raises ShrinkReproError when the program does not fail with a version mismatch, or not every time.
    """
    with closing(start()) as backend:
        workers = _workers(backend, options)
        look = _look(program, options, backend, workers)
        _tell(listeners, Explained(look.explanation))
        return Bisected(look.explanation, _mending(look, workers, runs, math.inf, listeners))


def reduce(
    program: Program,
    options: Options = Options(),
    listeners: Sequence[Listener] = (),
    *,
    passes: Sequence[Pass] = PASSES,
    start: Callable[[], Backend] = Zygote,
) -> Result:
    """The smallest program that fails as `program` does, and why it fails.

    Ctrl-C during the reduction ends it; the smallest program so far is then verified and returned. `start` makes the
    backend that runs the candidates.
    Raises ShrinkReproError when the program does not fail with a version mismatch, or not every time.
    """
    with closing(start()) as backend:
        workers = _workers(backend, options)
        look = _look(program, options, backend, workers)
        _tell(listeners, Explained(look.explanation))
        target = Target(look.explanation.program, look.explanation.failure, look.traced, options.sameness)
        oracle = Oracle(target, workers, look.limits)
        verification = Verification(target, workers, replace(look.limits, wall=options.timeout, backwards=None))
        foresight = Foresight(verification)
        _tell(listeners, Searching(oracle.counts))
        course = _Course(oracle.counts, look.explanation.program)
        start_of_search = _pinned(look, workers)
        if start_of_search is not look:
            course.went_on_to(start_of_search.explanation.program, "pin the seed")
        end = _shrink(start_of_search, oracle, options.budget, [course, foresight, *listeners], passes)
        stopped, seconds = end.reason, course.seconds
        if (tidy := laid_out(end.program)).texts != end.program.texts:
            course.went_on_to(tidy, "lay out")
        adopted = [step.program for step in course.steps]
        _tell(listeners, Verifying(adopted[-1]))
        begun = foresight.alone(adopted[-1])  # goes on while repairs are looked for
        mending = None if stopped == "interrupted" else _repair_besides(look, workers, listeners)
        unhurried = replace(oracle.limits, wall=min(options.timeout, oracle.limits.wall * _CONFIRMING), backwards=None)

        def describe(program: Program) -> Reduced:
            return _described(program, target.failure, workers, unhurried, oracle.limits)

        reduced, notes = _verified(adopted, begun, verification, describe, listeners)
        if reduced is not None:
            complete = stopped == "fixpoint" and reduced.program == adopted[-1]
            reduced = replace(reduced, patches=end.patches if complete else None)
        twin = None if reduced is None else _twin(reduced, workers, unhurried)
    if stopped == "budget":
        notes += (f"Stopped after {options.budget:g} s, as --budget says: a smaller program may exist.",)
    if reduced is not None and twin is None:
        notes += ("The culprit is not confirmed: no form of the program without that write runs clean.",)
    counts = oracle.counts
    return Result(
        look.explanation,
        reduced,
        twin,
        Candidates(counts.run, counts.accepted, counts.cached, counts.rejected_unrun, seconds),
        stopped,
        notes,
        mending,
        tuple(course.steps if reduced is None else course.steps_to(reduced.program)),
        tuple(course.judged),
    )


def static_imports(program: Program) -> tuple[str, ...]:
    """The modules, not the program's own, that its files import at their top level: what any run imports first."""
    own = {file.path.split("/")[0].removesuffix(".py") for file in program}
    names: set[str] = set()
    for file in program:
        for node in ast.parse(file.text).body:
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return tuple(sorted(name for name in names if name.split(".")[0] not in own))


@dataclass(frozen=True)
class _Look:
    """What the first runs showed.

    `trace` is what the tracer alone knows of the failure, `traced` what that says about the program; both None when the
    tracer sees none. `limits` are those of the runs that follow.
    """

    explanation: Explanation
    trace: Trace | None
    traced: Diagnosis | None
    limits: Limits


def _workers(backend: Backend, options: Options) -> Workers:
    patient = backend if options.tries == 1 else Persistent(backend, options.tries)
    return Workers(patient, options.jobs or processors())


def _tell(listeners: Iterable[Listener], event: Event) -> None:
    for listener in listeners:
        listener(event)


def _look(program: Program, options: Options, backend: Backend, workers: Workers) -> _Look:
    """What the first runs show; where a run may be tried several times, how often it fails comes first."""
    if options.tries == 1:
        return _first_look(program, options, workers, None)
    _preload(backend, _wanted_early(program))
    once = _workers(backend, replace(options, tries=1))
    known = measure(program, once, _generous(options), options.tries)
    return _first_look(seeded(program, known.seed), options, workers, known)


def _generous(options: Options) -> Limits:
    return Limits(wall=options.timeout, cpu=options.timeout * processors())


def _pinned(look: _Look, workers: Workers) -> _Look:
    """What the search begins with: where the seed decides whether the program fails, it becomes a part of its text."""
    known = look.explanation
    seed = known.program.invocation.seed
    if seed is None:
        return look
    program = pinned(known.program, seed, ("torch", *static_imports(known.program)))
    trace = workers.run(job_for(program, "trace", look.limits)).trace
    if trace is None:
        return look
    diagnosis = diagnose(trace, dict(program.texts))
    return replace(look, explanation=replace(known, program=program), trace=trace, traced=diagnosis)


def _first_look(program: Program, options: Options, workers: Workers, stability: Stability | None) -> _Look:
    """Run the program a few times, at first with the tracer, and explain its failure."""
    limits = _generous(options)
    _preload(workers.backend, _wanted_early(program))
    traced, plain = workers.run_all([job_for(program, "trace", limits), job_for(program, "plain", limits)])
    if plain.outcome == "finished" and traced.outcome == "failed":
        raise _unstable(program, options.tries)
    whole = with_strays(program, plain.strays)
    if whole is program and _lacks_a_file(plain):
        wider = from_above(program)
        whole = program if _lacks_a_file(workers.run(job_for(wider, "plain", limits))) else wider
    if whole is not program:
        return _first_look(whole, options, workers, stability)
    failure = failure_in(plain, program, options.timeout)
    slow = _preload(workers.backend, plain.modules)
    again = workers.run(job_for(program, "plain", limits))
    repeated = parse(again.failure or "")
    if repeated is None or not same_error(repeated, failure):
        raise _unstable(program, options.tries)
    diagnosis = in_cells(_diagnosis(program, failure, traced, workers, limits), program)
    notes = (*program.notes, *hints(program), *_notes(traced, plain, diagnosis, slow))
    explanation = Explanation(program, failure, diagnosis, plain.seconds, plain.guard, versions(), notes, stability)
    by_tracer = diagnose(traced.trace, dict(program.texts)) if traced.trace else None
    wall = min(options.timeout, plain.seconds * Oracle.slack + Oracle.grace)
    return _Look(explanation, traced.trace, by_tracer, replace(limits, wall=wall, backwards=plain.backwards))


def _lacks_a_file(report: Report) -> bool:
    """Whether a run ended because a module or a file was not found."""
    return report.outcome == "raised" and report.error_type in ("ModuleNotFoundError", "FileNotFoundError")


def _notes(traced: Report, plain: Report, diagnosis: Diagnosis, slow: Sequence[str]) -> Iterator[str]:
    """What could not be done in the first runs, and what else helps to understand them."""
    yield from diagnosis.notes
    if traced.trace is None:
        yield "The tracer hides the failure: what is said here comes from PyTorch's message and from polling."
    elif diagnosis.culprit is None:
        yield "No statement that writes to the saved tensor was found."
    if diagnosis.built is not None:
        yield f"The module that writes in place was built at {place(diagnosis.built)}: `{diagnosis.built.source}`."
    if plain.guard == "off":
        yield "The runs were not guarded, as --guard off says: they could write and send whatever the script does."
    elif not plain.guard.startswith("landlock"):
        yield f"The runs were confined less than on Linux with Landlock: {plain.guard}."
    if plain.written and plain.guard != "off":
        shown, more = plain.written[:_MOST_WRITTEN], len(plain.written) - _MOST_WRITTEN
        others = f" and {more} more" if more > 0 else ""
        yield f"The script writes {', '.join(shown)}{others}; each run wrote to a copy that is thrown away."
    if slow:
        yield f"Each run imports {', '.join(slow)} anew: importing that ahead would start threads."


def _unstable(program: Program, tries: int) -> ShrinkReproError:
    script = program.invocation.entry
    return ShrinkReproError(
        Exit.UNSTABLE,
        f"{script} fails in some runs and not in others, each tried {tries} time(s); "
        f"fix its random seeds, or repeat each run with --tries {max(10, tries * 2)}",
    )


def _wanted_early(program: Program) -> tuple[str, ...]:
    # the first optimizer that is constructed imports torch._dynamo: seconds, in every run until it is here
    optimizers = any("optim" in file.text for file in program)
    return ("torch", *(["torch._dynamo"] if optimizers else []), *static_imports(program))


def _preload(backend: Backend, modules: Iterable[str]) -> list[str]:
    """Import modules ahead of the runs; the packages that cannot be, because that would start threads.

    PyTorch goes first and alone: when something else must be given up, it stays. Modules that do not import at all
    are the business of the runs, which say why.
    """
    known = dict.fromkeys(modules)
    torch = tuple(name for name in known if name.split(".")[0] == "torch")
    others = tuple(name for name in known if name.split(".")[0] != "torch")
    failed = {**backend.preload(torch), **(backend.preload(others) if others else {})}
    return sorted({name.split(".")[0] for name, why in failed.items() if why == STARTS_THREADS})


def _diagnosis(
    program: Program, failure: VersionMismatch, traced: Report, workers: Workers, limits: Limits
) -> Diagnosis:
    """What a traced run says about the failure, helped by a polling run where it cannot name the culprit."""
    trace = traced.trace or Trace(failure.message, None, None, None, (), None)
    if not trace.mutations:
        polled = workers.run(replace(job_for(program, "poll", limits), hint=asdict(trace)))
        if polled.trace is not None and polled.trace.mutations:
            trace = polled.trace
    return diagnose(trace, dict(program.texts))


class _Course:
    """A listener that writes down how a search went: the programs adopted, and when candidates were judged."""

    def __init__(self, counts: Counts, original: Program) -> None:
        self._counts, self._started = counts, time.monotonic()
        self.steps = [Step(original, "", 0.0, 0)]
        self.judged: list[float] = []

    @property
    def seconds(self) -> float:
        """The time since the search began."""
        return time.monotonic() - self._started

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, Judged):
            self.judged.append(self.seconds)
        elif isinstance(event, Adopted):
            self.went_on_to(event.program, event.step)

    def went_on_to(self, program: Program, name: str) -> None:
        """Add a step."""
        self.steps.append(Step(program, name, self.seconds, self._counts.run))

    def steps_to(self, program: Program) -> list[Step]:
        """The steps up to the one that led to `program`."""
        last = next(number for number, step in enumerate(self.steps) if step.program is program)
        return self.steps[: last + 1]


def _shrink(
    look: _Look, oracle: Oracle, budget: float | None, listeners: Sequence[Listener], passes: Sequence[Pass]
) -> Stopped:
    """Apply guesses and passes to the script until none holds any more, or something ends the search."""
    started = time.monotonic()
    limit = Budget() if budget is None else Budget(lambda: time.monotonic() - started >= budget)
    start = look.traced or look.explanation.diagnosis
    reduction = Reduction(look.explanation.program, start, oracle, listeners, limit)
    return reduction.run(passes, lambda program: _guesses(program, look, oracle), LATE)


def _guesses(program: Program, look: _Look, oracle: Oracle) -> Guesses:
    """Small programs made from the values that a version of the script has at the two moments that matter."""
    workers, limits = oracle.workers, oracle.limits
    patient = replace(limits, wall=limits.wall * _INSTRUMENTED)
    original = program is look.explanation.program
    trace = look.trace if original else workers.run(job_for(program, "trace", patient)).trace
    return () if trace is None else distil.guesses(program, trace, workers, patient)


def _repair_besides(look: _Look, workers: Workers, listeners: Iterable[Listener]) -> Mending:
    """The repairs of the script that can be found in short time, for those who asked for something else."""
    until = time.monotonic() + _SECONDS_BESIDES + 4 * look.explanation.seconds
    return _mending(look, workers, _RUNS_BESIDES, until, listeners)


def _mending(look: _Look, workers: Workers, runs: int, until: float, listeners: Iterable[Listener]) -> Mending:
    """The repairs of the script that `runs` runs suffice to find, none begun after `until`."""
    _tell(listeners, Repairing())
    known = look.explanation
    number = (look.limits.backwards or 0) + 1
    trials = Trials(
        known.program, known.failure, workers, number, look.limits, _SECONDS + 4 * known.seconds, runs, until
    )
    return mend(trials, look.trace)


def _verified(
    adopted: Sequence[Program],
    begun: Begun,
    runs: Verification,
    describe: Callable[[Program], Reduced],
    listeners: Iterable[Listener],
) -> tuple[Reduced | None, tuple[str, ...]]:
    """The last adopted program that fails in the same way in fresh interpreters, and what must be said about it.

    `begun` are runs of the last one without its folder. `describe` says what else there is to know about a program;
    it is asked about the last one while those go on.
    """
    likely = describe(adopted[-1])
    in_its_folder: set[int] = set()

    def holds(index: int) -> bool:
        program = adopted[index]
        if program is not adopted[-1]:
            _tell(listeners, Verifying(program))
        if runs.holds(begun if program is adopted[-1] else runs.alone(program)):
            return True
        in_its_folder.add(index)
        return runs.holds_in_its_folder(program)

    found = last_holding(len(adopted), holds)
    if found is None:
        return None, ("Not even the script itself fails each time in a fresh interpreter, outside the warm process.",)
    undone = len(adopted) - 1 - found
    notes = []
    if undone:
        notes.append(f"The last {undone} steps were taken back: they fail only in the warm process.")
    if found in in_its_folder:
        notes.append("The program needs other files of its folder, its arguments or its input: alone it does not fail.")
    return (describe(adopted[found]) if undone else likely), tuple(notes)


def _described(
    program: Program, failure: VersionMismatch, workers: Workers, unhurried: Limits, limits: Limits
) -> Reduced:
    """A program that was reached, with its diagnosis and what can be varied in it; variants are held to `limits`."""
    traced = workers.run(job_for(program, "trace", unhurried))
    diagnosis = _diagnosis(program, failure, traced, workers, unhurried)
    return Reduced(program, diagnosis, len(SEEDS), len(SEEDS), free=_free(program, diagnosis, workers, limits))


def _free(program: Program, diagnosis: Diagnosis, workers: Workers, limits: Limits) -> tuple[str, ...]:
    """What can be varied in the program while the same saved tensor of the same kind of node is stale."""
    stale = (diagnosis.node, diagnosis.attribute)

    def holds(variant: Program) -> bool:
        trace = workers.run(
            job_for(variant, "trace", replace(limits, wall=limits.wall * _INSTRUMENTED, backwards=None))
        ).trace
        return trace is not None and (trace.node, trace.attribute) == stale

    return free(Facts(program, diagnosis, lambda: None), holds)


def _twin(reduced: Reduced, workers: Workers, limits: Limits) -> Program | None:
    """The reduced program with only the culprit written out-of-place: the first such form that runs to its end."""
    program = reduced.program

    def observe() -> Observation | None:
        return workers.run(job_for(program, "observe", limits)).observation

    for patch in twins(program, Facts(program, reduced.diagnosis, observe)):
        candidate = patch.apply(program)
        if (
            invalid(candidate, program) is None
            and workers.run(job_for(candidate, "plain", limits)).outcome == "finished"
        ):
            return candidate
    return None
