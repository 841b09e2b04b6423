"""Denoising autoencoder for sine waves. Batches are written into one buffer, so that nothing is allocated twice."""
import itertools
import math
import time

import torch
from torch import nn, optim

LENGTH = 32
STEPS = 4
ACCUMULATE = 3
BATCH = 10


def make_waves(count, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, LENGTH)
    frequency = torch.randint(1, 5, (count, 1), generator=g)
    phase = 2 * math.pi * torch.rand(count, 1, generator=g)
    waves = torch.sin(2 * math.pi * frequency * t + phase)
    waves *= 0.5 + 0.5 * torch.rand(count, 1, generator=g)
    return waves


def indices(count, size, seed):
    """Endless shuffled batches of indices."""
    g = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(count, generator=g)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def noisy_batches(waves, size, noise, seed):
    """Endless (noisy, clean) pairs."""
    g = torch.Generator().manual_seed(seed)
    noisy = torch.empty(size, LENGTH)
    clean = torch.empty(size, LENGTH)
    for chosen in indices(len(waves), size, seed):
        torch.index_select(waves, 0, chosen, out=clean)
        noisy.normal_(0.0, noise, generator=g)
        noisy += clean
        yield noisy, clean


def autoencoder(bottleneck=6):
    return nn.Sequential(
        nn.Linear(LENGTH, 20),
        nn.ELU(inplace=True),
        nn.Linear(20, bottleneck),
        nn.Tanh(),
        nn.Linear(bottleneck, 20),
        nn.ELU(inplace=True),
        nn.Linear(20, LENGTH),
    )


def signal_to_noise(clean, guess):
    error = (clean - guess).pow_(2).mean()
    return 10 * math.log10(clean.pow(2).mean().item() / error.item())


class Stopwatch:
    def __enter__(self):
        self.start = time.perf_counter()
        return self

    def __exit__(self, *exc):
        self.seconds = time.perf_counter() - self.start


def accumulate(model, batches, count):
    """The mean loss over `count` batches: as good as one batch that is `count` times as large."""
    total = 0.0
    for noisy, clean in itertools.islice(batches, count):
        loss = nn.functional.mse_loss(model(noisy), clean)
        loss /= count
        total = total + loss
    return total


def evaluate(model, waves, noise):
    noisy, clean = next(noisy_batches(waves, len(waves), noise, seed=99))
    with torch.inference_mode():
        return signal_to_noise(clean, model(noisy))


def main():
    torch.manual_seed(0)
    model = autoencoder()
    train, held_out = make_waves(60, seed=1), make_waves(20, seed=2)
    batches = noisy_batches(train, BATCH, noise=0.3, seed=3)
    optimizer = optim.NAdam(model.parameters(), lr=4e-3)
    best = -math.inf
    with Stopwatch() as watch:
        for step in range(STEPS):
            loss = accumulate(model, batches, ACCUMULATE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            best = max(best, evaluate(model, held_out, noise=0.3))
            print(f"step {step} loss {loss.item():.4f} best {best:.2f} dB")
    if watch.seconds > 60:
        print("slow machine?")


if __name__ == "__main__":
    main()
