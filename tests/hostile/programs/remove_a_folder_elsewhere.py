# raised PermissionError
import os
import shutil

shutil.rmtree(os.environ['OUTSIDE'])
