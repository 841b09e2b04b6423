# killed or raised BlockingIOError
import os
import time

while True:
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
