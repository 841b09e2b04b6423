"""Skip-gram word vectors with sparse gradients; a step that made things worse is rolled back to the last good state."""
import argparse
import copy
import logging
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = """
the ship left the harbour at dawn and the crew watched the harbour sink behind the sea
the sea was calm and the ship sailed on while the captain watched the sky and the sea
a storm came at night and the crew feared the storm but the captain kept the ship on course
at dawn the storm was gone and the sea was calm and the crew saw a harbour and the ship came home
"""

log = logging.getLogger("vectors")


class Corpus:
    def __init__(self, text, window):
        words = text.split()
        counts = Counter(words)
        self.words = sorted(counts, key=lambda w: (-counts[w], w))
        index = {word: i for i, word in enumerate(self.words)}
        ids = [index[word] for word in words]
        near = [(i, j) for i in range(len(ids)) for j in range(len(ids)) if 0 < abs(i - j) <= window]
        self.pairs = torch.tensor([(ids[i], ids[j]) for i, j in near])
        self.noise = torch.tensor([float(counts[word]) for word in self.words])
        self.noise.pow_(0.75)
        self.noise /= self.noise.sum()

    def batches(self, size, generator):
        order = torch.randperm(len(self.pairs), generator=generator)
        for chosen in order.split(size):
            center, context = self.pairs[chosen].unbind(1)
            negative = torch.multinomial(self.noise, len(chosen) * 4, replacement=True, generator=generator)
            yield center, context, negative.view(-1, 4)


class SkipGram(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.center = nn.Embedding(words, dim, sparse=True)
        self.context = nn.Embedding(words, dim, sparse=True)
        self.transform = nn.Parameter(torch.empty(dim, dim))
        nn.init.eye_(self.transform)
        nn.init.uniform_(self.center.weight, -0.5, 0.5)
        nn.init.uniform_(self.context.weight, -0.5, 0.5)

    def forward(self, center, context, negative):
        vector = self.center(center) @ self.transform
        good = (vector * self.context(context)).sum(1)
        bad = torch.bmm(self.context(negative), vector.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(1)).mean()

    def nearest(self, word, corpus, k=3):
        with torch.no_grad():
            table = F.normalize(self.center.weight, dim=1)
            scores = table @ table[corpus.words.index(word)]
        return [corpus.words[i] for i in scores.topk(k + 1).indices[1:].tolist()]


class Guarded:
    """Keeps the best weights, and goes back to them when a loss is far above the best one."""

    def __init__(self, model, tolerance):
        self.model, self.tolerance = model, tolerance
        self.best = float("inf")
        self.state = copy.deepcopy(model.state_dict())

    def review(self, loss):
        value = loss.item()
        if value > self.best * self.tolerance:
            log.info("loss %.3f after %.3f: rolled back", value, self.best)
            self.model.load_state_dict(self.state)
        elif value < self.best:
            self.best = value
            self.state = copy.deepcopy(self.model.state_dict())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=12)
    parser.add_argument("--window", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--tolerance", type=float, default=1.02)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    corpus = Corpus(TEXT, args.window)
    model = SkipGram(len(corpus.words), args.dim)
    guarded = Guarded(model, args.tolerance)
    sparse = torch.optim.SparseAdam([model.center.weight, model.context.weight], lr=args.lr)
    dense = torch.optim.SGD([model.transform], lr=args.lr)
    for epoch in range(args.epochs):
        for center, context, negative in corpus.batches(args.batch_size, generator):
            loss = model(center, context, negative)
            guarded.review(loss)
            sparse.zero_grad()
            dense.zero_grad()
            loss.backward()
            sparse.step()
            dense.step()
        log.info("epoch %d best %.3f", epoch, guarded.best)
    log.info("near 'sea': %s", ", ".join(model.nearest("sea", corpus)))


if __name__ == "__main__":
    main()
