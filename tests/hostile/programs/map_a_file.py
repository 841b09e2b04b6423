# finished
import mmap

with open('a.txt', 'r+b') as file, mmap.mmap(file.fileno(), 0) as mapped:
    mapped[0:4] = b'gone'
