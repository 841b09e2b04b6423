import torch
weights = torch.ones(1, requires_grad=True) * 1
pooled = weights * weights
weights[weights > 0] = 0
pooled.backward()
