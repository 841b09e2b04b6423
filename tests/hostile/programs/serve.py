# raised PermissionError
import socket

socket.create_server(('127.0.0.1', 0))
