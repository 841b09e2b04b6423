# killed
import os

for number in range(3, 1000):
    try:
        os.write(number, b'{"outcome": "banana"}\n')
    except OSError:
        pass
