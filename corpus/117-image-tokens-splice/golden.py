import torch
x = torch.ones(1, 1, 1, requires_grad=True) * 1
y = torch.nn.Linear(1, 1)(x)
x.masked_scatter_(x > 0, y)
y.backward()
