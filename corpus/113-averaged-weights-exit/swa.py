"""Consistency training: the loss is taken at the averaged weights, which a context manager swaps in and out."""
import argparse
from contextlib import ExitStack

import torch
import torch.nn as nn
import torch.nn.functional as F


class AveragedWeights:
    """Exponential moving average of a model's weights; inside `with averaged:` the model works with it."""

    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = [p.detach().clone() for p in model.parameters()]
        self.backup = None

    def update(self):
        with torch.no_grad():
            for average, p in zip(self.shadow, self.model.parameters()):
                average.lerp_(p, 1 - self.decay)

    def _load(self, values):
        with torch.no_grad():
            for p, value in zip(self.model.parameters(), values):
                p.copy_(value)

    def __enter__(self):
        self.backup = [p.detach().clone() for p in self.model.parameters()]
        self._load(self.shadow)
        return self.model

    def __exit__(self, kind, value, traceback):
        self._load(self.backup)
        self.backup = None
        return False


class EvalMode:
    """No dropout inside the block."""

    def __init__(self, model):
        self.model = model

    def __enter__(self):
        self.was_training = self.model.training
        self.model.eval()

    def __exit__(self, *_):
        self.model.train(self.was_training)


class MLP(nn.Module):
    def __init__(self, inputs, width, outputs, dropout):
        super().__init__()
        self.fc1 = nn.Linear(inputs, width)
        self.fc2 = nn.Linear(width, width)
        self.out = nn.Linear(width, outputs)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.fc1, self.fc2):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = self.dropout(F.relu(self.fc2(x)))
        return self.out(x)


def two_moons(count, generator):
    angle = torch.rand(count, generator=generator) * torch.pi
    label = torch.arange(count) % 2
    x = torch.stack([angle.cos(), angle.sin()], dim=1)
    x[label == 1] = torch.tensor([1.0, 0.5]) - x[label == 1]
    x += 0.1 * torch.randn(count, 2, generator=generator)
    return x, label


def perturb(x, size, generator):
    noise = torch.randn(x.shape, generator=generator)
    noise /= noise.norm(dim=1, keepdim=True)
    return x + size * noise


class ConsistencyTrainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.averaged = AveragedWeights(model, args.decay)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
        self.generator = torch.Generator().manual_seed(args.seed + 1)

    def consistency(self, x):
        """How much the averaged model's answers change when its input is moved a little."""
        with ExitStack() as stack:
            stack.enter_context(EvalMode(self.model))
            stack.enter_context(self.averaged)
            here = self.model(x).log_softmax(dim=1)
            there = self.model(perturb(x, self.args.radius, self.generator)).softmax(dim=1)
        return F.kl_div(here, there, reduction="batchmean")

    def step(self, labelled, labels, unlabelled):
        loss = F.cross_entropy(self.model(labelled), labels)
        loss = loss + self.args.weight * self.consistency(unlabelled)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.averaged.update()
        return loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--labelled", type=int, default=12)
    parser.add_argument("--decay", type=float, default=0.9)
    parser.add_argument("--radius", type=float, default=0.15)
    parser.add_argument("--weight", type=float, default=2.0)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    x, y = two_moons(100, torch.Generator().manual_seed(args.seed))
    trainer = ConsistencyTrainer(MLP(2, args.width, 2, args.dropout), args)
    for step in range(args.steps):
        chosen = torch.randperm(len(x) - args.labelled)[:32] + args.labelled
        loss = trainer.step(x[: args.labelled], y[: args.labelled], x[chosen])
        print(f"step {step} loss {loss:.4f}")
    with trainer.averaged as model, EvalMode(trainer.model), torch.no_grad():
        print(f"accuracy of the averaged weights {(model(x).argmax(1) == y).float().mean().item():.2f}")


if __name__ == "__main__":
    main()
