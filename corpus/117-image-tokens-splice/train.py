"""Train a captioner on pictures of coloured squares: `python train.py [steps]`."""
import sys

import torch

from captioner.data import Scenes
from captioner.model import Captioner


def main(steps=4, batch=12):
    torch.manual_seed(64)
    scenes = Scenes(size=8, seed=64)
    model = Captioner(scenes.vocabulary, image_token=scenes.image_token, patches=scenes.patches)
    optimizer = torch.optim.RAdam(model.parameters(), lr=2e-3)
    speed = torch.zeros(steps)
    for step in range(steps):
        pictures, tokens = scenes.batch(batch)
        loss, router = model.loss(pictures, tokens)
        optimizer.zero_grad()
        (loss + 0.01 * router).backward()
        optimizer.step()
        speed[step].add_(tokens.numel())
        print(f"step {step} loss {loss.item():.3f}")
    print(f"{int(speed.sum())} tokens")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
