"""What the guard promises, checked from inside a child process that it restricts."""

# ruff: noqa: PTH103, PTH123, SIM115
# The guard meets programs that use every way to the file system.

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from shrinkrepro.runtime import guard
from shrinkrepro.runtime.announce import announce_native_writers
from shrinkrepro.runtime.messages import Limits

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="every test restricts a forked child")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the process tree is only known on Linux")
landlock_only = pytest.mark.skipif(guard.capabilities().landlock_abi < 4, reason="no Landlock that knows TCP")

ROOMY = Limits(wall=60, cpu=60, memory=4 << 30, file=64 << 20, processes=512)
NOBODY = 65534


@dataclass(frozen=True)
class Ended:
    """How a child ended: the value it returned, or its exception (type name, text), or the signal that ended it."""

    value: Any = None
    error: str | None = None
    text: str = ""
    signal: int | None = None


def in_child(action: Callable[[], Any]) -> Ended:
    """Fork, call `action` in the child in a session of its own, and return how that went."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            message = {"value": action()}
        except BaseException as problem:  # noqa: BLE001 - a forked child must not come back into pytest
            message = {"error": type(problem).__name__, "text": str(problem)}
        os.write(writer, json.dumps(message).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return Ended(signal=os.WTERMSIG(status))
    return Ended(**json.loads(text))


Run = Callable[[Callable[[], Any]], Ended]


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A tree that belongs to the user."""
    folder = tmp_path / "home"
    (folder / "data" / "deep").mkdir(parents=True)
    (folder / "data" / "deep" / "weights.bin").write_text("precious")
    (folder / "notes.txt").write_text("precious")
    return folder


@pytest.fixture(params=["landlock", "audit hook alone"])
def run(request: pytest.FixtureRequest, scratch: Path) -> Run:
    """Runs an action under the guard, its writes confined to the scratch folder, with Landlock and without."""
    landlock = request.param == "landlock"
    if landlock and not guard.capabilities().landlock_abi:
        pytest.skip("no Landlock here")
    return confined(scratch, landlock=landlock)


@pytest.fixture
def run_by_kernel(scratch: Path) -> Run:
    """Like `run`, for what only the kernel can refuse."""
    return confined(scratch)


def confined(scratch: Path, *, limits: Limits = ROOMY, **options: bool) -> Run:
    def restricted(action: Callable[[], Any]) -> Any:
        guard.restrict(str(scratch), limits, **options)
        return action()

    return lambda action: in_child(lambda: restricted(action))


