"""A small Fourier neural operator: predicts Burgers-like fields some time ahead. Complex weights, truncated spectra."""
import argparse
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class SpectralConv(nn.Module):
    """Multiplies the lowest modes by learned complex weights; higher modes are dropped."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        scale = 1 / channels
        self.weight = nn.Parameter(scale * torch.randn(channels, channels, modes, dtype=torch.cfloat))

    def forward(self, x):
        spectrum = torch.fft.rfft(x, norm="ortho")
        energy = spectrum.abs().square()
        # the part beyond the modes that have weights is noise
        spectrum[..., self.modes :] = 0
        mixed = torch.zeros_like(spectrum)
        mixed[..., : self.modes] = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], self.weight)
        wasted = energy[..., self.modes :].sum(-1) / energy.sum(-1).clamp(min=1e-6)
        return torch.fft.irfft(mixed, n=x.size(-1), norm="ortho"), wasted.mean()


class FourierLayer(nn.Module):
    def __init__(self, channels, modes, last=False):
        super().__init__()
        self.spectral = SpectralConv(channels, modes)
        self.local = nn.Conv1d(channels, channels, 1)
        self.last = last

    def forward(self, x):
        y, wasted = self.spectral(x)
        y = y + self.local(x)
        return (y if self.last else F.gelu(y)), wasted


class FNO(nn.Module):
    def __init__(self, channels, modes, depth):
        super().__init__()
        self.lift = nn.Conv1d(2, channels, 1)
        self.layers = nn.ModuleList(FourierLayer(channels, modes, last=i == depth - 1) for i in range(depth))
        self.project = nn.Sequential(nn.Conv1d(channels, channels, 1), nn.GELU(), nn.Conv1d(channels, 1, 1))

    def forward(self, field):
        position = torch.linspace(0, 1, field.size(-1)).expand_as(field)
        x, waste = self.lift(torch.stack([field, position], dim=1)), []
        for layer in self.layers:
            x, wasted = layer(x)
            waste.append(wasted)
        return self.project(x).squeeze(1), sum(waste) / len(waste)


def initial_fields(count, points, generator):
    """Random smooth periodic fields."""
    spectrum = torch.randn(count, points // 2 + 1, dtype=torch.cfloat, generator=generator)
    spectrum *= torch.exp(-0.5 * torch.arange(points // 2 + 1))
    spectrum[:, 0] = 0
    return torch.fft.irfft(spectrum, n=points, norm="forward")


def advance(field, steps, dt=2e-3, viscosity=0.02):
    """Burgers' equation by finite differences on a ring."""
    field, dx = field.clone(), 1 / field.size(-1)
    for _ in range(steps):
        left, right = field.roll(1, -1), field.roll(-1, -1)
        slope = (right - left) / (2 * dx)
        field += dt * (viscosity * (left - 2 * field + right) / dx**2 * 0.1 - 0.1 * field * slope)
    return field


def relative_error(guess, truth):
    return ((guess - truth).norm(dim=-1) / truth.norm(dim=-1)).mean()


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=32)
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--modes", type=int, default=6)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--waste", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=55)
    args = parser.parse_args(argv)

    torch.manual_seed(args.seed)
    before = initial_fields(args.samples, args.points, torch.Generator().manual_seed(args.seed))
    after = advance(before, steps=20)
    model = FNO(args.channels, args.modes, args.depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for epoch in range(args.epochs):
        for chosen in torch.randperm(args.samples).split(8):
            guess, wasted = model(before[chosen])
            loss = relative_error(guess, after[chosen]) + args.waste * wasted
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch} loss {loss.item():.4f} wasted {wasted.item():.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
