# timeout
while True:
    pass
