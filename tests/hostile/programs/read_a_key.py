# raised FileNotFoundError
import os

open(os.environ['HOME'] + '/.ssh/id_rsa')
