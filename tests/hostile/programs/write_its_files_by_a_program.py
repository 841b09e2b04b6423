# finished or raised AssertionError
import subprocess

assert subprocess.run('echo gone > a.txt; echo gone >> deep/b.txt', shell=True, stderr=subprocess.DEVNULL).returncode == 0
