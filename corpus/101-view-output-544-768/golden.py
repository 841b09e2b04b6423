import torch
x = (torch.ones(1, requires_grad=True) * 1).view(1, 1)
y = torch.nn.Linear(1, 1)(x)
x.masked_fill_(x > 0, 0)
y.backward()
