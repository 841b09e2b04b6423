# killed
import os

import torch

torch.multiprocessing.set_sharing_strategy('file_system')
shared = torch.ones(1000).share_memory_()
os.kill(os.getpid(), 9)
