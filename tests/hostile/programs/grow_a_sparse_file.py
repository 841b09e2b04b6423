# raised OSError
with open('sparse', 'wb') as file:
    file.truncate(1 << 45)
