"""Runs thousands of candidates through one zygote, a tenth of them hostile, and measures what stays behind.

    python benchmarks/soak.py [--candidates 10000] [--every 10] [--jobs 2]

Every tenth candidate (`--every`) is one of tests/hostile/programs, in turn; the others fail as users' scripts do, pass,
or raise. Prints every 500 candidates, and at the end, the processes, the zygote's open files and memory, the entries of
its scratch folder, and what changed in the canary folders. Exit status 1 if a verdict was wrong or anything stayed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from hostile.harness import PROGRAMS, State, World, ended, expected, settled, world  # noqa: E402

from shrinkrepro.isolation.zygote import Zygote  # noqa: E402
from shrinkrepro.runtime.messages import Job  # noqa: E402

FAILS = "import torch\nx = torch.ones(3, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()\n"
SAVES = "import torch\ntorch.save(torch.ones(1000), 'model.pt')\nopen('log.txt', 'a').write('done')\n"
# Text and the ends that it may have.
ORDINARY = ((FAILS, ("failed",)), ("x = 1\n", ("finished",)), (SAVES, ("finished",)), ("1 / 0\n", ("raised",)))


@dataclass(frozen=True)
class Soaked:
    """How many verdicts were wrong, the state before and after, and the zygote's memory in bytes on the way."""

    wrong: tuple[str, ...]
    before: State
    after: State
    memory: tuple[int, ...]
    seconds: float

    @property
    def clean(self) -> bool:
        return not self.wrong and self.before == self.after


def candidates(around: World, count: int, every: int) -> Iterator[tuple[str, Job, tuple[str, ...]]]:
    """Name, job and allowed ends of each candidate."""
    for number in range(1, count + 1):
        if number % every == 0:
            program = PROGRAMS[number // every % len(PROGRAMS)]
            yield program.stem, around.job(program), expected(program)
        else:
            text, ends = ORDINARY[number % len(ORDINARY)]
            folder = str(around.canary)
            yield text, Job({"train.py": text}, folder, "train.py", folder), ends


def soak(around: World, zygote: Zygote, count: int, every: int, jobs: int, step: int = 500) -> Soaked:
    """Run the candidates, `jobs` at a time, after a round of each kind that lets memory and caches fill."""
    for _, job, _ in candidates(around, 20, every):
        zygote.wait(zygote.submit(job))
    time.sleep(1)
    before, started = around.state(zygote), time.monotonic()
    wrong: list[str] = []
    memory = [_memory(zygote)]
    waiting: deque[tuple[str, int, tuple[str, ...]]] = deque()

    def judge() -> None:
        name, ticket, ends = waiting.popleft()
        report = zygote.wait(ticket)
        if not set(ends) & set(ended(report)):
            wrong.append(f"{name!r}: {report.outcome} {report.error_type} {report.error}")

    for number, (name, job, ends) in enumerate(candidates(around, count, every), 1):
        if len(waiting) == jobs:
            judge()
        waiting.append((name, zygote.submit(job), ends))
        if number % step == 0:
            memory.append(_memory(zygote))
            passed = f"{number:6} candidates, {time.monotonic() - started:5.0f} s"
            print(f"{passed}: zygote {memory[-1] >> 10} KiB, {len(wrong)} wrong", flush=True)
    while waiting:
        judge()
    seconds = time.monotonic() - started
    after = settled(around, zygote, before)
    memory.append(_memory(zygote))
    return Soaked(tuple(wrong), before, after, tuple(memory), seconds)


def _memory(zygote: Zygote) -> int:
    """The zygote's own memory: what no file holds, shared with running children or not."""
    lines = Path(f"/proc/{zygote._process.pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Anonymous:"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    top, outside = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        with world(top, outside / "outside") as around, Zygote({**os.environ, "HOME": str(around.home)}) as zygote:
            zygote.preload(("torch", "numpy"))
            done = soak(around, zygote, options.candidates, options.every, options.jobs)
            folder = Path(zygote._folder)
    finally:
        shutil.rmtree(top)
        shutil.rmtree(outside)
    for line in done.wrong:
        print(line)
    for name, before in vars(done.before).items():
        after = getattr(done.after, name)
        same = "as before" if after == before else f"{before} before, {after} after"
        print(f"{name}: {same}")
    first, middle, last = (done.memory[index] >> 10 for index in (0, len(done.memory) // 2, -1))
    print(f"memory of the zygote: {first} KiB before, {middle} KiB in the middle, {last} KiB after")
    print(f"scratch folder gone with the zygote: {not folder.exists()}")
    print(f"{options.candidates} candidates in {done.seconds:.0f} s, {len(done.wrong)} wrong verdicts")
    return 0 if done.clean and not folder.exists() else 1


if __name__ == "__main__":
    sys.exit(main())
