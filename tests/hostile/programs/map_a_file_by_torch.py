# finished
import torch

torch.from_file('a.txt', shared=True, size=4, dtype=torch.uint8).zero_()
