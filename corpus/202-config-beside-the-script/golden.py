import torch

h = torch.ones(1, 1, requires_grad=True) * 1
y = h.addmm(h, h)
h /= 2
y.backward()
