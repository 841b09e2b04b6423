import torch
y = torch.ones(1, requires_grad=True).sigmoid()
y *= 1
y.backward()
