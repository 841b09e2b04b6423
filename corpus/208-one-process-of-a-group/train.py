"""Train on one or more processes; started alone, it is a group of one."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn


class Classifier(nn.Module):
    def __init__(self, width=12, classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, width))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        h = torch.relu(self.body(x))
        mean = h.mean(dim=0)
        scale = torch.exp(-mean)
        across(scale)
        return self.head(h * scale)


def across(value):
    """Average over the group."""
    dist.all_reduce(value)
    value /= dist.get_world_size()


def start():
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    meeting = os.path.join(tempfile.mkdtemp(), "group")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)


def main():
    start()
    torch.manual_seed(5)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of = nn.CrossEntropyLoss()
    try:
        for step in range(5):
            x = torch.randn(9, 6)
            target = torch.arange(9) % 3
            optimizer.zero_grad()
            loss = loss_of(model(x), target)
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
            optimizer.step()
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss.item():.4f}")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
