# finished
import os
import subprocess

assert subprocess.run(['kill', '-9', os.environ['BYSTANDER']], stderr=subprocess.DEVNULL).returncode != 0
