import torch
t = torch.tensor(1.)
y = torch.tensor(1., requires_grad=True) / t
t.fill_(1)
y.backward()
