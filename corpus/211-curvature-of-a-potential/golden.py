import torch
force = torch.ones(1, requires_grad=True) * 1
size = force.square()
force -= 1
size.backward()
