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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpus.cases import cases
from corpus.cases import program as program_of
from shrinkrepro import distil
from shrinkrepro.diagnosis import diagnose
from shrinkrepro.failure import parse
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.oracle import Oracle, Target, Verdict, job_for
from shrinkrepro.program.source import Program, count_tokens
from shrinkrepro.runtime.messages import Limits


def distilled(program: Program, workers: Workers) -> tuple[int, int | None]:
    """How many guesses were judged, and the tokens of the one that held (None: none did, or none could be written)."""
    plain, traced = workers.run_all([job_for(program, "plain"), job_for(program, "trace")])
    failure = parse(plain.failure or "")
    if failure is None or traced.trace is None:
        return 0, None
    known = diagnose(traced.trace, dict(program.texts))
    oracle = Oracle(Target(program, failure, known), workers, Limits(wall=60))
    guesses = [guess for group in distil.guesses(program, traced.trace, workers, Limits(wall=120)) for guess in group]
    for number, guess in enumerate(guesses, 1):
        if oracle.judge(guess).verdict is Verdict.SAME:
            return number, count_tokens(guess.entry.text)
    return len(guesses), None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    chosen = cases(parser.parse_args(arguments).only)
    missed = []
    print(f"{'case':36} guesses  tokens  seconds")
    with Zygote() as zygote:
        zygote.preload(("torch", "torch._dynamo"))
        for case in chosen:
            started = time.perf_counter()
            judged, held = distilled(program_of(case), Workers(zygote, 2))
            seconds = time.perf_counter() - started
            print(f"{case.name:36} {judged:7}  {'-' if held is None else held:>6}  {seconds:7.1f}", flush=True)
            if held is None:
                missed.append(case.name)
    print(f"distilled: {len(chosen) - len(missed)} of {len(chosen)}; not: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
