# raised
import os
import socket

os.chdir(os.environ['CANARY'])
socket.socket(socket.AF_UNIX).connect('service')
