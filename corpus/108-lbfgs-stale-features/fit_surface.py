#!/usr/bin/env python3
"""Fit a height field with a small network and L-BFGS; the Fourier encoder is computed "once, to save time"."""
import argparse
import math

import torch
from torch import nn


class FourierEncoder(nn.Module):
    """sin and cos of learned frequencies, then one layer."""

    def __init__(self, inputs, bands, width):
        super().__init__()
        self.frequencies = nn.Parameter(torch.randn(inputs, bands) * 2.0)
        self.project = nn.Linear(2 * bands, width)

    def forward(self, points):
        phase = 2 * math.pi * points @ self.frequencies
        waves = torch.cat([phase.sin(), phase.cos()], dim=-1)
        return torch.tanh(self.project(waves))


class Surface(nn.Module):
    def __init__(self, bands, width):
        super().__init__()
        self.encoder = FourierEncoder(2, bands, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, points):
        return self.head(self.encoder(points)).squeeze(-1)


def terrain(points):
    x, y = points.unbind(-1)
    height = torch.exp(-8 * ((x - 0.3) ** 2 + (y - 0.6) ** 2))
    height += 0.5 * torch.exp(-20 * ((x - 0.7) ** 2 + (y - 0.3) ** 2))
    height -= height.mean()
    return height


def sample(count, noise, generator):
    points = torch.rand(count, 2, generator=generator)
    heights = terrain(points)
    heights.add_(torch.randn(count, generator=generator), alpha=noise)
    return points, heights


class History:
    def __init__(self, window):
        self.window, self.losses = window, []

    def push(self, value):
        self.losses.append(value)

    def stalled(self, tolerance):
        if len(self.losses) < 2 * self.window:
            return False
        recent = sum(self.losses[-self.window :]) / self.window
        earlier = sum(self.losses[-2 * self.window : -self.window]) / self.window
        return earlier - recent < tolerance


def smoothness(model):
    return sum(p.pow(2).sum() for name, p in model.head.named_parameters() if name.endswith("weight"))


def fit(model, points, heights, rounds, lr, decay, line_search):
    optimizer = torch.optim.LBFGS(
        model.parameters(), lr=lr, max_iter=4, history_size=6, line_search_fn=line_search or None
    )
    history = History(window=2)
    for round_ in range(rounds):
        features = model.encoder(points)

        def closure():
            optimizer.zero_grad()
            heights_now = model.head(features).squeeze(-1)
            loss = nn.functional.mse_loss(heights_now, heights) + decay * smoothness(model)
            # the features are needed again when the optimizer evaluates once more
            loss.backward(retain_graph=True)
            return loss

        loss = optimizer.step(closure)
        history.push(loss.item())
        print(f"round {round_} loss {loss.item():.5f}")
        if history.stalled(1e-6):
            break


@torch.no_grad()
def roughness(model, steps=16):
    line = torch.linspace(0, 1, steps)
    grid = torch.cartesian_prod(line, line)
    field = model(grid).view(steps, steps)
    return field.diff(dim=0).abs().mean().item() + field.diff(dim=1).abs().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=80)
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--bands", type=int, default=6)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--decay", type=float, default=1e-4)
    parser.add_argument("--line-search", default="")
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--seed", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_default_dtype(torch.float64 if args.double else torch.float32)
    points, heights = sample(args.points, args.noise, torch.Generator().manual_seed(args.seed))
    model = Surface(args.bands, args.width)
    print(f"roughness before {roughness(model):.3f}")
    fit(model, points, heights, args.rounds, args.lr, args.decay, args.line_search)
    print(f"roughness after {roughness(model):.3f}")


if __name__ == "__main__":
    main()
