"""The fork server seen from our side: starts its process, sends jobs, collects reports, restarts it when it dies."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shrinkrepro.runtime.messages import Job, Report, from_json
from shrinkrepro.runtime.secrets import without_secrets

# Set before the first import of torch or numpy: their thread pools would not survive a fork.
SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_MEMORY, _ROOM = "/dev/shm", 2 << 30
# Data loaders make sockets among their temporary files, whose whole names may have 103 characters (107 on Linux). What
# comes below the place of the scratch folder takes up to 63 of them.
_LONGEST_PLACE = 40
_PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])
_START = (
    "import sys; sys.path[0] = {parent!r}; from shrinkrepro.runtime.supervisor import main; sys.path.pop(0);"
    "main({fd}, {folder!r})"
)
# Why a module was not imported ahead of the runs.
STARTS_THREADS = "importing it starts threads"
# How often a job may be on the fly when the zygote dies before the job is blamed for it.
_DEATHS = 2
# Seconds that the zygote has to end its children and to clean up.
_PATIENCE = 30.0


def _scratch_place() -> str:
    """Where TMPDIR says, else memory if there is room (making a file costs 0.01 ms there), else the system's choice.

    A place with too long a name for sockets is left out as long as there is another.
    """
    named = [tempfile.gettempdir()] if os.environ.get("TMPDIR") else []
    places = [*named, *([_MEMORY] if _roomy(_MEMORY) else []), tempfile.gettempdir(), "/tmp"]
    return next((place for place in places if len(place) <= _LONGEST_PLACE and os.access(place, os.W_OK)), places[0])


def _roomy(folder: str) -> bool:
    try:
        space = os.statvfs(folder)
    except OSError:
        return False
    return space.f_bavail * space.f_frsize >= _ROOM and os.access(folder, os.W_OK | os.X_OK)


class Zygote:
    """A backend that forks one child a job from a warm process. Linux and macOS.

    The process begins at once to import the modules in `ahead`, while the caller does something else. It and the runs
    have `environment` (that of this process when None) without the variables that look secret.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, ahead: Sequence[str] = ()) -> None:
        self._environment = without_secrets(os.environ if environment is None else environment)
        self._modules: tuple[str, ...] = ()
        self._next = 0
        self._jobs: dict[int, Job] = {}
        self._deaths: dict[int, int] = {}
        self._reports: dict[int, Report] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._start()
        if ahead:
            self._send({"id": self._ticket(), "import": list(ahead)})

    def submit(self, job: Job) -> int:
        """Start a job; the ticket to ask for its report with."""
        ticket = self._ticket()
        self._jobs[ticket] = job
        self._deaths[ticket] = 0
        self._send({"id": ticket, "run": asdict(job)})
        return ticket

    def wait(self, ticket: int) -> Report:
        """The report of a job, once it has ended."""
        while ticket not in self._reports:
            self.receive()
        return self._reports.pop(ticket)

    def fileno(self) -> int:
        """What a selector waits on: when it is readable, `receive` does not block. Ask anew before each wait."""
        return self._channel.fileno()

    def receive(self) -> None:
        """Wait for something to arrive, and take it in; when the zygote is dead, start it again."""
        if self._alive:
            self._take_in()
        if not self._alive:
            self._restart()

    def ended(self) -> tuple[int, ...]:
        """The tickets whose reports are here: `wait` gives them at once."""
        return tuple(self._reports)

    def cancel(self, ticket: int) -> None:
        """End a job whose report nobody will ask for."""
        if self._jobs.pop(ticket, None) is not None:
            self._send({"cancel": ticket})
        self._reports.pop(ticket, None)

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        """Import `modules` in the zygote; when that starts threads, which no fork survives, start over without them."""
        ticket, process = self._ticket(), self._process
        self._send({"id": ticket, "import": list(modules)})
        while ticket not in self._answers:
            self.receive()
            if self._process is not process:
                return dict.fromkeys(modules, "the zygote died while importing")
        answer = self._answers.pop(ticket)
        if answer["threads"] > 1:
            self._restart()
            return dict.fromkeys(modules, STARTS_THREADS)
        self._modules += tuple(name for name in modules if name not in answer["failed"])
        failed: dict[str, str] = answer["failed"]
        return failed

    def close(self) -> None:
        """End the zygote, every job and every process that a job has left, and delete the scratch folder."""
        self._channel.close()
        self._process.terminate()  # it may be in the midst of an import
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:  # it hangs; its children die with it
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)  # gone already, unless the zygote was killed

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _ticket(self) -> int:
        self._next += 1
        return self._next

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        # made by the zygote, which is also there to remove it when this process is killed
        self._folder = str(Path(_scratch_place(), f"shrinkrepro-{uuid.uuid4().hex[:8]}"))
        code = _START.format(parent=_PACKAGE_PARENT, fd=theirs.fileno(), folder=self._folder)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**self._environment, **SINGLE_THREADED},
            start_new_session=True,  # Ctrl-C reaches us alone; we decide what it means for the rest
        )
        theirs.close()
        self._channel = ours
        self._received = bytearray()
        self._alive = True

    def _restart(self) -> None:
        """A new zygote for the jobs still open; one that was on the fly at too many deaths is given up."""
        self.close()
        self._start()
        if self._modules:
            self._send({"id": self._ticket(), "import": list(self._modules)})
        for ticket, job in list(self._jobs.items()):
            self._deaths[ticket] += 1
            if self._deaths[ticket] >= _DEATHS:
                self._settle(ticket, Report("killed", error="the zygote died each time this ran"))
            else:
                self._send({"id": ticket, "run": asdict(job)})

    def _send(self, request: dict[str, Any]) -> None:
        """Send a request; what comes meanwhile is taken in, so that neither side waits for the other to read."""
        data = memoryview(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        while data and self._alive:
            readable, writable, _ = select.select([self._channel], [self._channel], [])
            if readable:
                self._take_in()
            elif writable:
                try:
                    data = data[self._channel.send(data, socket.MSG_DONTWAIT) :]
                except (BrokenPipeError, ConnectionResetError):
                    self._alive = False  # mended when we wait for an answer

    def _take_in(self) -> None:
        try:
            data = self._channel.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self._alive = bool(data)
        *lines, rest = bytes(self._received + data).split(b"\n")
        self._received = bytearray(rest)
        for answer in map(json.loads, lines):
            if "report" in answer:
                self._settle(answer["id"], _report(answer["report"]))
            else:
                self._answers[answer["id"]] = answer

    def _settle(self, ticket: int, report: Report) -> None:
        if self._jobs.pop(ticket, None) is not None:
            self._reports[ticket] = report
        self._deaths.pop(ticket, None)


def _report(text: str) -> Report:
    """The report as it came from the child, or one that says that it made no sense."""
    try:
        return from_json(Report, text)
    except ValueError as problem:
        return Report("killed", error=f"sent a report that makes no sense: {problem}")
