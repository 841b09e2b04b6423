"""How far from the limit: wall time of the command against the least that any reducer of its kind needs.

    python benchmarks/limit.py [--only 001 ...] [--jobs N]

One run of the script must be seen, imports included; after that, the least that shows a program to be 1-minimal is one
run of every patch that the passes still propose for it. The sum of both is the limit. The script, the command and the
patches are timed one after the other, so that a busy machine slows all three. Prints the cases, and the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpus.cases import cases, command, is_plain_script, labels, surroundings
from shrinkrepro.diagnosis import diagnose
from shrinkrepro.facts import Facts
from shrinkrepro.isolation.workers import Workers, processors
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.oracle import job_for
from shrinkrepro.passes import PASSES
from shrinkrepro.program.check import invalid
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Program


@dataclass(frozen=True)
class Measured:
    """Seconds of one plain run, of the command, and of one run of every patch that is left; how many those are."""

    plain: float
    command: float
    patches: float
    count: int

    @property
    def limit(self) -> float:
        """The least that any reducer of this kind needs."""
        return self.plain + self.patches


def remaining(program: Program, workers: Workers) -> list[Program]:
    """What the passes still propose for a program that fails: every different text that could run."""
    trace = workers.run(job_for(program, "trace")).trace
    assert trace is not None, "the reduced program does not fail"
    facts = Facts(
        program,
        diagnose(trace, dict(program.texts)),
        lambda: workers.run(job_for(program, "observe")).observation,
    )
    proposed = [patch.apply(program) for step in PASSES for patch in step(program, facts)]
    return [each for each in {each.texts: each for each in proposed}.values() if invalid(each) is None]


def measured(case: Path, zygote: Zygote, jobs: int) -> Measured:
    """Time one case of the corpus."""
    told = labels(case)
    shrinking = [sys.executable, "-m", "shrinkrepro", "--json", "--quiet", "--jobs", str(jobs)]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "minimal.py")
        started = time.perf_counter()
        subprocess.run(command(told), cwd=case, env=surroundings(told), capture_output=True, check=False)
        plain = time.perf_counter() - started
        started = time.perf_counter()
        done = subprocess.run(
            [*shrinking, "--output", str(output), told["entry"], "--", *told["args"]],
            cwd=case,
            env=surroundings(told),
            stdout=subprocess.PIPE,
            check=True,
        )
        seconds = time.perf_counter() - started
        written = Path(case, json.loads(done.stdout)["reduced"]["path"])
        program = load_script(str(written), cwd=folder)
        workers = Workers(zygote, jobs)
        left = remaining(program, workers)
        started = time.perf_counter()
        workers.run_all(job_for(each) for each in left)
        return Measured(plain, seconds, time.perf_counter() - started, len(left))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=processors())
    options = parser.parse_args(arguments)
    # a notebook cannot be run plainly; the few others that are no plain scripts are left out
    chosen = [case for case in cases(options.only) if is_plain_script(labels(case))]
    rows = []
    print(f"{'case':36} {'plain':>6} {'limit':>6} {'command':>7} {'patches':>7} {'against limit':>13} {'plain':>6}")
    with Zygote() as zygote:
        zygote.preload(("torch", "torch._dynamo"))
        for case in chosen:
            row = measured(case, zygote, options.jobs)
            rows.append(row)
            print(
                f"{case.name:36} {row.plain:6.1f} {row.limit:6.1f} {row.command:7.1f} {row.count:7}"
                f" {row.command / row.limit:13.1f} {row.command / row.plain:6.1f}",
                flush=True,
            )
    against_limit = statistics.median(row.command / row.limit for row in rows)
    against_plain = statistics.median(row.command / row.plain for row in rows)
    print(f"median against the limit: {against_limit:.1f}; against one plain run: {against_plain:.1f}")


if __name__ == "__main__":
    main()
