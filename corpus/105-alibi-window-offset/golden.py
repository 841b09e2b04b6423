import torch
x = torch.ones(1)
y = torch.ones(1, requires_grad=True) * x
x += 1
y.backward()
