# finished or raised OSError or raised PermissionError
import os

os.rename(os.environ['CANARY'], os.environ['CANARY'] + '-moved')
