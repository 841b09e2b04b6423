"""Channel gating with knobs: forward hooks record every gate and turn it up or down while the network trains."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(41)

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
GAINS = {"stage1": 1.0, "stage2": 0.8}
CLASSES, PER_CLASS, SIZE = 4, 24, 12


class SqueezeGate(nn.Module):
    """Weights each channel by what the whole picture looks like."""

    def __init__(self, channels, reduction=2):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // reduction, 1)
        self.fc2 = nn.Conv2d(channels // reduction, channels, 1)
        self.gate = nn.Sigmoid()

    def forward(self, x):
        pooled = F.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.fc2(F.relu(self.fc1(pooled))))


class Stage(nn.Sequential):
    def __init__(self, inputs, outputs, stride):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            SqueezeGate(outputs),
        )


class GatedNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.stage1 = Stage(8, 12, stride=2)
        self.stage2 = Stage(12, 16, stride=2)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        x = F.relu(self.stem(x), inplace=True)
        x = self.stage2(self.stage1(x))
        return self.head(x.mean(dim=(2, 3)))


def gratings(generator):
    """Stripes in four directions, with noise."""
    ys, xs = torch.meshgrid(torch.arange(SIZE).float(), torch.arange(SIZE).float(), indexing="ij")
    pictures, labels = [], []
    for label in range(CLASSES):
        angle = torch.tensor(label * torch.pi / CLASSES)
        for _ in range(PER_CLASS):
            phase = 6.0 * torch.rand(1, generator=generator)
            wave = torch.sin(xs * angle.cos() + ys * angle.sin() + phase)
            wave += 0.3 * torch.randn(SIZE, SIZE, generator=generator)
            pictures.append(wave)
            labels.append(label)
    order = torch.randperm(len(labels), generator=generator)
    return torch.stack(pictures).unsqueeze(1)[order], torch.tensor(labels)[order]


def watch(model, names, gains):
    """Record the gates of the stages named; a gain other than 1 is applied to what the gate lets through."""
    taps = defaultdict(list)

    def tap(name):
        def hook(module, inputs, output):
            taps[name].append(output)
            if gains[name] != 1.0:
                taps[name][-1] *= gains[name]

        return hook

    handles = [getattr(model, name)[-1].gate.register_forward_hook(tap(name)) for name in names]
    return taps, handles


def openness(taps):
    return {name: torch.cat(gates).mean().item() for name, gates in taps.items()}


def run_epoch(model, pictures, labels, optimizer, taps):
    correct = 0
    for images, targets in zip(pictures.split(24), labels.split(24)):
        for gates in taps.values():
            gates.clear()
        logits = model(images)
        # prefer gates that are neither all open nor all shut
        spread = sum((gates[-1].mean() - 0.5) ** 2 for gates in taps.values())
        loss = F.cross_entropy(logits, targets, label_smoothing=0.05) + 0.1 * spread
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        correct += (logits.argmax(1) == targets).sum().item()
    return correct / len(labels)


generator = torch.Generator().manual_seed(8)
pictures, labels = gratings(generator)
net = GatedNet(CLASSES)
taps, handles = watch(net, ["stage1", "stage2"], GAINS)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
for epoch in range(EPOCHS):
    accuracy = run_epoch(net, pictures, labels, optimizer, taps)
    schedule.step()
    report = " ".join(f"{name} {value:.2f}" for name, value in openness(taps).items())
    print(f"epoch {epoch} accuracy {accuracy:.2f} open: {report}")
for handle in handles:
    handle.remove()
