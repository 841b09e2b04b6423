"""Kernel regression with learned inducing points; decorators register kernels and normalise what they give."""
from __future__ import annotations

import functools
from typing import Callable

import torch
from torch import Tensor, nn

Kernel = Callable[[Tensor, Tensor, Tensor], Tensor]
KERNELS: dict[str, Kernel] = {}


def kernel(name: str) -> Callable[[Kernel], Kernel]:
    """Register a kernel under a name."""

    def register(function: Kernel) -> Kernel:
        KERNELS[name] = function
        return function

    return register


def calls_counted(function: Kernel) -> Kernel:
    @functools.wraps(function)
    def wrapper(*args: Tensor) -> Tensor:
        wrapper.calls += 1
        return function(*args)

    wrapper.calls = 0
    return wrapper


def attention_weights(function: Kernel) -> Kernel:
    """Make the rows of what a kernel returns sum to one."""

    @functools.wraps(function)
    def wrapper(*args: Tensor) -> Tensor:
        similarity = function(*args)
        similarity /= similarity.sum(dim=-1, keepdim=True)
        return similarity

    return wrapper


def square_distance(a: Tensor, b: Tensor) -> Tensor:
    return (a.unsqueeze(-2) - b.unsqueeze(-3)).square().sum(-1)


@kernel("rational")
@calls_counted
@attention_weights
def rational_quadratic(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    return 1 / (1 + square_distance(a, b) / (2 * scale**2))


@kernel("rbf")
@calls_counted
@attention_weights
def rbf(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    return torch.exp(-square_distance(a, b) / (2 * scale**2))


class KernelSmoother(nn.Module):
    """Predicts a mean of the values at inducing points, weighted by how near they are."""

    def __init__(self, name: str, points: int, inputs: int) -> None:
        super().__init__()
        self.kernel = KERNELS[name]
        self.points = nn.Parameter(torch.rand(points, inputs))
        self.values = nn.Parameter(torch.zeros(points))
        self.log_scale = nn.Parameter(torch.full((), -1.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.kernel(x, self.points, self.log_scale.exp()) @ self.values


class Mixture(nn.Module):
    def __init__(self, names: list[str], points: int, inputs: int) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({name: KernelSmoother(name, points, inputs) for name in names})
        self.share = nn.Parameter(torch.zeros(len(names)))

    def forward(self, x: Tensor) -> Tensor:
        outputs = torch.stack([part(x) for part in self.parts.values()], dim=-1)
        return outputs @ self.share.softmax(0)


def problem(count: int) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 2)
    y = torch.sin(6 * x[:, 0]) * torch.cos(4 * x[:, 1])
    y += 0.05 * torch.randn(count)
    y -= y.mean()
    return x, y


def fit(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> float:
    optimizer = torch.optim.Rprop(model.parameters(), lr=0.01)
    for step in range(steps):
        residual = model(x) - y
        loss = residual.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    return loss.item()


def main() -> None:
    torch.manual_seed(90)
    x, y = problem(64)
    final = fit(Mixture(sorted(KERNELS), points=12, inputs=2), x, y, steps=8)
    print(f"loss {final:.4f} after", {name: function.calls for name, function in KERNELS.items()}, "kernel calls")


if __name__ == "__main__":
    main()
