# raised OSError
opened = []
while True:
    opened.append(open('/dev/null', 'rb', buffering=0))
