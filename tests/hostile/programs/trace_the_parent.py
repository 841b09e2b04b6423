# finished
import ctypes
import os

assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == -1
