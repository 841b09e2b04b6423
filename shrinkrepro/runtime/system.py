"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import functools
import os

__all__ = ["checked", "control", "libc", "syscall"]


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library that this process uses."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def checked(result: int, path: str | None = None) -> int:
    """The result of a call of the C library. Raises OSError, about `path` if given, when it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), *([] if path is None else [path]))
    return result


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """One Linux system call. Raises OSError when it fails."""
    raw = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(libc().syscall(ctypes.c_long(number), *raw))


def control(option: int, value: int) -> None:
    """One `prctl` call. Raises OSError when it fails."""
    checked(libc().prctl(option, *(ctypes.c_ulong(argument) for argument in (value, 0, 0, 0))))
