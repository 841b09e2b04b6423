# finished
import ctypes
import os

os.symlink(os.environ['OUTSIDE'] + '/a.txt', 'own-link')
assert ctypes.CDLL(None).creat(b'own-link', 0o600) == -1
