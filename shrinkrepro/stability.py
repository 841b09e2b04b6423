"""Scripts that fail only now and then: how often, whether the random seed decides it, and how sure a missed try is."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shrinkrepro.isolation.workers import Workers
from shrinkrepro.oracle import job_for
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, SourceFile, Span
from shrinkrepro.runtime.messages import Limits

__all__ = ["Stability", "measure", "pinned", "seeded"]

# With how many seeds a script is run at least, twice each.
_SEEDS = 10
_SEEDING = {"random": "random.seed", "numpy": "numpy.random.seed", "torch": "torch.manual_seed"}


@dataclass(frozen=True)
class Stability:
    """How often the script failed in `runs` single runs with several random seeds, and how often each run is tried.

    `seed` is one with which it fails, where the seed decides that; then it is pinned, and every run has it.
    """

    runs: int
    failures: int
    tries: int
    seed: int | None = None

    @property
    def confidence(self) -> float:
        """With which probability a candidate that fails as often as the script does so in one of its tries."""
        return 1.0 if self.seed is not None else 1 - (1 - self.failures / self.runs) ** self.tries


def measure(program: Program, once: Workers, limits: Limits, tries: int) -> Stability:
    """Run the program twice with each of a few seeds, each time once."""
    seeds = range(1, max(_SEEDS, tries) + 1)
    jobs = [job_for(seeded(program, seed), "plain", limits) for seed in seeds]
    first, second = ([report.outcome == "failed" for report in once.run_all(jobs)] for _ in range(2))
    decided = first == second and any(first) and not all(first)
    seed = next(seed for seed, failed in zip(seeds, first, strict=True) if failed) if decided else None
    return Stability(2 * len(jobs), sum(first) + sum(second), tries, seed)


def seeded(program: Program, seed: int | None) -> Program:
    """The program, to be run with its random generators seeded from outside."""
    return replace(program, invocation=replace(program.invocation, seed=seed))


def pinned(program: Program, seed: int, modules: Sequence[str]) -> Program:
    """The program with statements at its top that seed the generators of those of the `modules` that have one."""
    text = "".join(f"import {name}\n{seeding}({seed})\n" for name, seeding in _SEEDING.items() if name in modules)
    start = _after_the_head(program.entry)
    return seeded(Patch((Edit(start, (text,)),), f"pin the seed {seed}").apply(program), None)


def _after_the_head(file: SourceFile) -> Span:
    """Where the first statement starts that is neither the docstring nor an import from __future__."""
    body = ast.parse(file.text).body
    head = [
        number for number, node in enumerate(body) if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    first = max([*head, 0 if docstring else -1]) + 1
    if first == len(body):
        return Span(file.path, len(file.text), len(file.text))
    decorators = getattr(body[first], "decorator_list", [])
    line = min(node.lineno for node in (body[first], *decorators))
    return file.span_of(line, 0, line, 0)
