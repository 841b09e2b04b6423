"""Train with `python -m tagger.train --epochs 2`, from the folder that holds the package."""
import argparse

import torch

from . import Tagger, __version__
from .data import sentences


def options():
    parser = argparse.ArgumentParser(prog="tagger.train")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()


def main():
    args = options()
    torch.manual_seed(11)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    print("tagger", __version__)
    for epoch in range(args.epochs):
        total = 0.0
        for words, tags in sentences(3):
            optimizer.zero_grad()
            loss = model.loss(words, tags)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total:.3f}")


if __name__ == "__main__":
    main()
