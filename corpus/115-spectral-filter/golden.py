import torch
x = torch.ones(1, dtype=torch.cfloat, requires_grad=True) * 1
y = x.abs()
x[0] = 0
y.backward()
