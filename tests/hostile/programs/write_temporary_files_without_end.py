# raised OSError
import os

number = 0
while True:
    number += 1
    with open(f'/tmp/big{os.getpid()}-{number}', 'wb') as file:
        file.write(bytes(8 << 20))
