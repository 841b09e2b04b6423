"""How many of the corpus are distilled: for each case, which of the guesses written from the trace holds, if any does.

    python benchmarks/distil.py [--only 001 ...]

Prints the cases, the number of guesses judged until one held, its size, and at the end which were not distilled.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from shrinkrepro.errors import ShrinkReproError
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.pipeline import Options, reduce
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Program, count_tokens
from shrinkrepro.reduction.engine import Adopted, Judged

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORPUS = Path(__file__).resolve().parent.parent / "corpus"


class Lasting(Zygote):
    """A zygote that outlives the reductions which use it."""

    def close(self) -> None:
        """Stay."""


def program_of(case: Path) -> Program:
    """The program of a case, as case.toml starts it."""
    truth = tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))
    return load_script(truth["entry"], [str(argument) for argument in truth.get("args", [])], cwd=str(case))


def distilled(program: Program, zygote: Zygote) -> tuple[int, int | None]:
    """How many guesses were judged, and the tokens of the one that held (None: none did)."""
    judged, held = 0, None

    def listen(event: object) -> None:
        nonlocal judged, held
        if isinstance(event, Judged) and event.step == "distil" and held is None:
            judged += 1
        if isinstance(event, Adopted) and event.step == "distil" and held is None:
            held = count_tokens(event.program.entry.text)

    reduce(program, Options(), [listen], passes=(), start=lambda: zygote)
    return judged, held


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    only = parser.parse_args(arguments).only
    cases = [path.parent for path in sorted(CORPUS.glob("*/case.toml"))]
    cases = [case for case in cases if not only or any(case.name.startswith(word) for word in only)]
    missed = []
    zygote = Lasting()
    zygote.preload(("torch", "torch._dynamo"))
    print(f"{'case':36} guesses  tokens  seconds")
    for case in cases:
        started = time.perf_counter()
        try:
            judged, held = distilled(program_of(case), zygote)
        except ShrinkReproError as problem:
            print(f"{case.name:36} {problem}")
            missed.append(case.name)
            continue
        seconds = time.perf_counter() - started
        print(f"{case.name:36} {judged:7}  {'-' if held is None else held:>6}  {seconds:7.1f}", flush=True)
        if held is None:
            missed.append(case.name)
    Zygote.close(zygote)
    print(f"distilled: {len(cases) - len(missed)} of {len(cases)}; not: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
