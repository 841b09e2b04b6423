# finished
import ctypes
import os

libc = ctypes.CDLL(None)
libc.unshare(0x10000000 | 0x20000)
assert libc.mount(b'/', os.environb[b'HOME'], None, ctypes.c_ulong(0x1000), None) == -1
assert libc.umount2(os.environb[b'HOME'], 2) == -1
assert libc.umount2(b'/tmp', 2) == -1
