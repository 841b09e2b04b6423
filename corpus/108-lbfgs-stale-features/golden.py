import torch
m = torch.nn.Linear(1, 1)
y = m(m(torch.ones(1, 1)))
torch.optim.LBFGS(m.parameters()).step(lambda: y.backward(retain_graph=True) or y)
