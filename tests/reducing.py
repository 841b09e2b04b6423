"""A whole reduction on a fork server that many tests share: everything but the final runs in fresh interpreters."""

from __future__ import annotations

from dataclasses import dataclass

from shrinkrepro import distil
from shrinkrepro.diagnosis import Diagnosis, diagnose
from shrinkrepro.failure import VersionMismatch, parse
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.oracle import Oracle, Target, job_for
from shrinkrepro.passes import LATE, PASSES
from shrinkrepro.program.source import Program
from shrinkrepro.reduction.engine import Reduction, Stopped
from shrinkrepro.runtime.messages import Limits, Trace


@dataclass(frozen=True)
class Look:
    """What the first runs of a program show."""

    failure: VersionMismatch
    trace: Trace
    diagnosis: Diagnosis


def look(program: Program, workers: Workers) -> Look:
    """Run a program that fails, once plainly and once traced."""
    plain, traced = workers.run_all([job_for(program, "plain"), job_for(program, "trace")])
    failure = parse(plain.failure or "")
    assert failure is not None and traced.trace is not None
    return Look(failure, traced.trace, diagnose(traced.trace, dict(program.texts)))


def reduced(program: Program, workers: Workers, *, distilled: bool = True) -> Stopped:
    """What all passes make of a program: of its distilled candidates first, unless they are to do without those."""
    seen = look(program, workers)
    oracle = Oracle(Target(program, seen.failure, seen.diagnosis), workers, Limits(wall=30))
    reduction = Reduction(program, seen.diagnosis, oracle)
    if not distilled:
        return reduction.run(PASSES, late=LATE)
    return reduction.run(
        PASSES, lambda version: distil.guesses(version, look(version, workers).trace, workers, oracle.limits), LATE
    )
