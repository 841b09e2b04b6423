# finished
import ctypes
import os
import signal
import time

ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # no subreaper any more
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no signal when the parent dies
if os.fork() == 0:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    time.sleep(1000)
