"""The zygote's own process: imports what programs import, forks one guarded child a job, and never computes.

Started as `python -c "... main(descriptor, folder)"` with one end of a socket and the scratch folder to make. Requests
come as lines of JSON and are answered in the order in which they end:

    {"id": 7, "run": {job}}           → {"id": 7, "report": "{report}"}
    {"id": 8, "import": ["torch"]}    → {"id": 8, "failed": {"name": "why"}, "threads": 1}
    {"id": 9, "cancel": 7}            (no answer)

A report is a string here, as the child wrote it: what a damaged program has written may be anything. When the socket
closes, for whatever reason, every child is killed and every scratch file removed.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import FrameType
from typing import Any, NoReturn

from shrinkrepro.runtime import guard, layers, pages, scratch
from shrinkrepro.runtime.execute import execute
from shrinkrepro.runtime.messages import NOWHERE, PHRASE, Job, Outcome, Report, from_json, to_json
from shrinkrepro.runtime.secrets import secret_places

_CHUNK = 1 << 16
# How often, in seconds, the processes and files of children are counted.
_GREED = 0.25
# A report is a few kilobytes; a child that sends more than this is not reporting.
_LARGEST_REPORT = 16 << 20
_PRINTED = "printed-by-the-program"
# How often, in seconds, is looked at what plain interpreters have printed.
_GLANCE = 0.05
# How nice a patient job is to others.
_PATIENT = 10
# How often the kernel is asked for that: it answers one process in a tenth of a second.
_ATTEMPTS = 10
# How many of the files that a run writes are named, and where programs write that don't ask where to.
_MOST_WRITTEN = 100
_COMMON = ("/tmp", "/dev/shm")
_PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_HOOKED = (
    "import sys; sys.path[0] = {parent!r}; from shrinkrepro.runtime.plain import run; "
    "from shrinkrepro.runtime.messages import Limits; sys.path.pop(0); "
    "run(sys.argv[1:], {folder!r}, {limits!r}, network={network})"
)
# What the children may need beside the program's own imports. All of it needs PyTorch.
_INSTRUMENTS = ("tracer", "observer", "capture", "poller", "prove", "announce")


@dataclass
class _Child:
    """One running job."""

    job_id: int
    job: Job
    pid: int
    pipe: int
    started: float
    deadline: float
    folder: str
    received: bytearray = field(default_factory=bytearray)
    read: int = 0
    answered: bool = False


class Supervisor:
    """Serves one client until its socket closes."""

    def __init__(self, channel: socket.socket, scratch_folder: str) -> None:
        self._channel = channel
        self._scratch = scratch_folder
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ, self._read_requests)
        self._pending = bytearray()
        self._open = True
        self._look_again = 0.0
        self._room = 0
        wake_read, self._wake = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: self._drain(wake_read))

    def serve(self) -> None:
        """Answer requests until the client has gone, then leave nothing behind. The scratch folder must exist."""
        self._room = _free(self._scratch)
        try:
            while self._open:
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self._end_overdue()
                self._end_decided()
                self._reap()
        finally:
            self.close()

    def _patience(self) -> float | None:
        running = [child for child in self._children.values() if not child.answered]
        if not running:
            return None
        now = time.monotonic()
        glances = [now + _GLANCE for child in running if child.job.watch == "fresh"]
        return max(0.0, min(self._look_again, *glances, *(child.deadline for child in running)) - now)

    def _drain(self, descriptor: int) -> None:
        os.read(descriptor, _CHUNK)

    def _read_requests(self) -> None:
        try:
            data = self._channel.recv(_CHUNK)
        except (ConnectionError, InterruptedError):
            data = b""
        if not data:
            self._open = False
            return
        self._pending += data
        *lines, rest = bytes(self._pending).split(b"\n")
        self._pending = bytearray(rest)
        for line in lines:
            self._handle(json.loads(line))

    def _handle(self, request: dict[str, Any]) -> None:
        if "run" in request:
            self._fork(request["id"], from_json(Job, json.dumps(request["run"])))
        elif "import" in request:
            self._answer({"id": request["id"], "failed": import_all(request["import"]), "threads": _threads()})
        elif "cancel" in request:
            for child in self._children.values():
                if child.job_id == request["cancel"]:
                    child.answered = True
                    _kill(child.pid)

    def _fork(self, job_id: int, job: Job) -> None:
        folder = os.path.join(self._scratch, str(job_id))
        read, write = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _run_child(job, folder, write, parent)
        os.close(write)
        os.set_blocking(read, False)
        now = time.monotonic()
        self._look_again = max(self._look_again, now + _GREED) if not self._children else self._look_again
        child = _Child(job_id, job, pid, read, now, now + job.limits.wall, folder)
        self._children[pid] = child
        self._selector.register(read, selectors.EVENT_READ, lambda: self._receive(child))

    def _receive(self, child: _Child) -> None:
        try:
            data = os.read(child.pipe, _CHUNK)
        except BlockingIOError:
            return
        child.received += data
        complete = b"\n" in data
        if complete or not data or len(child.received) > _LARGEST_REPORT:
            self._selector.unregister(child.pipe)
            os.close(child.pipe)
            child.pipe = -1
        if complete:
            self._finish(child, bytes(child.received).partition(b"\n")[0].decode("utf-8", "replace"))
            _kill(child.pid)
        elif len(child.received) > _LARGEST_REPORT:
            self._finish(child, _ended("killed", child, "sent a report of more than 16 MiB"))
            _kill(child.pid)

    def _finish(self, child: _Child, report: str) -> None:
        if not child.answered:
            child.answered = True
            self._answer({"id": child.job_id, "report": report})

    def _answer(self, message: dict[str, Any]) -> None:
        self._channel.sendall(json.dumps(message).encode() + b"\n")

    def _end_greedy(self) -> None:
        """End children that have too many processes, or too much in their scratch folders."""
        filled = self._room - _free(self._scratch)
        for child in [child for child in self._children.values() if not child.answered]:
            limits = child.job.limits
            if len(guard.descendants(child.pid)) > limits.processes:
                self._finish(child, _ended("killed", child, f"had more than {limits.processes} processes"))
                _kill(child.pid)
            elif filled > limits.scratch and scratch.size(child.folder) > limits.scratch:
                self._finish(child, _ended("killed", child, f"wrote more than {limits.scratch} bytes"))
                _kill(child.pid)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        if now >= self._look_again and self._children:
            self._look_again = now + _GREED
            self._end_greedy()
        for child in list(self._children.values()):
            if not child.answered and child.deadline <= now:
                self._finish(child, _ended("timeout", child, "ran longer than it may"))
                _kill(child.pid)

    def _end_decided(self) -> None:
        """End plain interpreters that have printed the error: to come to their end takes them up to a second more."""
        for child in self._children.values():
            undecided = child.job.watch == "fresh" and not child.answered
            report = _printed(child, 0) if undecided and _prints_failure(child) else None
            if report is not None and report.outcome == "failed":
                self._finish(child, to_json(report))
                _kill(child.pid)

    def _reap(self) -> None:
        """Collect the dead, answer for those that died without a word, and end what they left running."""
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is None:
                continue
            if child.pipe >= 0:
                self._receive(child)
            if child.pipe >= 0:
                self._selector.unregister(child.pipe)
                os.close(child.pipe)
            if not child.answered:
                printed = _printed(child, status) if child.job.watch == "fresh" else None
                self._finish(child, to_json(printed) if printed else _ended("killed", child, _death(status)))
            self._sweep()
            _remove(child.folder)

    def _sweep(self) -> None:
        """End every process that finished children left to us; those of running children are below them, not us."""
        for _ in range(1000):
            running = set(self._children).union(*map(guard.descendants, self._children))
            orphans = [pid for pid in guard.descendants(os.getpid()) if pid not in running]
            if not orphans:
                return
            for pid in orphans:
                _kill(pid)
            for pid in orphans:
                _wait(pid)

    def close(self) -> None:
        """End every child and everything that children have left, and remove the scratch folder."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # comes when the client is killed, and must not interrupt this
        for pid in list(self._children):
            _kill(pid)
        for pid in list(self._children):
            _wait(pid)
        self._children.clear()
        self._sweep()
        _remove(self._scratch)


