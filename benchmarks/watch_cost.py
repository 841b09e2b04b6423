"""What `with shrinkrepro.watch():` costs around a training step, in processor time, watched / plain.

    python benchmarks/watch_cost.py [--steps 60] [--repeats 7]

Prints the median of the paired ratios and their spread for a small transformer, on one thread. Entering the watch is
part of what is measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

import shrinkrepro


def step_of_a_transformer() -> Callable[[], None]:
    """One training step of two encoder layers on 32 sequences of 32 tokens."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model, batch = nn.TransformerEncoder(layer, 2), torch.randn(32, 32, 64)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def seconds(step: Callable[[], None], steps: int) -> float:
    """The processor time that `steps` steps take."""
    started = time.process_time()
    for _ in range(steps):
        step()
    return time.process_time() - started


def ratios(steps: int, repeats: int) -> list[float]:
    """Watched / plain, for pairs of runs one right after the other."""
    plain = step_of_a_transformer()
    watched = shrinkrepro.watch(plain)
    for step in (plain, watched):  # the first calls import and allocate
        seconds(step, 3)
    return [seconds(watched, steps) / seconds(plain, steps) for _ in range(repeats)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    found = ratios(options.steps, options.repeats)
    print(f"watched / plain: median {statistics.median(found):.2f}, from {min(found):.2f} to {max(found):.2f}")


if __name__ == "__main__":
    main()
