# killed or raised RecursionError
nested = ()
for _ in range(10**6):
    nested = (nested,)
hash(nested)
