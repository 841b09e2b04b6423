"""Fit a mixture of slopes to points that come on standard input; settings are environment variables."""
import json
import os
import sys

import torch
import torch.nn as nn


def setting(name, default, kind):
    return kind(os.environ.get(f"MIX_{name}", default))


def read_points(stream):
    rows = []
    for line in stream:
        line = line.partition("#")[0].strip()
        if line:
            rows.append([float(part) for part in line.split(",")])
    if not rows:
        sys.exit("no points on standard input")
    return torch.tensor(rows)


class Mixture(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.slopes = nn.Parameter(torch.linspace(-1.0, 1.0, parts))
        self.gate = nn.Linear(1, parts)
        self.temperature = setting("TEMPERATURE", "2.0", float)

    def forward(self, x):
        weights = torch.exp(self.gate(x) / self.temperature)
        weights /= weights.sum(dim=-1, keepdim=True)
        return (weights * self.slopes * x).sum(dim=-1)


def main():
    torch.manual_seed(setting("SEED", "3", int))
    points = read_points(sys.stdin)
    x, y = points[:, :1], points[:, 1]
    model = Mixture(setting("PARTS", "3", int))
    optimizer = torch.optim.Adam(model.parameters(), lr=setting("LR", "0.02", float))
    history = []
    for step in range(setting("STEPS", "20", int)):
        optimizer.zero_grad()
        loss = (model(x) - y).abs().mean()
        loss.backward()
        optimizer.step()
        history.append(round(loss.item(), 4))
    json.dump(history, sys.stdout)


if __name__ == "__main__":
    if os.environ.get("MIX_RUN") != "yes":
        sys.exit("set MIX_RUN=yes to begin")
    main()