def _free(folder: str) -> int:
    """The bytes that are free on the file system of a folder."""
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize


def _remove(folder: str) -> None:
    """Delete a scratch folder, as far as possible: where stray processes cannot be found, one may still write there."""
    try:
        scratch.remove_tree(folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def import_all(names: Sequence[str]) -> dict[str, str]:
    """Import the modules that can be imported; the others, with the reason, are what it returns."""
    failed = {}
    gc.disable()  # imports leave little garbage, and looking for it takes a fifth of their time
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as problem:  # a library's import may raise anything, SystemExit included
            failed[name] = f"{type(problem).__name__}: {problem}"
    if "torch" in sys.modules:
        for instrument in _INSTRUMENTS:
            importlib.import_module(f"shrinkrepro.runtime.{instrument}")
    _settle()
    gc.enable()
    return failed


def _settle() -> None:
    """Make forks cheap: move everything out of the garbage collector's sight, so that children don't copy pages."""
    gc.freeze()
    pages.collapse()


def _run_child(job: Job, folder: str, pipe: int, parent: int) -> NoReturn:
    """In the forked child: put the guard up, enter the scratch folder, run the program, report, end."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        guard.die_with_parent(signal.SIGKILL, parent=parent)
        guard.become_subreaper()  # a process that goes on without its parent stays recognisable as this program's
        os.closerange(3, pipe)  # the client's socket and the other children's pipes are not the program's business
        os.closerange(pipe + 1, 4096)
        if job.patient:
            _stand_back()
        root = _enter(job, folder)
        written: dict[str, None] = {}
        enforced = _restrict(job, folder, written)
        if job.watch == "fresh":
            _become_interpreter(job, root, folder)

        def send(report: Report) -> None:
            told = replace(report, guard=enforced, written=tuple(written))
            data = memoryview(to_json(told).encode() + b"\n")
            while data:
                data = data[os.write(pipe, data) :]

        execute(replace(job, root=root), send, private=(job.root, job.cwd, os.getcwd()))
    except BaseException as problem:  # ours, not the program's: say so rather than die without a word
        text = f"shrinkrepro could not run the program: {type(problem).__name__}: {problem}"
        os.write(pipe, to_json(Report("killed", error_type=type(problem).__name__, error=text)).encode() + b"\n")
    finally:
        os._exit(1)


def _by_kernel(job: Job) -> bool:
    return job.protection == "kernel" and guard.capabilities().landlock_abi > 0


def _restrict(job: Job, folder: str, written: dict[str, None]) -> str:
    """Put up the guard that the job asks for, and say what enforces it; `written` will name the files it writes."""
    if job.protection == "off":
        guard.bound(job.limits)
        return "off"
    kernel = _by_kernel(job)
    if job.watch == "fresh" and not kernel:  # the new interpreter puts the audit hook up itself
        return ""
    layered: tuple[str, ...] = ()
    home = os.path.expanduser("~")
    secrets = secret_places(home)
    if kernel:
        wanted = layers.worth_a_layer((home, *_COMMON, job.cwd, job.root), folder, layers.mount_points())
        if layers.own_mounts():
            here = os.getcwd()
            layered = layers.lay_over(wanted, folder, job.limits.scratch)
            os.chdir(here)  # as it is seen from now on
            layers.hide(secrets, os.path.join(folder, "hidden"))
            layers.give_up_mounting()
    view, own_home = os.path.join(folder, "view") + os.sep, os.path.join(folder, "home")
    covered = any(layers.is_below(os.path.realpath(home), layer) for layer in layered)
    if not covered and scratch.show_folder(home, own_home):
        os.environ["HOME"] = own_home

    def note(path: str) -> None:
        place = path.removeprefix(view)
        place = "~" + place.removeprefix(own_home) if place.startswith(own_home + os.sep) else place
        if len(written) < _MOST_WRITTEN and not place.startswith(folder + os.sep):
            written[place] = None

    return guard.restrict(
        folder,
        job.limits,
        network=job.network,
        landlock=kernel,
        layered=layered,
        secrets=secrets,
        written=note,
    )


def _stand_back() -> None:
    """Let others go first, also where the kernel weighs sessions (Linux: autogroups) and not single processes."""
    os.nice(_PATIENT)
    for _ in range(_ATTEMPTS):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(_PATIENT))
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:  # no such thing on this system
            return
        else:
            return


def _become_interpreter(job: Job, root: str, folder: str) -> NoReturn:
    """Replace this process by a plain interpreter that runs the program in the scratch view."""
    output = os.open(os.path.join(os.environ["TMPDIR"], _PRINTED), os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    entry = os.path.relpath(os.path.join(root, *PurePosixPath(job.entry).parts))
    start = ["-m", job.module] if job.module else [entry]
    if job.protection != "off" and not _by_kernel(job):
        hooked = _HOOKED.format(parent=_PACKAGE_PARENT, folder=folder, limits=job.limits, network=job.network)
        start = ["-c", hooked, *start]
    os.execve(sys.executable, [sys.executable, *start, *job.argv], {**os.environ, **job.environment})


def _show(job: Job, view: str) -> str:
    """Make the scratch folder `view` show the user's; the place in it that shows the current one.

    Where that lies below the program's root, the root is shown around it: `..` is part of the program then.
    """
    os.mkdir(view)
    if job.cwd == NOWHERE:
        return view
    root, current = os.path.realpath(job.root), os.path.realpath(job.cwd)
    if current != root and layers.is_below(current, root):
        scratch.build_view(root, view)
        return scratch.open_up(view, os.path.relpath(current, root))
    scratch.build_view(current, view)
    return view


def _view_of_root(job: Job, folder: str, view: str) -> str:
    """Where the program's root is shown: in `view`, around or below the current folder, or in a view of its own."""
    inside = os.path.relpath(os.path.realpath(job.root), os.path.realpath(job.cwd))
    place = os.path.normpath(os.path.join(os.path.realpath(os.getcwd()), inside))
    shown = os.path.realpath(view)
    real = os.path.isdir(place) and os.path.realpath(place) == place
    if real and layers.is_below(place, shown):
        return place
    own = os.path.join(folder, "root")
    os.mkdir(own)
    scratch.build_view(job.root, own)
    return own


def _hide(root: str, path: str) -> None:
    """Take a file out of the view below `root`, and the folders that it leaves empty."""
    target = os.path.join(root, *PurePosixPath(path).parts)
    if os.path.realpath(os.path.dirname(target)) == os.path.dirname(target) and os.path.lexists(target):
        os.unlink(target)
        for folder in PurePosixPath(path).parents[:-1]:
            try:
                os.rmdir(os.path.join(root, *folder.parts))
            except OSError:  # it holds something else
                return


def _encoded(text: str) -> bytes:
    """Source text as bytes, in the encoding that it declares."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(text.encode()).readline)
    return text.encode(encoding)


def _output_of(child: _Child) -> str:
    """The file that a plain interpreter prints to."""
    return os.path.join(child.folder, "tmp", _PRINTED)


def _prints_failure(child: _Child) -> bool:
    """Whether among the lines that a plain interpreter has printed since the last call is the error's message."""
    path = _output_of(child)
    if not os.path.exists(path):  # it has not begun
        return False
    with open(path, "rb") as file:
        file.seek(child.read)
        new = file.read(_LARGEST_REPORT)
    whole = new.rfind(b"\n") + 1
    child.read += whole or (len(new) if len(new) == _LARGEST_REPORT else 0)
    return PHRASE.encode() in new[:whole]


def _printed(child: _Child, status: int) -> Report | None:
    """What the output of a plain interpreter says about how the program ended; None when it never began."""
    path = _output_of(child)
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - child.job.limits.output))
        output = file.read().decode("utf-8", "replace")
    seconds = time.monotonic() - child.started
    failure = next((line for line in output.splitlines() if PHRASE in line), None)
    if failure is not None:
        return Report("failed", failure=failure, seconds=seconds, output=output)
    if status == 0:
        return Report("finished", seconds=seconds, output=output)
    last = output.rstrip().rpartition("\n")[2]
    if os.WIFSIGNALED(status):
        return Report("killed", error=_death(status), seconds=seconds, output=output)
    kind, _, text = last.partition(": ")
    return Report("raised", error_type=kind, error=text, seconds=seconds, output=output)


