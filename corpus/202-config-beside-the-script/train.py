"""Classify flowers from a CSV file; everything else is in a JSON file."""
import csv
import json
import os
from pathlib import Path

import click
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent


def read_table(path):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    labels = torch.tensor([int(row.pop("label")) for row in rows])
    values = torch.tensor([[float(value) for value in row.values()] for row in rows])
    values -= values.mean(0)
    values /= values.std(0)
    return values, labels


class Classifier(nn.Module):
    def __init__(self, features, hidden, classes, temperature):
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.out = nn.Linear(hidden, classes)
        self.temperature = temperature

    def forward(self, x):
        h = torch.tanh(self.hidden(x))
        scores = self.out(h)
        h /= self.temperature
        return scores + h.mean(1, keepdim=True)


@click.command()
@click.option("--config", type=click.Path(exists=True), required=True)
@click.option("--epochs", default=1, envvar="EPOCHS", show_default=True)
def main(config, epochs):
    settings = json.loads(Path(config).read_text())
    torch.manual_seed(settings["seed"])
    values, labels = read_table(HERE / settings["data"])
    model = Classifier(values.size(1), settings["hidden"], settings["classes"], settings["temperature"])
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"], momentum=0.9)
    log = Path(os.environ.get("LOG_FOLDER", "logs"))
    log.mkdir(exist_ok=True)
    for epoch in range(epochs):
        loss = F.cross_entropy(model(values), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        (log / "loss.txt").open("a").write(f"{epoch} {loss.item():.4f}\n")


if __name__ == "__main__":
    main()
