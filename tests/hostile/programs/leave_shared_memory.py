# killed
import os
from multiprocessing import shared_memory

shared_memory.SharedMemory(name=f'hostile-{os.getpid()}', create=True, size=1 << 20)
os._exit(0)
