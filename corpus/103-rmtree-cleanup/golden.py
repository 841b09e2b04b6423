import torch
x = torch.ones(1, requires_grad=True).exp()
x.clamp_(max=1)
x.backward()
