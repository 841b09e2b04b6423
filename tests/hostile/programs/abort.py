# killed
import os

os.abort()
