import torch
import torch.nn as nn

__all__ = ["Emissions", "path_scores"]

_FLOOR = -8.0


class Emissions(nn.Module):
    def __init__(self, width, tags):
        super().__init__()
        self.out = nn.Linear(width, tags)

    def forward(self, h):
        return _floored(torch.tanh(self.out(h)) * 4.0)


def _floored(scores):
    return scores.clamp(min=_FLOOR)


def path_scores(scores, transitions):
    """Sum of the scores of all paths through a sentence, in logarithms."""
    alpha = scores[0]
    for step in scores[1:]:
        shifted = alpha.unsqueeze(-1) + transitions
        best = shifted.amax(dim=0)
        alpha = torch.exp(shifted - best).sum(dim=0).log() + best + step
    return alpha.logsumexp(dim=0)
