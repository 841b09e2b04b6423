"""The scratch folder of one run: a view of the user's folder in which new files can be made.

Folders are real, files are links. A program finds by relative paths what it finds in its own folder, what it makes
beside them lands in the scratch folder, and what it removes or renames is a link. Only writing *through* a link would
reach the user's file: before that, the guard has it made the run's own, or refuses.
"""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import uuid
from collections import deque
from collections.abc import Callable, Iterator

__all__ = ["build_view", "make_own", "open_up", "remove_tree", "show_folder", "size"]

# How many entries of a linked folder are shown one by one when something in it is to be changed.
_MOST_ENTRIES = 20_000
_ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})


def build_view(source: str, target: str, *, most: int = 2000) -> None:
    """Show the content of folder `source` in the existing, empty folder `target`.

    Every file below `source` becomes a link in a real folder. A folder is linked as a whole when it is hidden, a
    virtual environment or itself a link, when it cannot be listed, or when the view would grow past `most` entries
    (upper folders come first; the top one is always shown in full). A `target` inside `source` is left out.
    """
    source, target = os.path.realpath(source), os.path.realpath(target)
    pending = deque([(source, target)])
    shown = 0
    while pending:
        origin, mirror = pending.popleft()
        entries = _entries(origin, None if origin == source else most - shown)
        if entries is None:
            os.symlink(origin, mirror)
            continue
        shown += len(entries)
        if origin != source:
            os.mkdir(mirror)
        for entry in entries:
            place = f"{mirror}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False) or entry.name.startswith("."):
                os.symlink(entry.path, place)
            elif entry.path != target:
                pending.append((entry.path, place))


def open_up(view: str, inside: str) -> str:
    """The folder `inside` (a relative path) of `view`, made if it is not there: no link is left on the way to it.

    A link to a folder becomes a folder of links, so that what is made there is not made in the user's.
    """
    place = view
    for name in os.path.normpath(inside).split(os.sep):
        place = os.path.normpath(os.path.join(place, name))
        if os.path.islink(place) and os.path.isdir(place):
            origin = os.path.realpath(place)
            os.unlink(place)
            show_folder(origin, place, None)
        elif not os.path.isdir(place):
            os.mkdir(place)
    return place


def _entries(folder: str, most: int | None) -> list[os.DirEntry[str]] | None:
    """What is in `folder`, by name; None when it is to be linked as a whole. `most=None` demands the list."""
    try:
        with os.scandir(folder) as listing:
            # A folder of a million pictures need not be read to the end to be too big.
            entries = list(itertools.islice(listing, None if most is None else max(most, 0) + 1))
    except OSError:
        if most is None:
            raise
        return None
    if most is not None and (len(entries) > most or not _ENVIRONMENT_MARKS.isdisjoint(entry.name for entry in entries)):
        return None
    return sorted(entries, key=lambda entry: entry.name)


def show_folder(source: str, target: str, most: int | None = _MOST_ENTRIES) -> bool:
    """Show folder `source` as a new folder `target` of links; False when it is to be linked as a whole.

    So it is when it cannot be listed, is a virtual environment or has more than `most` entries. `most=None` demands the
    folder of links; raises OSError when `source` cannot be listed.
    """
    entries = _entries(source, most)
    if entries is None:
        return False
    os.mkdir(target)
    for entry in entries:
        os.symlink(entry.path, f"{target}/{entry.name}")
    return True


def make_own(top: str, path: str, free: Callable[[str], bool], largest: int) -> None:
    """Replace the links on the way from folder `top` to `path` below it by what they show, so that it can be changed.

    A link to a folder becomes a folder of links, a link to a regular file of at most `largest` bytes a copy. Links to
    what is `free` to be changed stay, and so do those to anything else, to nothing, and to very large folders.
    """
    place = top
    for name in os.path.relpath(path, top).split(os.sep):
        place = os.path.join(place, name)
        if os.path.islink(place):
            target = os.path.realpath(place)
            if free(target):
                place = target
            else:
                _replace_link(place, target, f"{top}/{uuid.uuid4().hex}", largest)


def _replace_link(link: str, target: str, spare: str, largest: int) -> None:
    if os.path.isdir(target):
        if not show_folder(target, spare):
            return
        os.unlink(link)
    elif os.path.isfile(target) and os.path.getsize(target) <= largest:
        shutil.copy2(target, spare)
        os.chmod(spare, os.stat(spare).st_mode | stat.S_IWUSR)
    else:
        return
    os.rename(spare, link)


def size(path: str) -> int:
    """The bytes that the files below folder `path` take up, as far as they can be seen."""
    total, pending = 0, [path]
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                for entry in listing:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:  # gone meanwhile, or closed to us
            continue
    return total


def remove_tree(path: str) -> None:
    """Delete folder `path` and all below it: links as links, whatever its modes, its size and its depth.

    The processes that used it must have ended. Raises NotADirectoryError when `path` is no folder or a link to one.
    """
    if os.rename not in os.supports_dir_fd:
        shutil.rmtree(path)
        return
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(path)
    os.chmod(path, stat.S_IRWXU)
    top = _open_folder(path)
    try:
        # Subfolders are moved to the top before they are emptied. So nothing recurses, no path is ever longer than one
        # name, and two open folders are enough at any depth.
        names = (f"{uuid.uuid4().hex}-{number}" for number in itertools.count())
        pending = _empty(top, top, names)
        while pending:
            name = pending.pop()
            folder = _open_folder(name, top)
            try:
                pending += _empty(folder, top, names)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _empty(folder: int, top: int, names: Iterator[str]) -> list[str]:
    """Delete the files in the open `folder`, move its subfolders to the open folder `top`, return their new names."""
    moved = []
    with os.scandir(folder) as listing:
        entries = list(listing)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            # Neither moving nor listing it works without these.
            os.chmod(entry.name, stat.S_IRWXU, dir_fd=folder)
            moved.append(next(names))
            os.rename(entry.name, moved[-1], src_dir_fd=folder, dst_dir_fd=top)
        else:
            os.unlink(entry.name, dir_fd=folder)
    return moved


def _open_folder(path: str, parent: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
