# killed or raised BlockingIOError
import os

while True:
    os.fork()
