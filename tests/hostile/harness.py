"""Hostile programs: where they are, what they may end in, and what must be as before when they have ended."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox import Entry, snapshot

from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.runtime import guard
from shrinkrepro.runtime.messages import Job, Limits, Report

PROGRAMS = tuple(sorted((Path(__file__).parent / "programs").glob("*.py")))
MEMORY = Path("/dev/shm")
# What the programs may use. Those that never end are stopped early.
LIMITS = Limits(
    wall=30.0, cpu=30.0, memory=256 << 20, file=16 << 20, scratch=64 << 20, output=1 << 16, processes=64, backwards=None
)
_SOON = 0.5


def expected(program: Path) -> tuple[str, ...]:
    """The ends that the program's first line allows: an outcome, or an outcome and the type of the exception."""
    return tuple(program.read_text().partition("\n")[0].removeprefix("# ").split(" or "))


def ended(report: Report) -> tuple[str, ...]:
    """All that can be said of how a run ended, in the words of `expected`."""
    return report.outcome, f"{report.outcome} {report.error_type}"


@dataclass(frozen=True)
class World:
    """What a hostile program may try to harm: folders, a process, a server, a service; and what must not be left."""

    canary: Path
    home: Path
    outside: Path
    bystander: subprocess.Popen[bytes]
    server: socket.socket

    def job(self, program: Path) -> Job:
        """The run of a program in the canary folder."""
        wall = _SOON if expected(program) == ("timeout",) else LIMITS.wall
        return Job(
            files={program.name: program.read_text()},
            root=str(self.canary),
            entry=program.name,
            cwd=str(self.canary),
            environment={
                "CANARY": str(self.canary),
                "OUTSIDE": str(self.outside),
                "BYSTANDER": str(self.bystander.pid),
                "PORT": str(self.server.getsockname()[1]),
            },
            limits=Limits(**{**vars(LIMITS), "wall": wall}),
        )

    def state(self, zygote: Zygote) -> State:
        """What must be the same before and after each program."""
        process = zygote._process.pid
        return State(
            tuple(snapshot(folder) for folder in (self.canary, self.home, self.outside)),
            _names(MEMORY, "torch_*") | _names(MEMORY, "hostile-*"),
            _lines("/proc/sysvipc/shm"),
            frozenset(guard.descendants(os.getpid())),
            self.bystander.poll() is None,
            process,
            len(_names(Path(f"/proc/{process}/fd"))),
            _names(Path(zygote._folder)),
        )


@dataclass(frozen=True)
class State:
    """Folders, shared memory, processes, the zygote's open files, and what lies in the scratch folder."""

    folders: tuple[dict[str, Entry], ...]
    shared_memory: frozenset[str]
    system_v_memory: int
    processes: frozenset[int]
    bystander_lives: bool
    zygote: int
    open_files: int
    scratch: frozenset[str]


def settled(world: World, zygote: Zygote, before: State, seconds: float = 10.0) -> State:
    """The state once it is as before, at the latest after some time: a run is cleaned up after its report has come."""
    deadline = time.monotonic() + seconds
    while (now := world.state(zygote)) != before and time.monotonic() < deadline:
        time.sleep(0.01)
    return now


@contextmanager
def world(top: Path, outside: Path) -> Iterator[World]:
    """A world in the folder `top`, and in `outside`, over which no layer lies."""
    canary, home = top / "canary", top / "home"
    for folder in (canary, home, outside):
        _plant(folder)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("secret")
    here = os.open(".", os.O_RDONLY)
    bystander = subprocess.Popen(["sleep", "1000"])
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as service:
        try:
            os.chdir(canary)  # names of sockets must be short
            service.bind("service")
            service.listen()
            os.fchdir(here)
            yield World(canary, home, outside, bystander, server)
        finally:
            os.close(here)
            bystander.kill()
            bystander.wait()


def _plant(folder: Path) -> None:
    (folder / "deep" / "deeper").mkdir(parents=True)
    for name, mode in (("a.txt", 0o644), ("some.db", 0o644), ("deep/b.txt", 0o444), ("deep/deeper/run.sh", 0o755)):
        (folder / name).write_text("" if name == "some.db" else f"canary {name}")
        (folder / name).chmod(mode)
    (folder / "link").symlink_to("deep")
    os.utime(folder / "a.txt", (1, 1))
    (folder / "deep").chmod(0o700)


def _names(folder: Path, pattern: str = "*") -> frozenset[str]:
    return frozenset(path.name for path in folder.glob(pattern))


def _lines(path: str) -> int:
    return Path(path).read_text().count("\n") if Path(path).exists() else 0
