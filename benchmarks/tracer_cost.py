"""What the tracer costs: the same training loop plain and traced, in processor time and in memory.

    python benchmarks/tracer_cost.py [--steps 300] [--repeats 5]

Prints, for each model, the median of the paired ratios traced / plain, and what a traced run of four times the
steps held after a third of them and after all: process memory, graph nodes known, writes logged. Flat numbers mean
that a long script costs no more memory than a short one.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

from shrinkrepro.runtime.tracer import Tracer


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Two encoder layers, 32 sequences of 32 tokens: what a small script does on a processor."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 2), torch.randn(32, 32, 64)


def perceptron() -> tuple[nn.Module, torch.Tensor]:
    """The worst case: many calls that compute next to nothing."""
    layers = [part for _ in range(4) for part in (nn.Linear(16, 16), nn.ReLU(inplace=True))]
    return nn.Sequential(*layers), torch.randn(8, 16)


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {"transformer": transformer, "perceptron": perceptron}


def training(build: Callable[[], tuple[nn.Module, torch.Tensor]], steps: int) -> Iterator[int]:
    """Train for `steps` steps, with what long scripts do: clipping, a running mean, losses kept in a list."""
    torch.manual_seed(0)
    model, batch = build()
    optimizer = torch.optim.Adam(model.parameters())
    mean, losses = torch.zeros(()), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean.mul_(0.9).add_(loss.detach(), alpha=0.1)
        losses.append(loss.detach())
        yield step


@dataclass(frozen=True)
class Held:
    """What a traced run holds at one moment: megabytes of the process at most, nodes known, writes logged."""

    megabytes: float
    nodes: int
    writes: int

    @classmethod
    def by(cls, tracer: Tracer) -> Held:
        gc.collect()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return cls(most, len(tracer._records), len(tracer._writes))


def seconds(build: Callable[[], tuple[nn.Module, torch.Tensor]], steps: int, tracer: Tracer | None) -> float:
    """The processor time of a run: other work on the machine does not count."""
    start = time.process_time()
    with tracer or nullcontext():
        for _ in training(build, steps):
            pass
    return time.process_time() - start


def growth(build: Callable[[], tuple[nn.Module, torch.Tensor]], steps: int) -> tuple[Held, Held]:
    """What a traced run holds after a third of its steps, and at the end."""
    moments = (steps // 3, steps - 1)
    with Tracer({__file__: "tracer_cost.py"}) as tracer:
        early, late = [Held.by(tracer) for step in training(build, steps) if step in moments]
    return early, late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {options.steps} steps, median of {options.repeats}")
    print(f"{'model':12} {'plain s':>8} {'traced s':>9} {'ratio':>6}   held after a third → at the end")
    for name, build in MODELS.items():
        seconds(build, 20, None)  # the optimizer's imports
        pairs = [
            (seconds(build, options.steps, None), seconds(build, options.steps, Tracer({__file__: "tracer_cost.py"})))
            for _ in range(options.repeats)
        ]
        plain, traced = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(slow / fast for fast, slow in pairs)
        early, late = growth(build, options.steps * 4)
        print(
            f"{name:12} {plain:8.2f} {traced:9.2f} {ratio:6.2f}   {early.megabytes:.0f} → {late.megabytes:.0f} MB, "
            f"{early.nodes} → {late.nodes} nodes, {early.writes} → {late.writes} writes"
        )


if __name__ == "__main__":
    main()
