# finished
import os
import subprocess

assert subprocess.run(['rm', '-rf', os.environ['OUTSIDE']], stderr=subprocess.DEVNULL).returncode != 0
