# raised MemoryError
kept = []
while True:
    kept.append(bytearray(1 << 24))
