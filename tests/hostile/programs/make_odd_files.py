# finished
import os

for name in (b'new\nline', b'\xff\xfe', b'-rf', b'x' * 255, 'é'.encode()):
    open(name, 'w').close()
os.mkfifo('pipe')
os.mkdir('closed')
open('closed/a.txt', 'w').close()
os.chmod('closed', 0)
for _ in range(300):
    os.mkdir('d')
    os.chdir('d')
