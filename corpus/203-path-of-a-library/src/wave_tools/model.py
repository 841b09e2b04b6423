import torch
import torch.nn as nn

__all__ = ["Damped"]


def decay(rate, t):
    """exp(-rate * t), held at one before the start."""
    factor = torch.exp(-rate * t)
    factor.clamp_(max=1.0)
    return factor


class Damped(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.1))
        self.omega = nn.Parameter(torch.tensor(1.5))

    def forward(self, t):
        return decay(self.rate, t) * torch.cos(self.omega * t)
