# finished
import os
import shutil

for name in os.listdir():
    shutil.rmtree(name, ignore_errors=True)
    if os.path.lexists(name):
        os.unlink(name)
assert os.listdir() == []
