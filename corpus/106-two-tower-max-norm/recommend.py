"""Two-tower recommender on synthetic clicks. Item vectors live in the unit ball: nn.Embedding(max_norm=1)."""
import argparse
import collections
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

Batch = collections.namedtuple("Batch", "user history item weight")


class Clicks(Dataset):
    """Users belong to hidden groups, and click on items of their group."""

    def __init__(self, users, items, groups, length, seed):
        rng = random.Random(seed)
        self.rows = []
        for user in range(users):
            own = [i for i in range(items) if i % groups == user % groups]
            history = [rng.choice(own) for _ in range(length)]
            target = rng.choice(own) if rng.random() < 0.9 else rng.randrange(items)
            self.rows.append((user, history, target))
        self.popularity = torch.ones(items)
        for _, history, _ in self.rows:
            for item in history:
                self.popularity[item] += 1

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def collate(self, rows):
        users, histories, targets = zip(*rows)
        targets = torch.tensor(targets)
        weight = self.popularity[targets].pow(-0.25)
        weight /= weight.mean()
        return Batch(torch.tensor(users), torch.tensor(histories), targets, weight)


class TwoTower(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.users = nn.Embedding(users, dim)
        self.items = nn.Embedding(items, dim, max_norm=1.0)
        self.mix = nn.Linear(2 * dim, dim)
        self.temperature = nn.Parameter(torch.tensor(0.2))
        nn.init.normal_(self.users.weight, std=0.3)
        nn.init.normal_(self.items.weight, std=0.5)

    def profile(self, user, history):
        recent = self.items(history).mean(dim=1)
        return F.normalize(self.mix(torch.cat([self.users(user), recent], dim=1)), dim=1)

    def all_scores(self, profile):
        return profile @ self.items.weight.t() / self.temperature

    def margin(self, profile, liked, other):
        gap = (profile * (self.items(liked) - self.items(other))).sum(dim=1)
        return F.relu(0.5 - gap)


def hardest_negatives(scores, item):
    """The best scored item that is not the one clicked."""
    masked = scores.detach().clone()
    masked.scatter_(1, item.unsqueeze(1), float("-inf"))
    return masked.argmax(dim=1)


def hit_rate(model, loader, k):
    model.eval()
    hits = seen = 0
    with torch.no_grad():
        for batch in loader:
            best = model.all_scores(model.profile(batch.user, batch.history)).topk(k, dim=1).indices
            hits += (best == batch.item.unsqueeze(1)).any(dim=1).sum().item()
            seen += len(batch.item)
    model.train()
    return hits / seen


def train(model, loader, epochs, lr, ranking):
    optimizer = torch.optim.Adagrad(model.parameters(), lr=lr)
    for epoch in range(epochs):
        total = 0.0
        for batch in loader:
            profile = model.profile(batch.user, batch.history)
            scores = model.all_scores(profile)
            softmax = F.cross_entropy(scores, batch.item, reduction="none")
            negative = hardest_negatives(scores, batch.item)
            margin = model.margin(profile, batch.item, negative)
            loss = ((softmax + ranking * margin) * batch.weight).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                model.temperature.clamp_(min=0.05)
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.3f} hit@5 {hit_rate(model, loader, 5):.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=96)
    parser.add_argument("--items", type=int, default=50)
    parser.add_argument("--groups", type=int, default=5)
    parser.add_argument("--history", type=int, default=6)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--ranking", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=29)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    clicks = Clicks(args.users, args.items, args.groups, args.history, args.seed)
    loader = DataLoader(clicks, batch_size=args.batch_size, shuffle=True, collate_fn=clicks.collate)
    model = TwoTower(args.users, args.items, args.dim)
    print(f"hit@5 before training {hit_rate(model, loader, 5):.2f}")
    train(model, loader, args.epochs, args.lr, args.ranking)


if __name__ == "__main__":
    main()
