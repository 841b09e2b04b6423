"""A spiking network that tells two spike rates apart. The neuron's update is scripted, as it runs every time step."""
import argparse
import warnings
from typing import Tuple

import torch
from torch import Tensor, nn

warnings.filterwarnings("ignore", category=DeprecationWarning)


@torch.jit.script
def membrane_step(potential: Tensor, current: Tensor, decay: float, threshold: float) -> Tuple[Tensor, Tensor]:
    """Leak, integrate, fire (a soft step, so that it has a gradient), and take the threshold off where it fired."""
    potential.mul_(decay)
    potential.add_(current)
    spikes = torch.sigmoid(8.0 * (potential - threshold))
    rest = potential - spikes * threshold
    return spikes, rest


class SpikingLayer(nn.Module):
    def __init__(self, inputs, outputs, decay, threshold=1.0):
        super().__init__()
        self.weight = nn.Linear(inputs, outputs)
        self.leak = nn.Linear(outputs, outputs, bias=False)
        self.decay, self.threshold = decay, threshold
        nn.init.orthogonal_(self.leak.weight, gain=0.1)

    def initial(self, batch):
        return torch.zeros(batch, self.weight.out_features)

    def forward(self, spikes, potential):
        current = self.weight(spikes) - self.leak(potential)
        return membrane_step(potential, current, self.decay, self.threshold)


class SpikingNet(nn.Module):
    def __init__(self, inputs, hidden, classes, decay):
        super().__init__()
        self.layers = nn.ModuleList([SpikingLayer(inputs, hidden, decay), SpikingLayer(hidden, hidden, decay)])
        self.readout = nn.Linear(hidden, classes)

    def forward(self, trains):
        batch, steps, _ = trains.shape
        potentials = [layer.initial(batch) for layer in self.layers]
        counts = torch.zeros(batch, self.readout.in_features)
        for t in range(steps):
            spikes = trains[:, t]
            for i, layer in enumerate(self.layers):
                spikes, potentials[i] = layer(spikes, potentials[i])
            counts = counts + spikes
        return self.readout(counts / steps), counts.mean()


def spike_trains(batch, steps, channels, generator):
    """Poisson-like input: class 1 fires more often in the first half of the channels, class 0 in the second."""
    labels = torch.randint(0, 2, (batch,), generator=generator)
    rates = torch.full((batch, channels), 0.1)
    half = channels // 2
    rates[labels == 1, :half] = 0.5
    rates[labels == 0, half:] = 0.5
    draws = torch.rand(batch, steps, channels, generator=generator)
    return draws.lt_(rates.unsqueeze(1)), labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=20)
    parser.add_argument("--time", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--decay", type=float, default=0.8)
    parser.add_argument("--quiet", type=float, default=0.01, help="weight of the penalty on firing")
    parser.add_argument("--seed", type=int, default=77)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    net = SpikingNet(args.channels, args.hidden, 2, args.decay)
    optimizer = torch.optim.Adamax(net.parameters(), lr=5e-3)
    average = torch.zeros(())
    for iteration in range(args.iterations):
        trains, labels = spike_trains(args.batch, args.time, args.channels, generator)
        logits, firing = net(trains)
        loss = nn.functional.cross_entropy(logits, labels) + args.quiet * firing
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 1.0)
        optimizer.step()
        average.lerp_(loss.detach(), 0.3)
        right = (logits.argmax(1) == labels).float().mean().item()
        print(f"iteration {iteration} average loss {average.item():.3f} right {right:.2f} firing {firing.item():.2f}")


if __name__ == "__main__":
    main()
