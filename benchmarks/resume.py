"""Kills a reduction at random moments and takes it up again: each time the result must be that of an undisturbed run.

    python benchmarks/resume.py [--times 200] [--seed 1] [--case 005-resnet-residual-iadd]

Prints, for each time, the moment, and at the end how many results were the same. Exit status 1 if one was not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "corpus"


def command(case: str, folder: Path, *options: str) -> list[str]:
    """The command line that reduces the case's script to a file in `folder`."""
    script, output = CORPUS / case / "train.py", folder / "minimal.py"
    return [sys.executable, "-m", "shrinkrepro", str(script), "-o", str(output), "--json", *options]


def environment(folder: Path) -> dict[str, str]:
    """This process's environment, with the journals in `folder`."""
    paths = os.pathsep.join(filter(None, [str(CORPUS.parent), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": paths, "SHRINKREPRO_STATE": str(folder / "state")}


def reduced(case: str, folder: Path, *options: str) -> str:
    """The smallest program that a run to the end finds."""
    done = subprocess.run(
        command(case, folder, *options), env=environment(folder), capture_output=True, text=True, check=True
    )
    source: str = json.loads(done.stdout)["reduced"]["source"]
    return source


def killed(case: str, folder: Path, seconds: float) -> None:
    """Begin a reduction and kill it after some time."""
    process = subprocess.Popen(
        command(case, folder), env=environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    process.kill()
    process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", default="005-resnet-residual-iadd")
    options = parser.parse_args(arguments)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as top:
        started = time.monotonic()
        expected = reduced(options.case, Path(top))
        whole = time.monotonic() - started
    same = 0
    for number in range(1, options.times + 1):
        moment = draw.uniform(0, whole)
        with tempfile.TemporaryDirectory() as top:
            killed(options.case, Path(top), moment)
            equal = reduced(options.case, Path(top), "--resume") == expected
        same += equal
        print(f"{number:4}  killed after {moment:6.2f} s of {whole:.1f}: {'same' if equal else 'ANOTHER'}", flush=True)
    print(f"same result: {same} of {options.times}")
    return 0 if same == options.times else 1


if __name__ == "__main__":
    sys.exit(main())
