import torch
errors = torch.ones(1, requires_grad=True) * 1
weighted = errors * errors
errors[0] += 1
weighted.backward()
