"""Fit a damped wave with the library in ../src, which is not installed."""
import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src"))

import torch

import wave_tools
from wave_tools import Damped, settings


def main():
    torch.manual_seed(settings.SEED)
    t = torch.linspace(0.0, settings.LENGTH, settings.POINTS)
    target = torch.exp(-0.3 * t) * torch.cos(2.0 * t)
    model = Damped()
    objective = getattr(importlib.import_module("wave_tools.losses"), settings.LOSS)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.LR)
    for step in range(settings.STEPS):
        optimizer.zero_grad()
        loss = objective(model(t), target)
        loss.backward()
        optimizer.step()
        print(wave_tools.describe(step, loss))


if __name__ == "__main__":
    main()
