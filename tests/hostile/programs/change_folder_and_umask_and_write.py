# finished or raised PermissionError
import os

os.chdir(os.environ['HOME'])
os.umask(0)
with open('a.txt', 'w') as file:
    file.write('gone')
