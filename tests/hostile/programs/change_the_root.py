# raised PermissionError
import os

os.chroot(os.environ['OUTSIDE'])
os.chdir('/')
open('/a.txt', 'w')
