# raised PermissionError
import os

os.link(os.environ['OUTSIDE'] + '/a.txt', 'alias')
