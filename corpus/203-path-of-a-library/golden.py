import torch

factor = torch.ones(1, requires_grad=True).exp()
factor.clamp_(max=1)
factor.backward()
