"""Holds shrinkrepro against generated programs whose culprit is known: diagnoses, reductions and repairs.

    python benchmarks/generated.py --programs 5000 --reduce 1000 --seed 1 --jobs 2 --out /tmp/generated

Each program follows from the seed and its number alone, and each result is one line of `results.jsonl` in the output
folder: started again, the benchmark goes on where it was. A program on which shrinkrepro is wrong is written there too,
with what was expected and what came, as `wrong-NUMBER.py`.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import queue
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

# forked children must not inherit threads, and programs run side by side
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpus.generate.checks import Outcome, diagnosed, differential, patches, reduced, repaired
from corpus.generate.programs import program
from corpus.generate.shared import Shared
from corpus.generate.truth import Generated


def explained(generated: Generated, backend: Shared) -> Outcome:
    """The diagnosis is right, and PyTorch agrees when lines are taken out."""
    findings, figures = diagnosed(generated, backend)
    return [*findings, *differential(generated)], figures


CHECKS: dict[str, Callable[[Generated, Shared], Outcome]] = {
    "diagnose": explained,
    "clean": diagnosed,
    "reduce": reduced,
    "repair": repaired,
    "patches": lambda generated, backend: (patches(generated, backend), {}),
}


def work(seed: int, numbers: Iterable[tuple[str, int]], answers: Any) -> None:
    """Check programs in this process, with one warm backend for all of them."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    with Shared() as backend:
        for kind, number in numbers:
            if not parent.is_alive():
                return
            generated = program(seed, number, faults=0 if kind == "clean" else None)
            began = time.monotonic()
            findings, figures = CHECKS[kind](generated, backend)
            answers.put(
                {
                    "kind": kind,
                    "number": number,
                    "seconds": round(time.monotonic() - began, 3),
                    "findings": findings,
                    "text": "".join(f"# {path}\n{text}" for path, text in generated.files.items()) if findings else "",
                    **figures,
                }
            )
    answers.put(None)


def results(seed: int, todo: list[tuple[str, int]], jobs: int) -> Iterator[dict[str, Any]]:
    """The results of all checks as they come."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.Queue()
    processes = [context.Process(target=work, args=(seed, todo[n::jobs], answers)) for n in range(jobs)]
    for process in processes:
        process.daemon = True
        process.start()
    working = jobs
    while working:
        try:
            answer = answers.get(timeout=10)
        except queue.Empty:
            if any(process.exitcode for process in processes):
                raise SystemExit("a worker has died") from None
            continue
        if answer is None:
            working -= 1
        else:
            yield answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=500, help="how many to diagnose")
    parser.add_argument("--reduce", type=int, default=20, help="how many to reduce")
    parser.add_argument("--repair", type=int, default=10, help="how many to mend")
    parser.add_argument("--clean", type=int, default=50, help="how many without a harmful write")
    parser.add_argument("--patches", type=int, default=5, help="how many to try patches of every pass on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("generated"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / "results.jsonl"
    done = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    known = {(entry["kind"], entry["number"]) for entry in done}
    wanted = [
        *(("diagnose", number) for number in range(options.programs)),
        *(("clean", number) for number in range(options.clean)),
        *(("patches", number) for number in range(options.patches)),
        *(("reduce", number) for number in range(options.reduce)),
        *(("repair", number) for number in range(options.repair)),
    ]
    todo = [item for item in wanted if item not in known]
    with journal.open("a") as file:
        for answer in results(options.seed, todo, options.jobs) if todo else ():
            file.write(json.dumps({**answer, "text": ""}) + "\n")
            file.flush()
            done.append(answer)
            for finding in answer["findings"]:
                print(f"{answer['kind']} {answer['number']}: {finding}", flush=True)
            if answer["findings"]:
                head = "".join(f"# {finding}\n" for finding in answer["findings"])
                (options.out / f"wrong-{answer['kind']}-{answer['number']}.py").write_text(head + answer["text"])
    summary(done)


def summary(done: list[dict[str, Any]]) -> None:
    for kind in CHECKS:
        entries = [entry for entry in done if entry["kind"] == kind]
        if not entries:
            continue
        wrong = [entry for entry in entries if entry["findings"]]
        seconds = [entry["seconds"] for entry in entries]
        print(
            f"{kind}: {len(entries)} programs, {len(wrong)} wrong; seconds: {statistics.median(seconds):.2f} median, "
            f"{max(seconds):.1f} worst, {sum(seconds):.0f} in all"
        )
        ratios = [entry["tokens"] / entry["smallest"] for entry in entries if entry.get("smallest")]
        if ratios:
            print(
                f"  tokens against the smallest by construction: {statistics.median(ratios):.2f} median, "
                f"{max(ratios):.2f} worst, of {len(ratios)}"
            )
        runs = [entry["runs"] for entry in entries if "runs" in entry]
        if runs:
            print(f"  runs for a repair: {statistics.median(runs):.0f} median, {max(runs)} at most")
        nodes = collections.Counter(entry.get("node") for entry in entries if "node" in entry)
        if nodes:
            print(
                f"  {len(nodes)} kinds of graph node; methods: {collections.Counter(e.get('method') for e in entries)}"
            )


if __name__ == "__main__":
    main()
