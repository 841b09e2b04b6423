import torch
value = torch.ones(1, requires_grad=True).exp()
value /= 1
value.backward()
