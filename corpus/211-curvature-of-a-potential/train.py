"""Fit a potential to forces and curvature: derivatives by torch.func, by double backward, and activations kept elsewhere."""
import torch
import torch.nn as nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call, grad, hessian, jvp, vmap


class Potential(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.first, self.second = nn.Linear(2, width), nn.Linear(width, 1)
        self.register_buffer("centre", torch.zeros(2))

    def forward(self, x):
        return self.second(torch.tanh(self.first(x - self.centre))).squeeze(-1)


def halved(tensor):
    return tensor.dtype, tensor.half() if tensor.numel() > 100 else tensor


def restored(packed):
    dtype, tensor = packed
    return tensor.to(dtype)


def energy(parameters, model, x):
    return functional_call(model, parameters, (x,))


def forces(model, x):
    """Minus the gradient, kept in the graph: the forces are fitted."""
    x = x.requires_grad_()
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return -slope


def curvature(model, x):
    parameters = dict(model.named_parameters()) | dict(model.named_buffers())
    return vmap(lambda point: hessian(energy, argnums=2)(parameters, model, point).diagonal().sum())(x)


def drift(model, x, direction):
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    slope = vmap(grad(energy, argnums=2), (None, None, 0))(parameters, model, x.detach())
    return jvp(lambda point: (point * slope).sum(-1), (x.detach(),), (direction,))[1].mean()


def loss_of(model, x, target):
    with saved_tensors_hooks(halved, restored):
        plain = model(x).square().mean()
    force = forces(model, x)
    size = force.square().sum(dim=-1)
    force -= target
    return plain + force.abs().mean() + 0.1 * size.mean() + 0.01 * curvature(model, x.detach()).square().mean()


def main():
    torch.manual_seed(9)
    model = Potential()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(4):
        x = torch.rand(16, 2) - 0.5
        optimizer.zero_grad()
        loss = loss_of(model, x, -2.0 * x)
        loss.backward()
        optimizer.step()
        model.centre.lerp_(x.detach().mean(dim=0), 0.1)
        moved = drift(model, x, torch.ones_like(x))
        print(f"step {step} loss {loss.item():.4f} drift {moved.item():.4f}")


if __name__ == "__main__":
    main()
