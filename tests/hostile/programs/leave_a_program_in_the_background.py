# finished
import subprocess

subprocess.Popen('nohup sleep 1000 > /dev/null 2>&1 & disown', shell=True, start_new_session=True, executable='/bin/bash')
