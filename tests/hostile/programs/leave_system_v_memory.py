# finished
import ctypes

assert ctypes.CDLL(None).shmget(0, 1 << 20, 0o1600) >= 0
