"""Cross-validated variational autoencoder on sensor windows; every fold keeps its windows in a cache on disk."""
import json
import math
import os
import shutil

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = {
    "experiment": "sensor-vae",
    "output": "artifacts",
    "folds": 2,
    "epochs": 2,
    "batch": 25,
    "window": 24,
    "latent": 4,
    "lr": 2e-3,
    "max_std": 1.5,
    "keep_folds": False,
}


def fold_folder(config, fold, *parts):
    return os.path.join(HERE, config["output"], config["experiment"], f"fold-{fold}", *parts)


def fresh_folder(path):
    """An empty folder: what an earlier run left there goes."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def record(length=1200):
    """Two rhythms and some spikes, standardised."""
    t = torch.arange(length).float()
    signal = torch.sin(2 * math.pi * t / 12) + 0.5 * torch.sin(2 * math.pi * t / 31)
    signal += 0.1 * torch.randn(length)
    signal[torch.randint(0, length, (20,))] *= 2.5
    signal -= signal.mean()
    signal /= signal.std()
    return signal


def write_cache(config, fold, windows):
    folder = fresh_folder(fold_folder(config, fold, "cache"))
    held_out = torch.zeros(len(windows), dtype=torch.bool)
    held_out[fold :: config["folds"]] = True
    torch.save(windows[~held_out], os.path.join(folder, "train.pt"))
    torch.save(windows[held_out], os.path.join(folder, "valid.pt"))
    with open(os.path.join(os.path.dirname(folder), "config.json"), "w") as f:
        json.dump(config, f)
    return folder


def clean_up(config):
    # only the scores are wanted: windows and weights can be made again
    experiments = os.path.join(HERE, config["output"])
    if not config["keep_folds"]:
        shutil.rmtree(os.path.join(experiments, config["experiment"]))
    if not os.listdir(experiments):
        os.rmdir(experiments)


class SensorVAE(nn.Module):
    def __init__(self, window, latent, max_std, hidden=48):
        super().__init__()
        self.max_std = max_std
        self.encoder = nn.Sequential(nn.Linear(window, hidden), nn.ELU(inplace=True), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ELU(inplace=True), nn.Linear(hidden, window))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def posterior(self, x):
        mean, log_std = self.encoder(x).chunk(2, dim=-1)
        std = log_std.exp()
        # very wide posteriors make the first steps explode
        std.clamp_(max=self.max_std)
        return mean, std

    def forward(self, x):
        mean, std = self.posterior(x)
        z = mean + std * torch.randn_like(std)
        divergence = 0.5 * (mean.pow(2) + std.pow(2) - 2 * std.log() - 1).sum(-1)
        return self.decoder(z), divergence


def elbo_loss(model, x, beta=0.1):
    rebuilt, divergence = model(x)
    return F.mse_loss(rebuilt, x, reduction="none").sum(-1).add(beta * divergence).mean()


def train_fold(config, fold, windows):
    cache = write_cache(config, fold, windows)
    train = torch.load(os.path.join(cache, "train.pt"))
    valid = torch.load(os.path.join(cache, "valid.pt"))
    model = SensorVAE(config["window"], config["latent"], config["max_std"])
    optimizer = torch.optim.RMSprop(model.parameters(), lr=config["lr"], momentum=0.5)
    for epoch in range(config["epochs"]):
        for x in train[torch.randperm(len(train))].split(config["batch"]):
            loss = elbo_loss(model, x)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 5.0)
            optimizer.step()
        with torch.no_grad():
            score = elbo_loss(model, valid).item()
        print(f"fold {fold} epoch {epoch} validation {score:.3f}")
    torch.save(model.state_dict(), fold_folder(config, fold, "weights.pt"))
    return score


def main(config):
    torch.manual_seed(29)
    windows = record().unfold(0, config["window"], config["window"] // 2).contiguous()
    try:
        scores = [train_fold(config, fold, windows) for fold in range(config["folds"])]
    finally:
        clean_up(config)
    print(f"mean of {len(scores)} folds: {sum(scores) / len(scores):.3f}")


if __name__ == "__main__":
    main(CONFIG)
