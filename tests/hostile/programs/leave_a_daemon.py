# finished
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 1000)
        time.sleep(1000)
    os._exit(0)
os.wait()
