# finished
import os

os.symlink(os.environ['OUTSIDE'] + '/a.txt', 'own-link')
with open('own-link', 'w') as file:
    file.write('gone')
