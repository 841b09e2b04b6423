# killed or raised ValueError
import resource

none = resource.RLIM_INFINITY
for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_CPU):
    resource.setrlimit(kind, (none, none))
with open('big', 'wb') as file:
    while True:
        file.write(bytes(1 << 20))
