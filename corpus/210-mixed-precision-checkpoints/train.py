"""A small vision transformer in mixed precision; blocks are checkpointed, the old ones in the old way."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

torch.autograd.set_detect_anomaly = True


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).unbind(2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
        return self.out(mixed.reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, reentrant):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.reentrant = reentrant

    def mlp(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))

    def forward(self, x):
        x = x + checkpoint(self.attention, self.norm(x), use_reentrant=self.reentrant)
        return x + checkpoint(self.mlp, x, use_reentrant=self.reentrant)


class Vision(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.blocks = nn.ModuleList(Block(width, 2, reentrant=number == 0) for number in range(depth))
        self.head = nn.Linear(width, 5)

    def forward(self, pictures):
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.pool(x)

    def pool(self, x):
        weights = x.float().mean(dim=-1, keepdim=True).softmax(dim=1)
        pooled = (weights * x.float()).sum(dim=1)
        weights[weights < 0.05] = 0.0
        return self.head(pooled), weights


def main():
    torch.manual_seed(12)
    model = Vision()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for step in range(3):
        pictures, labels = torch.randn(4, 3, 16, 16), torch.randint(5, (4,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores, weights = model(pictures)
            loss = F.cross_entropy(scores, labels) + 0.1 * weights.amax(dim=1).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item():.3f} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