def _enter(job: Job, folder: str) -> str:
    """Make the scratch folder that this run may write in, enter it, and return where in it the program's root is.

    The program's own files are real files there, not links to the user's: a script that asks where it is, and writes
    beside itself, stays in the scratch folder. They are executed from memory all the same.
    """
    view, temporary = os.path.join(folder, "view"), os.path.join(folder, "tmp")
    os.mkdir(folder)
    os.mkdir(temporary)
    os.chdir(_show(job, view))
    root = _view_of_root(job, folder, view)
    for path in job.hidden:
        _hide(root, path)
    for path, text in job.files.items():
        place = PurePosixPath(path)
        target = os.path.join(scratch.open_up(root, str(place.parent)), place.name)
        if os.path.lexists(target):
            os.unlink(target)  # the view's link to the user's file
        with open(target, "wb") as file:
            file.write(_encoded(text))
    os.environ.update(TMPDIR=temporary, PWD=os.getcwd())
    tempfile.tempdir = None
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    if job.stdin:
        _read_from(job.stdin, os.path.join(folder, "stdin"))
    return root


def _read_from(text: str, path: str) -> None:
    """Make standard input what the text encodes, by way of a file at `path`."""
    with open(path, "wb") as file:
        file.write(os.fsencode(text))
    source = os.open(path, os.O_RDONLY)
    os.dup2(source, 0)
    os.close(source)


def _ended(outcome: Outcome, child: _Child, why: str) -> str:
    return to_json(Report(outcome, seconds=time.monotonic() - child.started, error=why))


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"killed by signal {number} ({signal.Signals(number).name})"
    return f"ended itself with status {os.WEXITSTATUS(status)} before it could report"


def _kill(pid: int) -> None:
    """End a process and its group; one that has just ended is fine."""
    for end in (os.killpg, os.kill):
        try:
            end(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _wait(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:  # no /proc on this system
        import threading

        return threading.active_count()


def main(descriptor: int, folder: str) -> None:
    """Serve the client at the other end of the socket `descriptor`, using `folder`; returns when it has gone."""
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    guard.die_with_parent(signal.SIGTERM)
    guard.become_subreaper()
    supervisor = Supervisor(channel, folder)

    def end(number: int, frame: FrameType | None) -> NoReturn:
        # an exception would have to come up through whatever is being imported, which may be C++ and then aborts
        supervisor.close()
        os._exit(143)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle
    os.mkdir(folder, 0o700)
    os.environ["TMPDIR"] = folder  # what imports leave among the temporary files goes with it
    supervisor.serve()
