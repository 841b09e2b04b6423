# raised PermissionError
import os
import socket

socket.create_connection(('127.0.0.1', int(os.environ['PORT'])))
