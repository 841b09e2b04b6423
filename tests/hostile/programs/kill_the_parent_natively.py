# finished
import ctypes
import os

assert ctypes.CDLL(None).kill(os.getppid(), 9) == -1
