import torch
x = torch.ones(1)
y = torch.nn.functional.mse_loss(torch.ones(1, requires_grad=True), x)
torch.ones(1, out=x)
y.backward()
