"""Throw-away layers over folders of the user: what a run writes there lands in its scratch folder.

In a mount namespace of the run's own, the kernel lays an empty folder over one of the user's. At the same path, for
native code and other programs as well, the run reads what the user has and writes what nobody else sees. Linux only,
and only where root or unprivileged user namespaces may do it; each folder for itself.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import stat
import struct
import sys
from collections.abc import Iterable, Sequence

from shrinkrepro.runtime.system import checked, libc

__all__ = ["give_up_mounting", "hide", "is_below", "lay_over", "mount_points", "own_mounts", "worth_a_layer"]

_NEW_MOUNTS, _NEW_IPC, _NEW_USER = 0x20000, 0x8000000, 0x10000000
_NO_SUID, _NO_DEVICES = 0x2, 0x4
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_CAPABILITY_VERSION_3 = 0x20080522
# As mountinfo writes blanks and the like.
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def worth_a_layer(folders: Iterable[str], scratch: str, mounted: Sequence[str]) -> tuple[str, ...]:
    """Which of `folders` can have a layer: outer folders only, none in the `scratch` folder, without links.

    A layer shows one file system: what is `mounted` below the folder would be missing.
    """
    kept = os.path.realpath(scratch)
    chosen: list[str] = []
    for folder in sorted({os.path.realpath(folder) for folder in folders if os.path.isdir(folder)}, key=len):
        covered = any(is_below(folder, outer) for outer in (kept, *chosen))
        torn = any(is_below(point, folder) and point != folder for point in mounted)
        if not covered and not torn:
            chosen.append(folder)
    return tuple(chosen)


def is_below(path: str, folder: str) -> bool:
    """Whether `path`, whole and without links, is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@functools.cache
def mount_points() -> tuple[str, ...]:
    """Where file systems are mounted, the root left out; empty where that is not known."""
    if sys.platform != "linux":
        return ()
    with open("/proc/self/mountinfo", "rb") as file:
        points = {_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4]) for line in file}
    return tuple(os.fsdecode(point) for point in points - {b"/"})


def own_mounts() -> bool:
    """Give this process, which must have one thread, mounts and System V memory of its own; False if not allowed."""
    if sys.platform != "linux":
        return False
    try:
        if os.geteuid() == 0:
            _unshare(_NEW_MOUNTS | _NEW_IPC)
        else:
            user, group = os.geteuid(), os.getegid()
            _unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_USER)
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
        # nothing that is mounted here may show outside
        _mount(None, "/", None, _RECURSIVE | _PRIVATE, None)
    except OSError:
        return False
    return True


def lay_over(folders: Sequence[str], scratch: str, size: int) -> tuple[str, ...]:
    """Lay an empty folder of at most `size` bytes, all together, over each of `folders`; those where that worked.

    The content is in memory, and gone with the last process that sees it. The folder `scratch` stays visible where a
    layer would lie over it; the current folder must be entered again. To be called after `own_mounts`.
    """
    place = f"{scratch}/layers"
    os.mkdir(place)
    kept = os.open(scratch, os.O_PATH | os.O_CLOEXEC)
    _mount("tmpfs", place, "tmpfs", _NO_SUID | _NO_DEVICES, f"size={size},mode=700")
    laid = tuple(folder for number, folder in enumerate(folders) if _laid_over(folder, f"{place}/{number}"))
    if any(is_below(os.path.realpath(scratch), folder) for folder in laid):
        _mount(f"/proc/self/fd/{kept}", scratch, None, _BIND, None)
    os.close(kept)
    return laid


def _laid_over(folder: str, place: str) -> bool:
    os.makedirs(f"{place}/written")
    os.mkdir(f"{place}/work")
    opened: list[int] = []
    try:
        before = os.stat(folder)
        opened += (os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (folder, f"{place}/written", f"{place}/work"))
        # by descriptor: a comma or a colon in a path would end the option
        lower, upper, work = (f"/proc/self/fd/{descriptor}" for descriptor in opened)
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        options += "" if os.geteuid() == 0 else ",userxattr"
        os.chmod(f"{place}/written", stat.S_IMODE(before.st_mode))
        _mount("overlay", folder, "overlay", 0, options)
        return os.stat(folder).st_dev != before.st_dev
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)


def hide(paths: Iterable[str], place: str) -> None:
    """Show each of the existing `paths` empty, by means of an empty file and folder made in the folder `place`.

    To be called after `own_mounts`. Raises OSError when a path cannot be hidden.
    """
    folder, file = f"{place}/no-folder", f"{place}/no-file"
    os.makedirs(folder)
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o400))
    for path in paths:
        _mount(folder if os.path.isdir(path) else file, path, None, _BIND, None)


def give_up_mounting() -> None:
    """Give up what the namespace allows its owner; root keeps what root had before."""
    if sys.platform == "linux" and os.geteuid() != 0:
        checked(libc().capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)))


def _unshare(what: int) -> None:
    checked(libc().unshare(what))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None) -> None:
    raw = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    checked(libc().mount(*raw[:3], ctypes.c_ulong(flags), raw[3]), target)
