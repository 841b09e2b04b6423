import torch
x = torch.ones(1, 1, 1, dtype=torch.bfloat16, requires_grad=True) * 1
y = torch.nn.Linear(1, 1, dtype=torch.bfloat16)(x)
x[x > 0] = 0
y.backward()
