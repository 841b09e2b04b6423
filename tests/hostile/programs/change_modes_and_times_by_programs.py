# finished
import os
import subprocess

for place in ('CANARY', 'HOME'):
    subprocess.run(['chmod', '-R', '777', os.environ[place]])
    subprocess.run(['touch', '-d', '2001-01-01', os.environ[place] + '/a.txt'])
