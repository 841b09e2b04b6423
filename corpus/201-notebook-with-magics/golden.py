import torch

weights = torch.ones(1, requires_grad=True).softmax(0)
weights *= 2
weights.backward()
