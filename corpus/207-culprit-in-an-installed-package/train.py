"""Retrieve pictures by a code; the gates come from a library that was installed beside the script."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))

import torch
import torch.nn as nn
import torch.nn.functional as F
from softgate import HardGate, renormalise


class Encoder(nn.Module):
    def __init__(self, width=16, code=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, width), nn.Softplus())
        self.gate = HardGate(width)
        self.head = nn.Linear(width, code)

    def forward(self, x):
        return torch.tanh(self.head(self.gate(self.body(x))))


def contrast(queries, keys, temperature=0.2):
    queries = renormalise(queries)
    keys = F.normalize(keys, dim=-1)
    logits = queries @ keys.t() / temperature
    return F.cross_entropy(logits, torch.arange(len(queries)))


def main():
    torch.manual_seed(4)
    encoder, momentum = Encoder(), Encoder()
    momentum.load_state_dict(encoder.state_dict())
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    for step in range(10):
        pictures = torch.randn(8, 10)
        with torch.no_grad():
            keys = momentum(pictures + 0.1 * torch.randn(8, 10))
        loss = contrast(encoder(pictures), keys)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(momentum.parameters(), encoder.parameters()):
                slow.lerp_(fast, 0.05)
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
