# raised PermissionError
import os

open(f'/proc/{os.getppid()}/mem', 'r+b')
