# finished
import torch

torch.save([1], 'a.txt')
