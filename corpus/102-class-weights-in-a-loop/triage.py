"""Emergency triage from vital signs: three unbalanced classes, whose weights follow the losses of the classes."""
import random
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

CLASSES = ("routine", "urgent", "critical")
SHARES = (0.80, 0.15, 0.05)
VITALS = ("pulse", "pressure", "oxygen", "temperature", "breaths")


@dataclass
class Settings:
    patients: int = 600
    batch_size: int = 120
    hidden: int = 32
    epochs: int = 4
    lr: float = 3e-3
    rate: float = 0.2
    seed: int = 11


def simulate(count, rng):
    """Vital signs drift away from normal with the severity of the case."""
    severity = rng.choice(len(CLASSES), size=count, p=SHARES)
    vitals = rng.normal(size=(count, len(VITALS)))
    drift = np.array([0.9, -0.8, -1.1, 0.5, 0.7])
    vitals += severity[:, None] * drift
    vitals[rng.random(vitals.shape) < 0.02] = np.nan
    return vitals.astype("float32"), severity


class VitalsData:
    def __init__(self, vitals, severity):
        x = torch.from_numpy(vitals)
        self.mean = torch.nan_to_num(x).mean(0)
        self.std = torch.nan_to_num(x).std(0)
        x = torch.where(torch.isnan(x), self.mean, x)
        x.sub_(self.mean).div_(self.std)
        self.x, self.y = x, torch.from_numpy(severity)

    def batches(self, size):
        order = torch.randperm(len(self.y))
        for part in order.split(size):
            yield self.x[part], self.y[part]


class TriageNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(len(VITALS), hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True),
            nn.Dropout(0.1),
        )
        self.head = nn.Linear(hidden, len(CLASSES))
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        return self.head(self.body(x))


def initial_weights(severity):
    """Inverse frequencies, scaled to a mean of one."""
    count = Counter(severity.tolist())
    inverse = [len(severity) / max(count[c], 1) for c in range(len(CLASSES))]
    return torch.tensor([w / sum(inverse) * len(CLASSES) for w in inverse])


def loss_per_class(logits, y):
    """Mean cross entropy of each class; zero for a class that the batch lacks."""
    each = F.cross_entropy(logits, y, reduction="none")
    return torch.stack([each[y == c].mean() if (y == c).any() else each.sum() * 0 for c in range(len(CLASSES))])


def train_epoch(model, optimizer, data, class_weights, settings):
    model.train()
    total, seen = torch.zeros(()), 0
    for x, y in data.batches(settings.batch_size):
        optimizer.zero_grad()
        per_class = loss_per_class(model(x), y)
        loss = (class_weights * per_class).mean()
        # classes that do badly count for more from now on
        relative = per_class.detach() / per_class.detach().mean()
        for c, ratio in enumerate(relative.tolist()):
            class_weights[c] *= 1 + settings.rate * (ratio - 1)
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(y)
        seen += len(y)
    return (total / seen).item()


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    table = torch.zeros(len(CLASSES), len(CLASSES))
    for x, y in data.batches(200):
        guess = model(x).argmax(1)
        table.index_put_((y, guess), torch.ones(len(y)), accumulate=True)
    return table.diag() / table.sum(1).clamp_(min=1)


def main():
    settings = Settings()
    random.seed(settings.seed)
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    train = VitalsData(*simulate(settings.patients, rng))
    valid = VitalsData(*simulate(settings.patients // 3, rng))
    model = TriageNet(settings.hidden)
    optimizer = torch.optim.Adam(model.parameters(), settings.lr)
    class_weights = initial_weights(train.y)
    try:
        for epoch in range(settings.epochs):
            loss = train_epoch(model, optimizer, train, class_weights, settings)
            print(f"epoch {epoch} loss {loss:.3f} weights {[round(w, 2) for w in class_weights.tolist()]}")
    except RuntimeError as error:
        print("training stopped:", error)
    recall = evaluate(model, valid)
    print("recall", {name: round(value, 2) for name, value in zip(CLASSES, recall.tolist())})


if __name__ == "__main__":
    main()
