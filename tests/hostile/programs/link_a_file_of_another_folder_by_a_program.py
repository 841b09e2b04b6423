# finished
import os
import subprocess

assert subprocess.run(['ln', os.environ['OUTSIDE'] + '/a.txt', 'alias'], stderr=subprocess.DEVNULL).returncode != 0
