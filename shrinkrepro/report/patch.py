"""A repair as a patch of the user's files: the diff, and writing it to them with a backup.

A program's text is what Python reads; the file may have other line ends, another encoding, or be a notebook. Lines that
the repair leaves alone stay as they are in the file, byte for byte.
"""

from __future__ import annotations

import difflib
import io
import itertools
import json
import os
import re
import shutil
import tempfile
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.notebook import read_notebook
from shrinkrepro.program.source import Cell, Program, SourceFile

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_BOM = "\ufeff"


@dataclass(frozen=True)
class Change:
    """A file's whole text before and after; `path` is relative to the program's root, `place` where it is on disk."""

    path: str
    place: Path
    before: str
    after: str
    encoding: str


def source_diff(original: Program, mended: Program) -> str:
    """The unified diff between the texts of two versions of a program."""
    pairs = ((file, mended[file.path]) for file in original)
    return "".join(_unified(old.path, old.text, new.text) for old, new in pairs)


def changes(original: Program, mended: Program) -> list[Change]:
    """What the files on disk become, those that change.

    Raises ShrinkReproError when one cannot be read, or is not any more what `original` was loaded from.
    """
    found = []
    for file in original:
        if mended[file.path].text != file.text:
            place = Path(original.invocation.root, PurePosixPath(file.path))
            before, encoding = _read(place)
            rewrite = _rewritten_notebook if file.path.endswith(".ipynb") else _rewritten
            found.append(Change(file.path, place, before, rewrite(before, file, mended[file.path]), encoding))
    return found


def patch(made: Sequence[Change]) -> bytes:
    """The unified diff of the files as they are on disk, for `patch -p1` or `git apply` in the program's folder."""
    return b"".join(_unified(c.path, c.before, c.after).encode(c.encoding) for c in made)


def write_patch(made: Sequence[Change], path: Path) -> None:
    """Write the diff to a file, at once or not at all. Raises ShrinkReproError when that fails."""
    try:
        replace_file(path, patch(made))
    except OSError as problem:
        raise ShrinkReproError(
            Exit.OUTPUT_UNWRITABLE, f"{path} cannot be written: {problem.strerror}; name another file with --patch"
        ) from problem


def apply(made: Sequence[Change]) -> list[Path]:
    """Write the changes to the files, all of them or none, after a backup of each; the backups.

    A backup is named like the file with ".orig" added, and a number where that exists.
    Raises ShrinkReproError when a file cannot be written, or is not any more what it was when the changes were made.
    """
    place = Path()
    staged: list[Path] = []
    backups: list[Path] = []
    written: list[Path] = []
    try:
        for change in made:
            place = change.place
            staged.append(_staged(place.resolve(), change.after.encode(change.encoding)))
        for change in made:
            place = change.place
            backups.append(_backup(change))
        for change, ready in zip(made, staged, strict=True):
            place = change.place
            written.append(ready.replace(place.resolve()))
    except BaseException as problem:
        _undo(staged, backups, written)
        if not isinstance(problem, OSError):
            raise
        raise ShrinkReproError(
            Exit.OUTPUT_UNWRITABLE, f"{place} cannot be changed: {problem.strerror}; write a patch with --patch instead"
        ) from problem
    return backups


def _undo(staged: Sequence[Path], backups: Sequence[Path], written: Sequence[Path]) -> None:
    """Put back the files that were written, the first of those with a backup, and remove what was made beside them."""
    for place, backup in zip(written, backups, strict=False):
        backup.replace(place)
    for path in (*staged[len(written) :], *backups[len(written) :]):
        path.unlink(missing_ok=True)


