"""Standard output and standard error that outlive whoever reads them."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

# A pipe without a reader, and a terminal that was closed.
_NOBODY_READS = (errno.EPIPE, errno.EIO)


@contextlib.contextmanager
def enduring_output() -> Iterator[None]:
    """Within, it is no error when nobody reads what is printed any more (`| head`, a closed terminal)."""
    out: Any = _Enduring(sys.stdout)
    err: Any = _Enduring(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


class _Enduring:
    """A text stream whose descriptor leads nowhere from the moment when nobody reads it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._unread():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._unread():
            self._stream.flush()

    @contextlib.contextmanager
    def _unread(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            if problem.errno not in _NOBODY_READS:
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())  # what the stream still holds goes there, at the latest at exit
            os.close(nowhere)