def contents(folder: Path) -> dict[str, tuple[int, int, str | None]]:
    """Every path below `folder` with its mode, its time of change and its text."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns if path.is_file() else 0,
            path.read_text("latin-1") if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def descriptor_of(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY)


def sql_insert(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x)")


# ---- files -----------------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "overwrite a file": lambda home, _: (home / "notes.txt").write_text("gone"),
    "append to a file": lambda home, _: open(home / "notes.txt", "a"),
    "open a file for update": lambda home, _: open(home / "notes.txt", "r+b"),
    "open a file at system level": lambda home, _: os.open(home / "notes.txt", os.O_RDWR),
    "create a file": lambda home, _: (home / "new.txt").write_text("x"),
    "create a folder": lambda home, _: (home / "new").mkdir(),
    "create a link": lambda home, _: (home / "new").symlink_to("/"),
    "create a hard link": lambda home, _: os.link(home / "notes.txt", home / "second.txt"),
    "hard-link a file into the scratch folder": lambda home, own: os.link(home / "notes.txt", own / "alias.txt"),
    "remove a file": lambda home, _: (home / "notes.txt").unlink(),
    "remove a file by a folder's descriptor": lambda home, _: os.unlink("notes.txt", dir_fd=descriptor_of(home)),
    "remove a folder": lambda home, _: (home / "empty").rmdir(),
    "remove a tree": lambda home, _: shutil.rmtree(home),
    "rename a file": lambda home, _: (home / "notes.txt").rename(home / "other.txt"),
    "move a file away": lambda home, own: (home / "notes.txt").rename(own / "stolen.txt"),
    "replace a file": lambda home, own: (own / "mine.txt").rename(home / "notes.txt"),
    "truncate a file": lambda home, _: os.truncate(home / "notes.txt", 0),
    "change a mode": lambda home, _: (home / "notes.txt").chmod(0o777),
    "change a mode through a descriptor": lambda home, _: os.fchmod(descriptor_of(home / "notes.txt"), 0o777),
    "change an owner": lambda home, _: os.chown(home / "notes.txt", os.getuid(), os.getgid()),
    "change a time": lambda home, _: os.utime(home / "notes.txt"),
    "write through a relative path": lambda home, own: (own / ".." / "home" / "notes.txt").write_text("gone"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_outside_the_scratch_folder_it_cannot(
    change: Callable[[Path, Path], object], run: Run, canary: Path, scratch: Path
) -> None:
    (canary / "empty").mkdir()
    (scratch / "mine.txt").write_text("mine")
    before = contents(canary)

    ended = run(lambda: change(canary, scratch))

    assert (ended.error, contents(canary)) == ("PermissionError", before)


def test_a_refusal_is_one_clear_sentence_and_names_the_file(run: Run, canary: Path) -> None:
    ended = run(lambda: (canary / "notes.txt").write_text("gone"))

    assert ended.text == f"[Errno 13] the run may write only in its scratch folder: '{canary / 'notes.txt'}'"


def test_a_tree_removed_with_errors_ignored_stays_whole(run: Run, canary: Path) -> None:
    before = contents(canary)

    ended = run(lambda: shutil.rmtree(canary, ignore_errors=True))

    assert (ended.error, contents(canary)) == (None, before)


def test_reading_is_allowed_everywhere(run: Run, canary: Path) -> None:
    assert run((canary / "notes.txt").read_text).value == "precious"


def test_inside_the_scratch_folder_everything_is_allowed(run: Run, scratch: Path) -> None:
    def work() -> str:
        folder = scratch / "runs" / "1"
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text("hello")
        (folder / "a.txt").chmod(0o600)
        (folder / "a.txt").rename(scratch / "b.txt")
        os.link(scratch / "b.txt", scratch / "c.txt")
        (scratch / "d.txt").symlink_to("c.txt")
        os.truncate(scratch / "b.txt", 4)
        os.utime(scratch / "b.txt")
        os.unlink("b.txt", dir_fd=descriptor_of(scratch))
        shutil.rmtree(scratch / "runs")
        return (scratch / "d.txt").read_text()

    assert run(work) == Ended(value="hell")


def test_a_link_in_the_scratch_folder_can_be_removed_and_replaced(run: Run, scratch: Path, canary: Path) -> None:
    link = scratch / "notes.txt"
    link.symlink_to(canary / "notes.txt")

    def replace_link() -> None:
        link.unlink()
        link.write_text("mine")

    assert run(replace_link) == Ended()
    assert ((canary / "notes.txt").read_text(), link.read_text()) == ("precious", "mine")


THROUGH: dict[str, Callable[[Path], object]] = {
    "overwrite": lambda own: (own / "notes.txt").write_text("gone"),
    "append": lambda own: open(own / "notes.txt", "a").write("!"),
    "change a mode": lambda own: (own / "notes.txt").chmod(0o777),
    "change a time": lambda own: os.utime(own / "notes.txt", (1, 1)),
    "truncate": lambda own: os.truncate(own / "notes.txt", 1),
    "add a file to a folder": lambda own: (own / "data" / "new.txt").write_text("new"),
    "remove a file from a folder": lambda own: (own / "data" / "deep" / "weights.bin").unlink(),
    "add a table to a database": lambda own: sql_insert(own / "some.db"),
    "save tensors": lambda own: announced(lambda: torch.save([1], own / "notes.txt")),
}


def announced(write: Callable[[], object]) -> None:
    announce_native_writers()
    write()


@pytest.mark.parametrize("change", THROUGH.values(), ids=THROUGH.keys())
def test_what_links_in_the_scratch_folder_show_is_copied_before_it_is_changed(
    change: Callable[[Path], object], run: Run, canary: Path, scratch: Path
) -> None:
    (canary / "some.db").touch()
    for entry in canary.iterdir():
        (scratch / entry.name).symlink_to(entry)
    before = contents(canary)

    ended = run(lambda: change(scratch) and None)

    assert (ended, contents(canary)) == (Ended(), before)
    assert contents(scratch) != before


def test_a_file_too_large_to_be_copied_is_not_written(scratch: Path, canary: Path) -> None:
    (scratch / "notes.txt").symlink_to(canary / "notes.txt")

    ended = confined(scratch, limits=replace(ROOMY, file=3))(lambda: (scratch / "notes.txt").write_text("gone"))

    assert (ended.error, (canary / "notes.txt").read_text()) == ("PermissionError", "precious")


def test_secrets_are_not_there(scratch: Path, canary: Path) -> None:
    def peek() -> str:
        guard.restrict(str(scratch), ROOMY, secrets=(str(canary / "data"),))
        return (canary / "data" / "deep" / "weights.bin").read_text()

    assert in_child(peek).error == "FileNotFoundError"


def test_each_file_that_is_written_is_told(scratch: Path) -> None:
    def write_two() -> list[str]:
        told: list[str] = []
        guard.restrict(str(scratch), ROOMY, written=told.append)
        os.chdir(scratch)
        open("a.txt", "w").close()
        open("a.txt").close()
        os.close(os.open("b.txt", os.O_CREAT | os.O_WRONLY))
        open(os.devnull, "w").close()
        return told

    assert in_child(write_two) == Ended(value=["a.txt", "b.txt"])


MISSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "removing a file that is not there": (lambda home: (home / "absent").unlink(), "FileNotFoundError"),
    "renaming a file that is not there": (lambda home: (home / "absent").rename(home / "x"), "PermissionError"),
    "making a folder that is there": (lambda home: (home / "data").mkdir(), "FileExistsError"),
    "writing into a folder that is not there": (lambda home: (home / "no" / "x").write_text(""), "FileNotFoundError"),
    "opening for update what is not there": (lambda home: open(home / "absent", "r+"), "FileNotFoundError"),
}


@pytest.mark.parametrize(("attempt", "error"), MISSES.values(), ids=MISSES.keys())
def test_what_fails_anyway_fails_with_its_own_error(
    attempt: Callable[[Path], object], error: str, run: Run, canary: Path
) -> None:
    assert run(lambda: attempt(canary)).error == error


def test_making_sure_that_an_existing_folder_exists_is_allowed(run: Run, canary: Path) -> None:
    assert run(lambda: os.makedirs(canary / "data", exist_ok=True)) == Ended()


def test_the_null_device_and_open_pipes_can_be_written(run: Run) -> None:
    def discard() -> int:
        _, writer = os.pipe()
        with open(f"/dev/fd/{writer}", "w") as pipe:
            pipe.write("x")
        with open(os.devnull, "w") as null:
            return null.write("x")

    assert run(discard) == Ended(value=1)


def test_terminals_cannot_be_opened_for_writing(run: Run) -> None:
    _, terminal = os.openpty()

    assert run(lambda: open(os.ttyname(terminal), "w")).error == "PermissionError"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no shared memory folder")
def test_shared_memory_files_of_others_stay(run: Run) -> None:
    theirs = Path(f"/dev/shm/shrinkrepro-test-{os.getpid()}")
    theirs.write_text("precious")
    try:
        assert run(theirs.unlink).error == "PermissionError"
        assert run(lambda: theirs.write_text("gone")).error == "PermissionError"
        assert theirs.read_text() == "precious"
    finally:
        theirs.unlink()


def test_multiprocessing_values_and_queues_work(run: Run, scratch: Path) -> None:
    def count() -> int:
        tempfile.tempdir = str(scratch)
        context = multiprocessing.get_context("fork")
        total, queue = context.Value("i", 0), context.Queue()

        def work() -> None:
            with total.get_lock():
                total.value += 2
            queue.put(3)

        worker = context.Process(target=work)
        worker.start()
        received: int = queue.get(timeout=20)
        worker.join()
        return int(total.value) + received

    assert run(count) == Ended(value=5)


# ---- other programs, native code -------------------------------------------------------------------------------


def exit_code(*command: str) -> int:
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode


@landlock_only
@pytest.mark.parametrize(
    "command",
    ["rm -rf {home}/data", "cp /dev/null {home}/notes.txt", "mv {home}/notes.txt {home}/x", "touch {home}/y"],
)
def test_other_programs_can_change_nothing_outside(run_by_kernel: Run, command: str, canary: Path) -> None:
    before = contents(canary)

    ended = run_by_kernel(lambda: exit_code(*command.format(home=canary).split()))

    assert (ended.value, contents(canary)) == (1, before)


@landlock_only
def test_other_programs_can_write_inside(run_by_kernel: Run, scratch: Path) -> None:
    assert run_by_kernel(lambda: exit_code("cp", "/etc/passwd", str(scratch / "x"))) == Ended(value=0)


@landlock_only
def test_native_code_can_change_nothing_outside(run_by_kernel: Run, canary: Path) -> None:
    def erase() -> int:
        result: int = ctypes.CDLL(None).unlink(os.fsencode(canary / "notes.txt"))
        return result

    assert (run_by_kernel(erase), (canary / "notes.txt").exists()) == (Ended(value=-1), True)


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run(["true"], check=True),
        lambda: os.system("true"),
        lambda: os.execv("/bin/true", ["true"]),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: os.popen("true").read(),
    ],
    ids=["subprocess", "system", "exec", "posix_spawn", "popen"],
)
def test_without_landlock_no_other_program_starts(start: Callable[[], object], scratch: Path) -> None:
    ended = confined(scratch, landlock=False)(start)

    assert ended.text.startswith("[Errno 13] without Landlock the run may not start other programs")


@pytest.mark.parametrize("before", ["multiprocessing.process", "multiprocessing.popen_spawn_posix"])
def test_without_landlock_no_fresh_interpreter_starts(scratch: Path, before: str) -> None:
    importlib.import_module(before)

    def spawn() -> None:
        multiprocessing.get_context("spawn").Process(target=os.getpid).start()

    assert confined(scratch, landlock=False)(spawn).error == "PermissionError"


def test_without_landlock_a_database_outside_cannot_be_opened(scratch: Path, canary: Path) -> None:
    ended = confined(scratch, landlock=False)(lambda: sql_insert(canary / "new.db"))

    assert (ended.error, (canary / "new.db").exists()) == ("PermissionError", False)


def test_without_landlock_databases_inside_and_in_memory_work(scratch: Path) -> None:
    def use_both() -> None:
        sql_insert(scratch / "new.db")
        sqlite3.connect(":memory:").close()

    assert confined(scratch, landlock=False)(use_both) == Ended()


def test_a_forked_child_runs_and_is_restricted_too(run: Run, canary: Path) -> None:
    ended = run(lambda: vars(in_child(lambda: (canary / "notes.txt").write_text("gone"))))

    assert ended.value["error"] == "PermissionError"


# ---- network ---------------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def send_datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.sendto(b"x", ("127.0.0.1", 9))


def connect_datagram() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        endpoint.connect(("127.0.0.1", 9))


def listen() -> None:
    socket.create_server(("127.0.0.1", 0)).close()


@pytest.mark.parametrize(
    "reach",
    [send_datagram, connect_datagram, listen, lambda: socket.getaddrinfo("example.org", 80)],
    ids=["send a datagram", "connect a datagram socket", "listen", "look a name up"],
)
def test_the_network_is_off(reach: Callable[[], object], run: Run) -> None:
    assert run(reach).text.startswith("[Errno 13] the run has no network")


def test_a_local_server_cannot_be_reached(run: Run, listener: socket.socket) -> None:
    assert run(lambda: socket.create_connection(listener.getsockname()[:2])).error == "PermissionError"


@landlock_only
def test_a_local_server_cannot_be_reached_by_other_programs(run_by_kernel: Run, listener: socket.socket) -> None:
    program = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}))"

    ended = run_by_kernel(
        lambda: subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    )

    assert "PermissionError" in ended.value


@pytest.mark.parametrize("landlock", [True, False])
def test_the_network_can_be_left_on(landlock: bool, scratch: Path, listener: socket.socket) -> None:
    run = confined(scratch, landlock=landlock, network=True)

    assert run(lambda: socket.create_connection(listener.getsockname()[:2]).close()) == Ended()


def test_the_own_machines_name_can_be_looked_up(run: Run) -> None:
    assert run(lambda: len(socket.getaddrinfo("localhost", 80)) > 0) == Ended(value=True)


def test_sockets_inside_the_scratch_folder_work(run: Run, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scratch)

    def talk() -> str:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind("s")
            server.listen()
            client.connect("s")
            client.sendall(b"hello")
            return server.accept()[0].recv(5).decode()

    assert run(talk) == Ended(value="hello")


def test_services_of_the_machine_cannot_be_reached(run: Run, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(canary)
    with socket.socket(socket.AF_UNIX) as service:
        service.bind("docker")
        service.listen()

        assert run(lambda: socket.socket(socket.AF_UNIX).connect("docker")).error == "PermissionError"


# ---- processes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["a process", "its group", "everything"])
def test_other_processes_cannot_be_signalled(target: str, run: Run) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    send: dict[str, Callable[[], object]] = {
        "a process": lambda: os.kill(bystander.pid, 0),
        "its group": lambda: os.killpg(bystander.pid, 0),
        "everything": lambda: os.kill(-1, 0),
    }
    try:
        assert run(send[target]).error == "PermissionError"
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.skipif(guard.capabilities().landlock_abi < 6, reason="no Landlock that knows signals")
def test_other_programs_cannot_signal_other_processes(run_by_kernel: Run) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        assert run_by_kernel(lambda: exit_code("kill", "-9", str(bystander.pid))).value != 0
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_the_parent_cannot_be_signalled_without_a_session_of_its_own(scratch: Path) -> None:
    def without_session() -> Any:
        parent = os.getpid()

        def child() -> dict[str, Any]:
            guard.restrict(str(scratch), ROOMY)
            os.kill(parent, 0)
            return {}

        return vars(in_child(child))

    assert in_child(without_session).value["error"] == "PermissionError"


def test_own_children_threads_and_group_can_be_signalled(run: Run) -> None:
    def signal_them() -> int:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.write(writer, b"x")
            time.sleep(5)
            os._exit(0)
        os.read(reader, 1)
        os.kill(child, signal.SIGKILL)
        os.kill(0, 0)
        os.kill(os.getpid(), 0)
        thread = threading.Thread(target=time.sleep, args=(0.1,))
        thread.start()
        assert thread.ident is not None
        signal.pthread_kill(thread.ident, 0)
        return os.WTERMSIG(os.waitpid(child, 0)[1])

    assert run(signal_them) == Ended(value=signal.SIGKILL)


def test_a_process_that_is_gone_is_reported_as_gone(run: Run) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    assert run(lambda: os.kill(gone.pid, 0)).error == "ProcessLookupError"


@linux_only
def test_a_child_dies_with_its_parent() -> None:
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        me = os.getpid()
        if os.fork() == 0:
            guard.die_with_parent(signal.SIGKILL, parent=me)
            os.write(writer, b"armed")
            time.sleep(20)
            os._exit(0)
        time.sleep(20)
    os.close(writer)
    os.read(reader, 5)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    # The pipe ends when the last process that holds it has.
    started = time.monotonic()
    assert os.read(reader, 1) == b""
    assert time.monotonic() - started < 10
    os.close(reader)


@linux_only
def test_a_restricted_child_dies_with_its_parent_too(scratch: Path) -> None:
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        if os.fork() == 0:
            guard.restrict(str(scratch), ROOMY)
            guard.die_with_parent(signal.SIGKILL)
            os.write(writer, b"armed")
            time.sleep(20)
            os._exit(0)
        time.sleep(20)
    os.close(writer)
    os.read(reader, 5)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    started = time.monotonic()
    assert os.read(reader, 1) == b""
    assert time.monotonic() - started < 10
    os.close(reader)


@linux_only
def test_a_child_whose_parent_died_before_the_call_dies_at_once() -> None:
    def orphan() -> None:
        guard.die_with_parent(signal.SIGUSR1, parent=1 << 22)
        time.sleep(20)

    assert in_child(orphan) == Ended(signal=signal.SIGUSR1)


@linux_only
def test_orphans_come_to_the_subreaper() -> None:
    def adopt() -> bool:
        guard.become_subreaper()
        reader, writer = os.pipe()
        middle = os.fork()
        if middle == 0:
            orphan = os.fork()
            if orphan == 0:
                time.sleep(20)
                os._exit(0)
            os.write(writer, orphan.to_bytes(4, "little"))
            os._exit(0)
        os.waitpid(middle, 0)
        orphan = int.from_bytes(os.read(reader, 4), "little")
        adopted = guard.descendants(os.getpid()) == [orphan]
        os.kill(orphan, signal.SIGKILL)
        return adopted and os.waitpid(orphan, 0)[0] == orphan

    assert in_child(adopt) == Ended(value=True)


@linux_only
@pytest.mark.parametrize("children", ["listed", "scanned"])
def test_descendants_are_children_and_their_children(children: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if children == "scanned":
        monkeypatch.setattr(os.path, "exists", lambda _: False)

    def family() -> bool:
        child = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        found = guard.descendants(os.getpid())
        for member in found:
            os.kill(member, signal.SIGKILL)
        child.wait()
        return found == [child.pid, grandchild]

    assert in_child(family) == Ended(value=True)


def test_a_process_that_is_gone_has_no_descendants() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    assert guard.descendants(gone.pid) == []


# ---- limits ----------------------------------------------------------------------------------------------------


@linux_only
def test_memory_beyond_the_limit_is_a_memory_error(scratch: Path) -> None:
    run = confined(scratch, limits=replace(ROOMY, memory=256 << 20))

    assert run(lambda: len(bytearray(128 << 20))) == Ended(value=128 << 20)
    assert run(lambda: len(bytearray(512 << 20))).error == "MemoryError"


def test_cpu_time_beyond_the_limit_ends_the_run(scratch: Path) -> None:
    def spin() -> None:
        while True:
            pass

    assert confined(scratch, limits=replace(ROOMY, cpu=0.5))(spin).signal == signal.SIGXCPU


def test_a_file_beyond_the_limit_is_an_error(scratch: Path) -> None:
    run = confined(scratch, limits=replace(ROOMY, file=1 << 20))

    ended = run(lambda: (scratch / "big").write_bytes(bytes(2 << 20)))

    assert (ended.error, os.strerror(errno.EFBIG) in ended.text) == ("OSError", True)


@linux_only
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become a user who has no other process")
def test_processes_beyond_the_limit_cannot_be_forked(scratch: Path) -> None:
    def fork_bomb() -> bool:
        guard.restrict(str(scratch), replace(ROOMY, processes=5))
        os.setuid(NOBODY)
        children: list[int] = []
        try:
            while len(children) < 4000:
                child = os.fork()
                if child == 0:
                    time.sleep(20)
                    os._exit(0)
                children.append(child)
        except BlockingIOError:
            return True
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        return False

    assert in_child(fork_bomb) == Ended(value=True)


def test_limits_cannot_be_raised_again(run: Run) -> None:
    lifted = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def lift() -> list[int]:
        if os.getuid() == 0:
            os.setuid(NOBODY)
        resource.setrlimit(resource.RLIMIT_FSIZE, lifted)
        return []

    assert run(lift).error == "ValueError"


def test_limits_that_are_tighter_already_stay(scratch: Path) -> None:
    def restricted() -> list[int]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 2000))
        guard.restrict(str(scratch), ROOMY)
        return list(resource.getrlimit(resource.RLIMIT_FSIZE))

    assert in_child(restricted) == Ended(value=[1000, 2000])


def test_no_core_is_dumped(run: Run) -> None:
    assert run(lambda: resource.getrlimit(resource.RLIMIT_CORE)[1]) == Ended(value=0)


# ---- what it says ----------------------------------------------------------------------------------------------


def phrase(scratch: Path, **options: bool) -> str:
    return str(in_child(lambda: guard.restrict(str(scratch), ROOMY, **options)).value)


@landlock_only
def test_the_phrase_names_landlocks_version(scratch: Path) -> None:
    assert phrase(scratch).startswith(f"landlock {guard.capabilities().landlock_abi} + rlimits + audit hook")


@landlock_only
def test_the_phrase_says_that_landlock_was_not_used(scratch: Path) -> None:
    assert phrase(scratch, landlock=False).startswith("rlimits + audit hook (Landlock not used")


def test_the_phrase_says_that_the_system_has_no_landlock(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_landlock_version", lambda: 0)

    assert phrase(scratch).startswith("rlimits + audit hook (no Landlock on this system")


def test_the_phrase_says_that_the_network_is_on(scratch: Path) -> None:
    assert "network allowed" in phrase(scratch, network=True)


def test_asking_for_capabilities_restricts_nothing(canary: Path) -> None:
    def ask_then_write() -> int:
        guard.capabilities()
        return (canary / "notes.txt").write_text("changed")

    assert in_child(ask_then_write) == Ended(value=7)


@landlock_only
@pytest.mark.parametrize("version", range(1, guard.capabilities().landlock_abi + 1))
def test_every_older_version_of_landlock_protects_files(
    version: int, scratch: Path, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_landlock_version", lambda: version)

    ended = confined(scratch)(lambda: exit_code("rm", str(canary / "notes.txt")))

    assert (ended.value, (canary / "notes.txt").exists()) == (1, True)
