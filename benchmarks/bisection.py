"""Repairs of the corpus: is each program mended, are the numbers the same, how many runs and seconds did it take?

    python benchmarks/bisection.py [CASE ...]

Each case is copied to a temporary folder and bisected there; the patch is applied to another copy by `patch -p1`, and
the patched program is run by a plain interpreter. Prints one line of a Markdown table for each case.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpus.cases import cases, command, labels, program, surroundings
from shrinkrepro.pipeline import Options, bisect
from shrinkrepro.proof import Comparison
from shrinkrepro.report.patch import changes, patch
from shrinkrepro.results import Attempt

PHRASE = "modified by an inplace operation"
HEADINGS = (
    "case",
    "mended",
    "patched copy",
    "loss",
    "gradients",
    "later",
    "edits",
    "tried",
    "runs",
    "seconds",
    "repair",
)


def main(names: list[str]) -> None:
    print(" | ".join(("", *HEADINGS, "")).strip())
    print("|" + " --- |" * len(HEADINGS))
    for case in cases(names):
        print(" | ".join(("", case.name, *measure(case), "")).strip(), flush=True)


def measure(case: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        tried, patched = (Path(shutil.copytree(case, Path(folder, name))) for name in ("tried", "patched"))
        loaded = program(case, tried)
        started = time.monotonic()
        bisected = bisect(loaded, Options(timeout=120))
        mending = bisected.mending
        seconds = time.monotonic() - started
        chosen = mending.chosen
        if chosen is None:
            return ["no", "", "", "", "", "", str(len(mending.attempts)), str(mending.runs), f"{seconds:.0f}", ""]
        diff = patch(changes(bisected.explanation.program, chosen.program))
        subprocess.run(["patch", "-p1", "--quiet"], input=diff, cwd=patched, check=True)
        return [
            "yes",
            "passes" if passes(patched, labels(case)) else "FAILS",
            *verdicts(chosen),
            str(len(chosen.repairs)),
            str(len(mending.attempts)),
            str(mending.runs),
            f"{seconds:.0f}",
            "; ".join(f"{repair.file}:{repair.line} {repair.patch.label}" for repair in chosen.repairs),
        ]


def verdicts(attempt: Attempt) -> list[str]:
    return [word(part) for part in (attempt.proof.loss, attempt.proof.gradients, attempt.proof.later)]


def word(comparison: Comparison | None) -> str:
    if comparison is None:
        return "unknown"
    return "same" if comparison.same else f"off by {comparison.difference:.2g}"


def passes(folder: Path, told: dict[str, Any]) -> bool:
    """Whether the patched program runs without the error; a notebook's code cells are run as one script."""
    if told["entry"].endswith(".ipynb"):
        (folder / "cells.py").write_text(program(folder).entry.text, encoding="utf-8")
        told = {**told, "entry": "cells.py"}
    with Path(folder / told["stdin"] if "stdin" in told else os.devnull).open("rb") as stdin:
        done = subprocess.run(
            command(told), cwd=folder, env=surroundings(told), stdin=stdin, capture_output=True, text=True, check=False
        )
    return done.returncode == 0 and PHRASE not in done.stdout + done.stderr


if __name__ == "__main__":
    main(sys.argv[1:])
