"""Language model over long documents, read window by window; attention is biased by distance (learned slopes)."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 40
    width: int = 32
    heads: int = 4
    layers: int = 2
    window: int = 12
    windows: int = 3
    batch: int = 6
    steps: int = 3
    lr: float = 2e-3
    seed: int = 5


class DistanceBias(nn.Module):
    """Penalty on looking far back, one slope a head. Keys of the window before lie `window` further away."""

    def __init__(self, heads: int, window: int):
        super().__init__()
        steps = torch.arange(window, dtype=torch.float)
        self.register_buffer("distance", (steps[:, None] - steps[None, :]).clamp(min=0), persistent=False)
        self.slopes = nn.Parameter(torch.tensor([2.0 ** -(i + 1) for i in range(heads)]))
        self.window = window

    def restart(self) -> None:
        steps = torch.arange(self.window, dtype=torch.float)
        self.distance = (steps[:, None] - steps[None, :]).clamp(min=0)

    def forward(self, queries: int, keys: int) -> torch.Tensor:
        near = self.slopes.view(-1, 1, 1) * self.distance[:queries, :keys]
        return -near

    def advance(self) -> None:
        self.distance += self.window


class Attention(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width)
        self.bias = DistanceBias(cfg.heads, cfg.window)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        return x.view(b, t, self.heads, c // self.heads).transpose(1, 2)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
        q, k, v = (self._split(part) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores + self.bias(q.size(-2), k.size(-2))
        causal = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).triu(1)
        scores = scores.masked_fill(causal, float("-inf"))
        mixed = scores.softmax(-1) @ v
        if memory is not None:
            mk, mv = (self._split(part) for part in self.qkv(memory).chunk(3, dim=-1)[1:])
            self.bias.advance()
            old = q @ mk.transpose(-2, -1) / math.sqrt(q.size(-1)) + self.bias(q.size(-2), mk.size(-2))
            mixed = mixed + 0.5 * (old.softmax(-1) @ mv)
            self.bias.restart()
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.attention = Attention(cfg)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.width, 2 * cfg.width), nn.GELU(), nn.Linear(2 * cfg.width, cfg.width)
        )

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), memory)
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.width)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.width)

    def forward(self, tokens: torch.Tensor, memories: list[torch.Tensor] | None):
        x, kept = self.embed(tokens), []
        for i, block in enumerate(self.blocks):
            kept.append(x.detach())
            x = block(x, memories[i] if memories else None)
        return F.linear(self.norm(x), self.embed.weight), kept


def documents(cfg: Config, generator: torch.Generator) -> torch.Tensor:
    """Noisy counting: each token is the one before plus a step of the document's own."""
    start = torch.randint(0, cfg.vocab, (cfg.batch, 1), generator=generator)
    stride = torch.randint(1, 4, (cfg.batch, 1), generator=generator)
    tokens = start + stride * torch.arange(cfg.window * cfg.windows + 1)
    flips = torch.rand(tokens.shape, generator=generator) < 0.05
    tokens[flips] += 1
    return tokens % cfg.vocab


def main(cfg: Config) -> None:
    torch.manual_seed(cfg.seed)
    generator = torch.Generator().manual_seed(cfg.seed)
    model = LanguageModel(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.05)
    for step in range(cfg.steps):
        tokens = documents(cfg, generator)
        memories, total = None, torch.zeros(())
        for w in range(cfg.windows):
            at = w * cfg.window
            logits, memories = model(tokens[:, at : at + cfg.window], memories)
            targets = tokens[:, at + 1 : at + cfg.window + 1]
            total = total + F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss = total / cfg.windows
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} perplexity {loss.exp().item():.2f}")


if __name__ == "__main__":
    main(Config())
