"""A decoder whose <image> tokens are replaced by what a small vision encoder sees."""
import torch
import torch.nn.functional as F
from torch import nn


class VisionEncoder(nn.Module):
    def __init__(self, width, patches):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d((1, patches))
        self.project = nn.Linear(width, width)

    def forward(self, pictures):
        features = self.pool(F.relu_(self.conv(pictures)))
        return self.project(features.flatten(2).transpose(1, 2))


class CausalMixer(nn.Module):
    """Attention without frills: causal, all heads by einsum."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k)
        scores /= q.size(-1) ** 0.5
        hidden = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu_(1)
        scores.masked_fill_(hidden, float("-inf"))
        x = x + torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).flatten(2)
        return x + self.mlp(x)


class Captioner(nn.Module):
    def __init__(self, vocabulary, image_token, patches, width=24, heads=3, depth=2):
        super().__init__()
        self.image_token = image_token
        self.embed = nn.Embedding(vocabulary, width)
        self.see = VisionEncoder(width, patches)
        self.route = nn.Linear(width, 1)
        self.blocks = nn.Sequential(*(CausalMixer(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def embeddings(self, pictures, tokens):
        """Word vectors with the picture's patches in place of <image>, and how much each word asks for the picture."""
        embeds = self.embed(tokens)
        asks = torch.sigmoid(self.route(embeds)).mean()
        image = (tokens == self.image_token).unsqueeze(-1).expand_as(embeds)
        embeds.masked_scatter_(image, self.see(pictures))
        return embeds, asks

    def loss(self, pictures, tokens):
        embeds, asks = self.embeddings(pictures, tokens[:, :-1])
        states = self.norm(self.blocks(embeds))
        logits = torch.einsum("btc,vc->btv", states, self.embed.weight)
        targets = tokens[:, 1:].masked_fill(tokens[:, 1:] == self.image_token, -100)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100), asks
