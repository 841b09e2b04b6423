# finished
import sys

class Broken:
    def __getattr__(self, name):
        raise OSError(name)

sys.stdout = sys.stderr = Broken()
del sys.stdin
