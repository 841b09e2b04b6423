"""A copied folder to run the command in, and the questions whether anything of it changed or still runs."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
_MARK = "SHRINKREPRO_TEST_RUN"
# Where making files is fast, if there is such a place.
_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# What a file or a folder is: kind and permissions, time of its last change, content.
Entry = tuple[int, int, bytes]


def snapshot(folder: Path) -> dict[str, Entry]:
    """Every file and folder below `folder`, itself included, by relative path."""
    return {str(path.relative_to(folder)): _entry(path) for path in (folder, *folder.rglob("*"))}


def _entry(path: Path) -> Entry:
    status = path.lstat()
    return status.st_mode, status.st_mtime_ns, path.read_bytes() if stat.S_ISREG(status.st_mode) else b""


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@dataclass(frozen=True)
class Sandbox:
    """A copy of a corpus case in a temporary folder, beside an output folder; `scratch` is for temporary files.

    The name of `scratch` is short, as names of sockets in it must be.
    """

    top: Path
    scratch: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(cls, case: str, top: Path) -> Sandbox:
        shutil.copytree(CORPUS / case, top / "case")
        (top / "output").mkdir()
        scratch = Path(tempfile.mkdtemp(dir=_MEMORY))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
        return cls(top, scratch)

    @property
    def case(self) -> Path:
        return self.top / "case"

    def command(self, script: str, *options: str) -> list[str]:
        """The command line that reduces a script of the case."""
        output = str(self.top / "output" / "minimal.py")
        return [sys.executable, "-m", "shrinkrepro", str(self.case / script), "-o", output, *options]

    def environment(self) -> dict[str, str]:
        """An environment by which every process of the run can be recognised, with temporary files in the sandbox."""
        package = str(CORPUS.parent)
        paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        places = {"PYTHONPATH": paths, "TMPDIR": str(self.scratch), "SHRINKREPRO_STATE": str(self.top / "state")}
        return {**os.environ, **places, _MARK: self.mark}

    def processes(self) -> list[int]:
        """The processes of the run that exist, those that have ended but were not waited for left out."""
        found = []
        for process in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            try:
                environment = Path(f"/proc/{process}/environ").read_bytes()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if f"{_MARK}={self.mark}".encode() in environment:
                found.append(process)
        return found
