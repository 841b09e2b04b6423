import torch
y = torch.ones(1, requires_grad=True).exp()
y /= 1
y.backward()
