# finished
import os
import subprocess

done = subprocess.run(['bash', '-c', f'echo > /dev/tcp/127.0.0.1/{os.environ["PORT"]}'], stderr=subprocess.DEVNULL)
assert done.returncode != 0
