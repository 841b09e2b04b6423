"""What one candidate costs: forked from the warm process, and as `python candidate.py`, as other reducers run it.

    python benchmarks/candidate_cost.py [--script corpus/001-gan-step-order/train.py] [--rounds 7] [--jobs N]

Both run the same program, the script and then the case's golden.py (what a reduction ends with, in an empty folder),
turn by turn, so that a busy machine slows both. Prints medians of wall-clock time. "at once" is the time for a batch
divided by its size.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shrinkrepro.isolation.workers import Workers, processors
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.oracle import in_empty_folder, job_for
from shrinkrepro.program.load import load_script
from shrinkrepro.runtime.messages import Job

CASE = Path(__file__).resolve().parent.parent / "corpus" / "001-gan-step-order"
GOAL = 200


@dataclass(frozen=True)
class Costs:
    """Seconds a candidate: in a plain interpreter, forked one after the other, forked several at once."""

    plain: float
    alone: float
    together: float


def seconds(action: Callable[[], object]) -> float:
    """How long the action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def plain_run(job: Job) -> None:
    """Run the job's program as `python candidate.py` in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in job.files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run(
            [sys.executable, job.entry], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )


def variants(job: Job, count: int) -> list[Job]:
    """The same program in different words, as far as a cache can tell."""
    text = job.files[job.entry]
    return [replace(job, files={**job.files, job.entry: f"{text}\n# {number}\n"}) for number in range(count)]


def costs(job: Job, zygote: Zygote, rounds: int, jobs: int) -> Costs:
    """Measure one program. Each round is one plain run, a few forked runs, and a batch of forked runs."""
    one, several = Workers(zygote, 1), Workers(zygote, jobs)
    zygote.preload(one.run(job).modules)
    assert one.run(job).outcome == "failed", f"{job.entry} does not fail"
    plain, alone, together = [], [], []
    for _ in range(rounds):
        plain.append(seconds(lambda: plain_run(job)))
        alone += [seconds(lambda each=each: one.run(each)) for each in variants(job, 5)]
        batch = variants(job, 8 * jobs)
        together.append(seconds(lambda batch=batch: several.run_all(batch)) / len(batch))
    return Costs(*map(statistics.median, (plain, alone, together)))


def table(rows: Sequence[tuple[str, Costs]], jobs: int) -> str:
    """The costs in milliseconds, and how many times as much a plain interpreter costs."""
    head = ("program", "python", "forked", "ratio", f"forked, {jobs} at once", "ratio")
    body = [
        (
            name,
            f"{cost.plain * 1000:.0f} ms",
            f"{cost.alone * 1000:.1f} ms",
            f"{cost.plain / cost.alone:.0f}",
            f"{cost.together * 1000:.1f} ms",
            f"{cost.plain / cost.together:.0f}",
        )
        for name, cost in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in (head, *body))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", default=str(CASE / "train.py"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=processors())
    options = parser.parse_args()
    script = job_for(load_script(options.script))
    golden = in_empty_folder(job_for(load_script(str(Path(options.script).with_name("golden.py")))))
    with Zygote() as zygote:
        rows = [(job.entry, costs(job, zygote, options.rounds, options.jobs)) for job in (script, golden)]
    print(table(rows, options.jobs))
    print(f"{1 / rows[-1][1].together:.0f} candidates a second at the end of a reduction")
    ratio = rows[-1][1].plain / rows[-1][1].together
    print(f"{ratio:.0f} times cheaper than an interpreter; the goal is {GOAL}.")


if __name__ == "__main__":
    main()
