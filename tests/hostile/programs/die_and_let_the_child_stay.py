# killed
import os
import time

if os.fork() > 0:
    os._exit(0)
time.sleep(1000)
