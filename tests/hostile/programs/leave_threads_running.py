# finished
import threading
import time

for _ in range(3):
    threading.Thread(target=time.sleep, args=(1000,)).start()