def _unified(path: str, before: str, after: str) -> str:
    """A unified diff as `patch` and `git apply` read it, line ends as they are; empty where nothing differs."""
    mark = "\t" if " " in path else ""  # says where a name with spaces ends
    lines = difflib.unified_diff(_split(before), _split(after), f"a/{path}{mark}", f"b/{path}{mark}")
    return "".join(line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _split(text: str) -> list[str]:
    return _LINES.findall(text)


def _read(place: Path) -> tuple[str, str]:
    """A file's text, byte order mark and line ends as they are, and its encoding."""
    try:
        data = place.read_bytes()
        encoding = "utf-8" if place.suffix == ".ipynb" else tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        return data.decode(encoding), encoding
    except (OSError, SyntaxError, UnicodeDecodeError) as problem:
        raise ShrinkReproError(Exit.OUTPUT_UNWRITABLE, f"{place} cannot be read again: {problem}") from problem


def _rewritten(before: str, old: SourceFile, new: SourceFile) -> str:
    """The file's text with the lines replaced that differ between the two versions of its source."""
    mark, lines = (_BOM, _split(before[1:])) if before.startswith(_BOM) else ("", _split(before))
    if "".join(map(_plain, lines)) != old.text:
        raise _stale(old.path)
    end = next((_end(line) for line in lines if _end(line)), "\n")
    return mark + "".join(_merged(lines, old.text, new.text, end))


def _plain(line: str) -> str:
    """A line with its end as Python reads it."""
    bare = line.rstrip("\r\n")
    return bare if bare == line else f"{bare}\n"


def _merged(lines: Sequence[str], old: str, new: str, end: str) -> Iterator[str]:
    """The lines of the new text, those that it has in common with the old one as `lines` has them.

    A line that takes the place of another ends like it, one that comes in ends with `end`.
    """
    was, becomes = _split(old), _split(new)
    for kind, start, stop, first, last in difflib.SequenceMatcher(None, was, becomes, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from lines[start:stop]
            continue
        replaced = itertools.chain(lines[start:stop], itertools.repeat(""))
        for line, before in zip(becomes[first:last], replaced, strict=False):
            yield line.removesuffix("\n") + (_end(before) or end) if line.endswith("\n") else line


def _end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _rewritten_notebook(before: str, old: SourceFile, new: SourceFile) -> str:
    """The notebook's text with the lines of its code cells replaced that differ."""
    numbers = {cell.number for cell in old.cells}
    if read_notebook(old.path, before, numbers)[0].text != old.text:
        raise _stale(old.path)
    content = json.loads(before)
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    sources = {number: _cell_lines(code[number - 1]["source"]) for number in numbers}
    was, becomes = _split(old.text), _split(new.text)
    blocks = difflib.SequenceMatcher(None, was, becomes, autojunk=False).get_opcodes()
    for kind, start, stop, first, last in reversed(blocks):
        if kind != "equal":
            cell = _cell_of(old.cells, start + 1)
            offset = start - (cell.first - 1)
            sources[cell.number][offset : offset + stop - start] = becomes[first:last]
    for number, lines in sources.items():
        joined = "".join(lines).removesuffix("\n")
        cell_source = code[number - 1]["source"]
        if joined != "".join(cell_source).removesuffix("\n"):
            code[number - 1]["source"] = joined if isinstance(cell_source, str) else _split(joined)
    indent = re.search(r"\n( +)\S", before)
    text = json.dumps(content, indent=len(indent[1]) if indent else None, ensure_ascii=before.isascii())
    return text + ("\n" if before.endswith("\n") else "")


def _cell_lines(source: str | Sequence[str]) -> list[str]:
    """A cell's lines, each with its end."""
    lines = _split("".join(source))
    return [*lines[:-1], f"{lines[-1]}\n"] if lines and not lines[-1].endswith("\n") else lines


def _cell_of(cells: Sequence[Cell], line: int) -> Cell:
    return [cell for cell in cells if cell.first <= line][-1]


def _stale(path: str) -> ShrinkReproError:
    return ShrinkReproError(
        Exit.OUTPUT_UNWRITABLE, f"{path} has changed since it was read; nothing was written, start again"
    )


def _backup(change: Change) -> Path:
    """Keep the file beside itself under a name that is free, with its permissions and times.

    Raises ShrinkReproError when it is not what it was when the change was made.
    """
    place, data = change.place, change.place.read_bytes()
    if data != change.before.encode(change.encoding):
        raise _stale(change.path)
    number = 0
    while True:
        path = place.with_name(f"{place.name}.orig{number or ''}")
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            number += 1
            continue
        shutil.copystat(place, path)
        return path


def replace_file(place: Path, data: bytes) -> None:
    """Write a file at once or not at all; one that exists keeps its permissions, and stays behind its links."""
    place = place.resolve()
    ready = _staged(place, data)
    try:
        ready.replace(place)
    finally:
        ready.unlink(missing_ok=True)


def _staged(place: Path, data: bytes) -> Path:
    """A new file beside `place` that can take its place: `data` is safely on disk, owner and permissions are its own.

    Nothing is left behind when that fails.
    """
    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            status = place.stat()
            if hasattr(os, "chown"):
                with suppress(PermissionError):  # not ours to give away: then it belongs to who runs this
                    os.chown(name, status.st_uid, status.st_gid)
            shutil.copymode(place, name)
        else:
            Path(name).chmod(0o644)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
