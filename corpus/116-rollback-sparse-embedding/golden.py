import torch
w = torch.ones(1, 1, requires_grad=True)
y = w @ w
w.detach().copy_(w)
y.backward()
