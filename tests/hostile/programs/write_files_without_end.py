# killed
number = 0
while True:
    number += 1
    with open(f'big{number}', 'wb') as file:
        file.write(bytes(8 << 20))
