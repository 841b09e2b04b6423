import torch
x = torch.ones(1, 1, requires_grad=True) * 1
y = torch.nn.Linear(1, 1, bias=False)(x)
x += 1
y.backward()
