import torch
gates = torch.ones(1, requires_grad=True).sigmoid()
gold = gates * gates
gates -= 1
gold.backward()
