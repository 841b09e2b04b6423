import torch
w = torch.ones(1)
y = w * torch.ones(1, requires_grad=True)
w[0] *= 2
y.backward()
