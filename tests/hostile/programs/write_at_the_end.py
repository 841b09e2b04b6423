# finished
import atexit
import os


def write():
    with open(os.environ['OUTSIDE'] + '/late.txt', 'w') as file:
        file.write('late')


class Late:
    def __del__(self):
        write()


atexit.register(write)
kept = Late()
