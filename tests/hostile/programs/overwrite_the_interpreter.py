# killed
import ctypes

ctypes.memset(id(type), 255, 4096)
type(1)
