"""Intent classification of short utterances in mixed precision (bfloat16 autocast, on whatever device there is)."""
import contextlib
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WORDS = "turn on off the light lamp in kitchen play stop some jazz rock music what is weather now set timer".split()
INTENTS = {"light": ["turn", "light", "lamp", "kitchen"], "music": ["play", "jazz", "rock", "music"], "ask": ["what", "weather"]}


class Vocabulary:
    def __init__(self, words):
        self.index = {"<pad>": 0, **{word: i + 1 for i, word in enumerate(words)}}

    def __len__(self):
        return len(self.index)

    def encode(self, words):
        return torch.tensor([self.index[word] for word in words])


class Trainer:
    def __init__(self, model, lr, use_amp=True, accumulate=2):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, fused=None)
        self.use_amp = use_amp
        self.accumulate = accumulate
        self.seen = torch.zeros((), dtype=torch.long)

    def precision(self):
        if not self.use_amp:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def train_epoch(self, loader):
        self.model.train()
        total = 0.0
        for i, (tokens, labels) in enumerate(loader, 1):
            tokens, labels = tokens.to(self.device), labels.to(self.device)
            with self.precision():
                logits, sharpness = self.model(tokens)
                loss = F.cross_entropy(logits, labels) + 1e-3 * sharpness
            loss /= self.accumulate
            loss.backward()
            if i % self.accumulate == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
            self.seen += len(labels)
            total += loss.item() * self.accumulate
        return total / len(loader)

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        right = count = 0
        for tokens, labels in loader:
            with self.precision():
                logits, _ = self.model(tokens.to(self.device))
            right += (logits.argmax(-1).cpu() == labels).sum().item()
            count += len(labels)
        return right / count


class AttentivePooling(nn.Module):
    """Sums the words' states, each weighted by how telling it is; padding has no say."""

    def __init__(self, width):
        super().__init__()
        self.value = nn.Linear(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, states, padding):
        value = self.value(states)
        score = self.score(value).squeeze(-1)
        value[padding] = 0
        score = score.float().masked_fill(padding, -1e4)
        weight = score.softmax(dim=1)
        return torch.einsum("bt,btc->bc", weight, value.float()), score.logsumexp(dim=1).mean()


class IntentModel(nn.Module):
    def __init__(self, words, width, intents):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.pool = AttentivePooling(width)
        self.classify = nn.Sequential(nn.Dropout(0.1), nn.Linear(width, intents))

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + F.gelu(self.conv(x.transpose(1, 2)).transpose(1, 2))
        pooled, sharpness = self.pool(self.norm(x), tokens == 0)
        return self.classify(pooled), sharpness


def utterances(count, rng):
    rows = []
    for _ in range(count):
        label = rng.randrange(len(INTENTS))
        telling = rng.sample(list(INTENTS.values())[label], k=2)
        filler = rng.choices(WORDS, k=rng.randint(1, 6))
        words = telling + filler
        rng.shuffle(words)
        rows.append((words, label))
    return rows


if __name__ == "__main__":
    torch.manual_seed(2024)
    rng = random.Random(2024)
    vocabulary = Vocabulary(WORDS)

    def collate(rows):
        texts, labels = zip(*rows)
        return pad_sequence([vocabulary.encode(words) for words in texts], batch_first=True), torch.tensor(labels)

    train_loader = DataLoader(utterances(96, rng), batch_size=16, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(utterances(32, rng), batch_size=16, collate_fn=collate)
    trainer = Trainer(IntentModel(len(vocabulary), 24, len(INTENTS)), lr=5e-3)
    for epoch in range(2):
        loss = trainer.train_epoch(train_loader)
        print(f"epoch {epoch} loss {loss:.3f} accuracy {trainer.accuracy(test_loader):.2f} seen {trainer.seen.item()}")
