"""A compiled network fed by worker processes, with a log handler, an exit hook and a background thread."""
import atexit
import logging
import threading

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("train")


class Ramps(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        slope = 0.1 * index - 1.0
        return slope * torch.linspace(-1.0, 1.0, 10), torch.tensor([slope])


class Regressor(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, width), nn.Softplus())
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x))


def penalty(prediction, limit):
    size = prediction.square()
    prediction.clamp_(-limit, limit)
    return size.mean()


def main():
    torch.manual_seed(8)
    stop = threading.Event()
    threading.Thread(target=stop.wait, daemon=True).start()
    atexit.register(log.info, "finished")
    model = torch.compile(Regressor(), backend="eager")
    loader = DataLoader(Ramps(), batch_size=8, num_workers=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    try:
        for x, y in loader:
            prediction = model(x)
            loss = 0.01 * penalty(prediction, 2.0) + (prediction - y).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            log.info("loss %.4f", loss.item())
    finally:
        stop.set()


if __name__ == "__main__":
    main()
