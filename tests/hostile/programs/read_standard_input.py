# raised EOFError
input()
