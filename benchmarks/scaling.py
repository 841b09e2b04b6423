"""How the cost grows with the script: generated scripts of 50 to 3,200 lines, each with one harmful write.

    python benchmarks/scaling.py [--lines 50 200 800 3200] [--jobs N]

A script is a network of many stages, each with a module, a helper and settings of its own; the write is in the middle
one. Prints wall time (without the import of PyTorch), runs and tokens, then how fast time and runs grow: the slope in
logarithms over all sizes, which is 1 for linear growth.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from shrinkrepro.isolation.workers import processors
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.pipeline import Options, reduce
from shrinkrepro.program.load import load_script
from shrinkrepro.results import Result

_HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
WIDTH = 8
BATCH = 4
"""
_STAGE = """\


SETTINGS_{n} = {{"scale": 0.{n}1, "bias": True, "rate": 0.1}}


def rescaled_{n}(batch, scale=SETTINGS_{n}["scale"]):
    low = batch.min()
    if low > 10:
        raise ValueError("stage {n} ran away")
    return batch * scale + low


class Stage{n}(nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.project = nn.Linear(width, width, bias=bias)
        self.norm = nn.LayerNorm(width)
        self.seen = 0

    def forward(self, batch):
        self.seen += len(batch)
        hidden = self.norm(self.project(batch))
        gate = torch.sigmoid(hidden)
        {write}
        return rescaled_{n}(hidden * gate) + batch
"""
_TAIL = """\


def main():
    stages = [{stages}]
    parameters = [parameter for stage in stages for parameter in stage.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(3):
        batch = torch.randn(BATCH, WIDTH)
        for stage in stages:
            batch = stage(batch)
        loss = batch.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


main()
"""
_HARMLESS, _HARMFUL = "gate = gate.mul(2.0)", "gate.mul_(2.0)"


@dataclass(frozen=True)
class Measured:
    """One script: its lines, the seconds and runs that it took, the tokens that are left."""

    lines: int
    seconds: float
    runs: int
    tokens: int


def script(lines: int) -> str:
    """A script of about so many lines that fails in its middle stage."""
    around, each = len((_HEAD + _TAIL).splitlines()), len(_STAGE.splitlines())
    count = max(1, round((lines - around) / each))
    written = [_STAGE.format(n=n, write=_HARMFUL if n == count // 2 else _HARMLESS) for n in range(count)]
    built = ", ".join(f'Stage{n}(WIDTH, SETTINGS_{n}["bias"])' for n in range(count))
    return _HEAD + "".join(written) + _TAIL.format(stages=built)


def measured(text: str, jobs: int) -> Measured:
    """Reduce one script with a zygote that has imported PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(text, encoding="utf-8")
        program = load_script(str(path), cwd=folder)
        with closing(Zygote()) as zygote:
            zygote.preload(("torch", "torch._dynamo"))
            started = time.perf_counter()
            result: Result = reduce(program, Options(jobs=jobs), start=lambda: zygote)
            seconds = time.perf_counter() - started
    assert result.reduced is not None, "not verified"
    return Measured(len(text.splitlines()), seconds, result.candidates.run, result.reduced.program.tokens)


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent of the power law that fits best: 1 where costs grow as sizes do."""
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(cost) for cost in costs]).slope


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[50, 200, 800, 3200])
    parser.add_argument("--jobs", type=int, default=processors())
    options = parser.parse_args()
    print(f"{'lines':>6} {'seconds':>8} {'runs':>6} {'tokens':>6}")
    rows = []
    for lines in options.lines:
        row = measured(script(lines), options.jobs)
        rows.append(row)
        print(f"{row.lines:6} {row.seconds:8.1f} {row.runs:6} {row.tokens:6}", flush=True)
    if len(rows) < 2:
        return
    sizes = [row.lines for row in rows]
    seconds, runs = slope(sizes, [row.seconds for row in rows]), slope(sizes, [row.runs for row in rows])
    print(f"growth (1 is linear): seconds {seconds:.2f}, runs {runs:.2f}")


if __name__ == "__main__":
    main()
