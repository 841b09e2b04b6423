import torch
import torch.nn as nn

from . import data  # data knows the model's vocabulary in return
from .layers import *


class Tagger(nn.Module):
    pad = 0

    def __init__(self, tags=4, width=12):
        super().__init__()
        self.embed = nn.Embedding(data.WORDS, 8, padding_idx=self.pad)
        self.rnn = nn.GRU(8, width)
        self.emissions = Emissions(width, tags)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))

    def forward(self, words):
        h, _ = self.rnn(self.embed(words).unsqueeze(1))
        return self.emissions(h.squeeze(1))

    def loss(self, words, tags):
        scores = self(words)
        gates = torch.sigmoid(scores)
        gold = (scores * gates).gather(1, tags.unsqueeze(1)).sum()
        steps = self.transitions[tags[:-1], tags[1:]].sum()
        gates -= 0.5
        return path_scores(scores, self.transitions) - gold - steps + gates.abs().mean()
