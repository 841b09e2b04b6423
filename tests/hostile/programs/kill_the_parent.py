# raised PermissionError
import os

os.kill(os.getppid(), 9)
