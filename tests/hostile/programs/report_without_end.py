# killed
import os

for number in range(3, 1000):
    try:
        while True:
            os.write(number, bytes(1 << 16))
    except OSError:
        pass
