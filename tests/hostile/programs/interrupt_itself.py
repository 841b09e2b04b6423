# raised KeyboardInterrupt
import _thread
import time

_thread.interrupt_main()
time.sleep(1000)
