"""What runs on disk so that a reduction that was cut off can be taken up again: each report, as soon as it comes.

A search asks for runs in an order that follows from their reports alone. So a search that is begun again and is given
the reports of the first one comes, without running anything, to where the first one was cut off, and goes on from there
to the result that the first one would have had.

A journal is a file of JSON lines: a heading, then `{"job": digest, "report": {...}}` and `{"adopted": {...}}`. It is
deleted when its reduction is done. Whoever writes one holds a lock on it, which the system takes back from the dead.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import click

from shrinkrepro.program.source import Program, Size

if sys.platform != "win32":
    import fcntl

# Where journals are kept, when this names a folder.
VARIABLE = "SHRINKREPRO_STATE"
_SCHEMA = 1

# Reports as JSON by the digest of their job, those of one job in the order in which they came.
Reports = dict[str, deque[str]]


@dataclass(frozen=True)
class Heading:
    """What a journal is about: `identity` is the same for two runs that can share their reports.

    `script` and `folder` are what the user named and where; `started` is in seconds since 1970.
    """

    identity: str
    script: str
    folder: str
    started: float


@dataclass(frozen=True)
class Unfinished:
    """A reduction that has not come to its end: `statements` and `tokens` are those of its smallest program."""

    path: Path
    heading: Heading
    statements: int | None
    tokens: int | None
    running: bool


def journals() -> Path:
    """The folder of all journals, which need not exist."""
    return Path(os.environ.get(VARIABLE) or click.get_app_dir("shrinkrepro"), "journals")


def identity(program: Program, settings: object, versions: Mapping[str, str]) -> str:
    """The same text for two runs in which every report must be the same: same files, call, settings and versions."""
    told = [program.texts, asdict(program.invocation), settings, sorted(versions.items())]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()


class Journal:
    """A journal that is being written. Every line is with the system before the next run begins.

    When a line cannot be written (the disk is full), `problem` says why, and nothing more is written.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self.problem: OSError | None = None

    @classmethod
    def begin(cls, folder: Path, program: Program, identity: str, script: str) -> Journal:
        """A new journal in `folder`. Raises OSError when it cannot be made."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{uuid.uuid4().hex}.jsonl"
        file = path.open("xb", buffering=0)
        _lock(file)
        journal = cls(path, file)
        heading = Heading(identity, script, program.invocation.cwd, time.time())
        journal._write(json.dumps({"schema": _SCHEMA, **asdict(heading)}))
        if journal.problem is not None:
            journal.close(done=True)
            raise journal.problem
        return journal

    @classmethod
    def resume(cls, folder: Path, identity: str) -> tuple[Journal, Reports] | None:
        """The newest journal of that identity which nobody writes, and the reports in it; None when there is none."""
        for path in reversed(cut_off(folder, identity)):
            file = path.open("r+b", buffering=0)
            if not _lock(file):
                file.close()
                continue
            lines = list(_lines(path))
            whole = sum(map(len, lines))
            file.truncate(whole)  # a line that was cut off
            file.seek(whole)
            return cls(path, file), _reports(lines)
        return None

    def report(self, job: str, report: str) -> None:
        """Write down the report, as JSON, of the job with that digest."""
        self._write(f'{{"job":"{job}","report":{report}}}')

    def adopted(self, size: Size) -> None:
        """Write down the size of a program that was adopted."""
        self._write(json.dumps({"adopted": {"statements": size.statements, "tokens": size.tokens}}))

    def close(self, *, done: bool) -> None:
        """Let go of the journal, and delete it when the reduction is `done`."""
        if done:
            self.path.unlink(missing_ok=True)
        self._file.close()

    def _write(self, line: str) -> None:
        if self.problem is None:
            try:
                self._file.write(line.encode() + b"\n")
            except OSError as problem:
                self.problem = problem


def all_in(folder: Path) -> list[Unfinished]:
    """The reductions whose journals are in `folder`, the oldest first; files that are no journals are left out."""
    return [_unfinished(path, heading) for path, heading in _headings(folder)]


def cut_off(folder: Path, identity: str) -> list[Path]:
    """The journals of that identity in `folder` that nobody writes, the oldest first. Only headings are read."""
    return [path for path, heading in _headings(folder) if heading.identity == identity and not _running(path)]


def clean(folder: Path) -> int:
    """Delete the journals in `folder` that nobody writes; how many these were."""
    gone = [path for path, _ in _headings(folder) if not _running(path)]
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)


def _headings(folder: Path) -> list[tuple[Path, Heading]]:
    """The journals in `folder` and what they are about, the oldest first; files that are no journals are left out."""
    found = ((path, _heading(path)) for path in (folder.glob("*.jsonl") if folder.is_dir() else ()))
    known = [(path, heading) for path, heading in found if heading is not None]
    return sorted(known, key=lambda one: one[1].started)


def _heading(path: Path) -> Heading | None:
    try:
        heading = json.loads(next(_lines(path)))
        return Heading(**heading) if heading.pop("schema") == _SCHEMA else None
    except (StopIteration, ValueError, TypeError, KeyError, AttributeError):
        return None


def _unfinished(path: Path, heading: Heading) -> Unfinished:
    size: dict[str, int] = {}
    for line in _lines(path):
        if line.startswith(b'{"adopted"'):
            size = json.loads(line)["adopted"]
    return Unfinished(path, heading, size.get("statements"), size.get("tokens"), _running(path))


def _running(path: Path) -> bool:
    """Whether somebody writes the journal."""
    with path.open("rb") as file:
        return not _lock(file)


def _reports(lines: Iterable[bytes]) -> Reports:
    found: dict[str, deque[str]] = defaultdict(deque)
    for entry in map(json.loads, lines):
        if "job" in entry:
            found[entry["job"]].append(json.dumps(entry["report"]))
    return found


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a journal; the last one may have been cut off and is then left out."""
    with path.open("rb") as file:
        yield from (line for line in file if line.endswith(b"\n"))


def _lock(file: BinaryIO) -> bool:
    """Whether nobody else holds the lock of an open journal; it is ours then, until the file is closed."""
    if sys.platform == "win32":  # two runs may then take up one journal, and both go on from it
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
