"""Decides whether a candidate still shows the failure that the user's script shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from shrinkrepro.diagnosis import Diagnosis, Statement, diagnose
from shrinkrepro.failure import VersionMismatch, parse, same_error
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.program.check import invalid
from shrinkrepro.program.source import Program, original_lines
from shrinkrepro.runtime.messages import NOWHERE, Job, Limits, Report, Watch

Sameness = Literal["statement", "op", "any"]

_UNBOUNDED = Limits()


class Verdict(Enum):
    """What became of a candidate."""

    SAME = "the same failure"
    DIFFERENT = "a version mismatch, but another one"
    OTHER = "another error"
    PASSED = "no error"
    TIMEOUT = "stopped at its time limit"
    KILLED = "killed"
    INVALID = "not valid Python, or visibly wrong"


@dataclass(frozen=True)
class Judgement:
    """A verdict, why, and what the traced run of a candidate that fails in the same way said."""

    verdict: Verdict
    why: str = ""
    diagnosis: Diagnosis | None = None
    report: Report | None = None


@dataclass(frozen=True)
class Target:
    """The failure to keep: what plain Python printed, what the tracer found, and where that stands in the original."""

    original: Program
    failure: VersionMismatch
    diagnosis: Diagnosis | None
    sameness: Sameness = "statement"

    def differs(self, failure: VersionMismatch) -> str | None:
        """How an error, as plain Python prints it, is not the one to keep; None when it may be."""
        if self.sameness == "any":
            return None
        if not same_error(failure, self.failure):
            wanted = f"{self.failure.tensor_type}, {self.failure.operator}"
            return f"{failure.tensor_type}, {failure.operator} instead of {wanted}"
        if 0 in (failure.shape or ()) and 0 not in (self.failure.shape or ()):
            return "the tensor has become empty"
        return None

    def shown_by(self, report: Report) -> bool:
        """Whether a run ended with an error that may be the one to keep."""
        failure = parse(report.failure or "")
        return failure is not None and self.differs(failure) is None

    def drifted(self, candidate: Program, found: Diagnosis) -> str | None:
        """How the failure of `candidate`, traced as `found`, is not the one to keep; None when it is."""
        known = self.diagnosis
        if self.sameness == "any" or known is None:
            return None
        same = found.node == known.node and known.attribute in (found.attribute, *found.attributes)
        if known.node is not None and not same:
            return f"{found.node}.{found.attribute} is stale instead of {known.node}.{known.attribute}"
        if known.culprit is None:
            return None
        if found.culprit is None:
            return "the write cannot be found"
        if found.culprit.operator != known.culprit.operator:
            return f"written by {found.culprit.operator} instead of {known.culprit.operator}"
        if found.empty and not known.empty:
            return "nothing is written: the write has become empty"
        if self.sameness == "op":
            return None
        origin = descent(candidate, found.culprit, self.original)
        # A statement without origin was written by us: there is nothing to compare but what was compared above.
        if origin and not self._lines_of(known.culprit) & origin:
            return f"written by line {found.culprit.line}, which does not descend from line {known.culprit.line}"
        return None

    @staticmethod
    def _lines_of(statement: Statement) -> frozenset[tuple[str, int]]:
        return frozenset((statement.file, line) for line in range(statement.line, statement.end_line + 1))


def descent(program: Program, statement: Statement, original: Program) -> frozenset[tuple[str, int]]:
    """The lines of the original program that a statement of a candidate was copied from."""
    file = program[statement.file]
    span = file.span_of(statement.line, statement.column, statement.end_line, statement.end_column)
    return original_lines(program, span, original)


def job_for(program: Program, watch: Watch = "plain", limits: Limits = _UNBOUNDED) -> Job:
    """The job that runs `program` as its invocation says."""
    call = program.invocation
    return Job(
        files={file.path: file.text for file in program},
        root=call.root,
        entry=call.entry,
        cwd=call.cwd,
        argv=call.argv,
        module=call.module,
        environment=dict(call.environment),
        hidden=call.hidden,
        folders=call.folders,
        network=call.network,
        protection=call.protection,
        stdin=call.stdin,
        seed=call.seed,
        watch=watch,
        limits=limits,
    )


@dataclass
class Counts:
    """How many candidates were run, accepted, answered from the cache, and rejected without a run."""

    run: int = 0
    accepted: int = 0
    cached: int = 0
    rejected_unrun: int = 0


@dataclass
class Oracle:
    """The interestingness test: runs candidates, plain first, and those that fail in the right words traced as well.

    Two runs, because a tracer keeps tensors alive and that can change PyTorch's message, while only the tracer
    knows which statement is responsible. `slack` is how many times as long as the best program so far a candidate may
    take, `grace` how many seconds it may take beyond that. From the first program that fails in an empty folder, too,
    candidates are run in one: to show them the user's folder takes long when that is large.
    """

    target: Target
    workers: Workers
    limits: Limits
    slack: float = 4.0
    grace: float = 3.0
    counts: Counts = field(default_factory=Counts)
    _judged: dict[tuple[tuple[str, str], ...], Judgement] = field(default_factory=dict)
    _alone: bool = False

    def judge(self, candidate: Program, ahead: Iterable[Program] = ()) -> Judgement:
        """The judgement on a candidate. `ahead` are those that may be asked for next: idle workers start on them."""
        known = self._judged.get(candidate.texts)
        if known is not None:
            self.counts.cached += 1
            return known
        problem = invalid(candidate, self.target.original)
        if problem is not None:
            self.counts.rejected_unrun += 1
            judgement = Judgement(Verdict.INVALID, problem)
        else:
            judgement = self._run(candidate, ahead)
        self._judged[candidate.texts] = judgement
        return judgement

    def adopt(self, program: Program, judgement: Judgement) -> None:
        """Take the limits of time and of backward passes from the run of a program that was adopted.

        The limit of time follows in steps of a half: each new limit throws away the runs started early.
        """
        self.counts.accepted += 1
        self._alone = self._alone or self._holds_alone(program)
        if judgement.report is not None:
            wall = judgement.report.seconds * self.slack + self.grace
            wall = wall if wall <= self.limits.wall / 2 else self.limits.wall
            self.limits = replace(self.limits, wall=wall, backwards=judgement.report.backwards)

    def _run(self, candidate: Program, ahead: Iterable[Program]) -> Judgement:
        self.counts.run += 1
        report = self.workers.run(self._job(candidate, "plain"), self._jobs(ahead))
        if report.outcome != "failed":
            return _not_failed(report)
        failure = parse(report.failure or "")
        if failure is None:
            return Judgement(Verdict.OTHER, "a message that cannot be read", report=report)
        different = self.target.differs(failure)
        if different is not None:
            return Judgement(Verdict.DIFFERENT, different, report=report)
        if self.target.diagnosis is None:  # the tracer hides the failure: there is nothing to compare with
            return Judgement(Verdict.SAME, report=report)
        traced = self.workers.run(self._job(candidate, "trace"))
        if traced.trace is None:
            verdict = Verdict.SAME if self.target.sameness == "any" else Verdict.DIFFERENT
            return Judgement(verdict, "does not fail when traced", report=report)
        found = diagnose(traced.trace, dict(candidate.texts))
        drift = self.target.drifted(candidate, found)
        return Judgement(Verdict.SAME if drift is None else Verdict.DIFFERENT, drift or "", found, report)

    def _jobs(self, programs: Iterable[Program]) -> Iterable[Job]:
        """The jobs worth starting early: not judged yet and not invalid. Lazily, as long as workers are idle."""
        for program in programs:
            if program.texts not in self._judged and invalid(program, self.target.original) is None:
                yield self._job(program, "plain")

    def _job(self, program: Program, watch: Watch) -> Job:
        slower = 4 if watch == "trace" else 1  # than the program alone
        job = job_for(program, watch, replace(self.limits, wall=self.limits.wall * slower))
        return in_empty_folder(job) if self._alone else job

    def _holds_alone(self, program: Program) -> bool:
        return self.target.shown_by(self.workers.run(in_empty_folder(self._job(program, "plain"))))


def in_empty_folder(job: Job) -> Job:
    """The job run in a folder that holds nothing but the program's files."""
    return replace(job, root=NOWHERE, cwd=NOWHERE)


def _not_failed(report: Report) -> Judgement:
    verdict = {
        "raised": Verdict.OTHER,
        "finished": Verdict.PASSED,
        "exhausted": Verdict.PASSED,
        "captured": Verdict.PASSED,
        "timeout": Verdict.TIMEOUT,
        "killed": Verdict.KILLED,
        "invalid": Verdict.INVALID,
    }[report.outcome]
    return Judgement(verdict, report.error or "", report=report)
