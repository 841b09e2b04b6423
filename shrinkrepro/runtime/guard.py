"""The guard around one run: write only in the scratch folder, no network, bounded use of the machine.

A program that a reducer has cut pieces out of may do anything, by accident. `restrict` is called in a young child
process, before the program runs, and holds for that process and all that it starts. It cannot be undone. Three layers:

- Landlock, where Linux has it: the kernel itself refuses, native code and other programs included.
- Resource limits, on every POSIX system.
- An audit hook, everywhere: it refuses in one clear sentence, knows what Landlock does not (UDP, file modes, secrets),
  and is all there is to refuse writes where Landlock is missing. It sees what Python code does, not native code.

A file of the user that the scratch folder shows by a link is copied there before Python code writes to it.
"""

from __future__ import annotations

import enum
import errno
import functools
import math
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from shrinkrepro.runtime.messages import Limits
from shrinkrepro.runtime.scratch import make_own
from shrinkrepro.runtime.system import control, syscall

if sys.platform != "win32":
    import resource

__all__ = ["Capabilities", "become_subreaper", "bound", "capabilities", "descendants", "die_with_parent", "restrict"]


@dataclass(frozen=True)
class Capabilities:
    """What this system can enforce.

    `landlock_abi` is the highest Landlock version that both the kernel and this module know (0: none). `limits` names
    the resource limits that can be set. `process_tree` tells whether `die_with_parent`, `become_subreaper` and
    `descendants` work.
    """

    landlock_abi: int
    limits: tuple[str, ...]
    process_tree: bool


def capabilities() -> Capabilities:
    """What `restrict` would enforce here. Changes nothing.

    Asked once before forking, it spares every child the questions to the system.
    """
    names = _bounds(Limits(), _usage(), accelerated=bool(_accelerators()))
    return Capabilities(landlock_abi=_landlock_version(), limits=tuple(names), process_tree=sys.platform == "linux")


def restrict(
    scratch: str,
    limits: Limits,
    *,
    network: bool = False,
    landlock: bool = True,
    layered: Sequence[str] = (),
    secrets: Sequence[str] = (),
    written: Callable[[str], None] = lambda path: None,
) -> str:
    """Restrict the current process and its future children for good; return what enforces it, in a short phrase.

    `scratch` is the existing folder below which the run may change files, `layered` are folders of the user over which
    throw-away layers lie, where it may do so too. `limits` gives cpu, memory, file and processes (wall time, output and
    backward passes are for the caller to watch). `network=True` leaves sockets alone, `landlock=False` does without the
    kernel's help. Files below `secrets`, paths without links, are not there for Python code. `written` is told each
    path that Python code opens for writing. Call it while the process has one thread, best as the leader of a session
    of its own: its processes are then recognised even when their parents have died. Temporary files are the caller's
    to steer (`TMPDIR` and `tempfile.tempdir`) into the scratch folder.
    Raises OSError when the system has Landlock but will not apply it.
    """
    offered = _landlock_version()
    version = offered if landlock else 0
    own = os.path.realpath(scratch)
    roots = (own, *(os.path.realpath(folder) for folder in layered))
    accelerators = _accelerators()
    bounds = bound(limits)
    if version:
        _apply_landlock(version, roots, accelerators, network=network)
    policy = _Policy(
        scratch=own,
        roots=roots,
        devices=(os.path.realpath(os.devnull), *accelerators),
        secrets=tuple(secrets),
        largest=limits.file,
        owner=os.getpid(),
        leader=sys.platform != "win32" and os.getsid(0) == os.getpid(),
        network=network,
        kernel=version > 0,
    )
    if not version:
        for module in _STARTERS:
            sys.modules.pop(module, None)  # so that it is imported, and refused, even where it was there before
    sys.addaudithook(_hook(policy, written))
    return _phrase(version, offered, bounds, network=network, layered=bool(layered))


def bound(limits: Limits) -> tuple[str, ...]:
    """Limit what the current process and its future children may use, for good; the names of the limits.

    The kernel is asked to end this process before others should memory run out.
    """
    if sys.platform == "linux":
        control(_PR_SET_NO_NEW_PRIVS, 1)
    if os.access(_FIRST_TO_GO, os.W_OK):
        with open(_FIRST_TO_GO, "w") as file:
            file.write("1000")
    bounds = _bounds(limits, _usage(), accelerated=bool(_accelerators()))
    for name, most in bounds.items():
        _lower_limit(name, most)
    return tuple(bounds)


def _phrase(version: int, offered: int, bounds: Sequence[str], *, network: bool, layered: bool) -> str:
    parts = [f"landlock {version}"] if version else []
    parts += ["throw-away layers"] if layered else []
    parts += ["rlimits"] if bounds else []
    parts += ["audit hook"]
    gaps = [] if version else ["Landlock not used" if offered else "no Landlock on this system"]
    gaps += [] if {"AS", "DATA"} & set(bounds) else ["memory not limited"]
    gaps += [] if "NPROC" in bounds else ["processes not limited"]
    gaps += ["network allowed"] if network else []
    return " + ".join(parts) + (f" ({', '.join(gaps)})" if gaps else "")


# ---- Landlock --------------------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_BIND_AND_CONNECT_TCP = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11
_LOG_NOTHING = 1
_NEWEST_KNOWN = 7
_SHARED_MEMORY = "/dev/shm"


class _Right(enum.IntFlag):
    """Landlock's rights to change a file system. Reading and executing are never restricted."""

    WRITE_FILE = 1 << 1
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


_SINCE = {_Right.REFER: 2, _Right.TRUNCATE: 3, _Right.IOCTL_DEV: 5}
_ANYTHING = functools.reduce(lambda rights, right: rights | right, _Right)
_IN_FOLDERS = _ANYTHING & ~(_Right.MAKE_CHAR | _Right.MAKE_BLOCK | _Right.IOCTL_DEV)
_IN_SHARED_MEMORY = _Right.WRITE_FILE | _Right.TRUNCATE | _Right.MAKE_REG | _Right.REMOVE_FILE
_ON_DEVICES = _Right.WRITE_FILE | _Right.TRUNCATE | _Right.IOCTL_DEV


@functools.cache
def _landlock_version() -> int:
    """The version to use; 0 where the kernel has none, has it switched off, or a container forbids the call."""
    if sys.platform != "linux":
        return 0
    try:
        return min(_NEWEST_KNOWN, syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))
    except OSError:
        return 0


def _apply_landlock(version: int, roots: Sequence[str], accelerators: Sequence[str], *, network: bool) -> None:
    handled = functools.reduce(
        lambda rest, right: rest & ~right, (r for r, v in _SINCE.items() if v > version), _ANYTHING
    )
    ports = _BIND_AND_CONNECT_TCP if version >= 4 and not network else 0
    scope = _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    # An older kernel accepts the newer, longer structure as long as the part that it does not know is zero.
    attributes = struct.pack("=QQQ", handled, ports, scope)
    ruleset = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for root in roots:
            _allow_beneath(ruleset, root, _IN_FOLDERS & handled)
        # PyTorch and multiprocessing exchange data through files that native code makes there.
        if os.path.isdir(_SHARED_MEMORY):
            _allow_beneath(ruleset, _SHARED_MEMORY, _IN_SHARED_MEMORY & handled)
        for device in (os.devnull, *accelerators):
            _allow_beneath(ruleset, device, _ON_DEVICES & handled)
        # Thousands of refusals must not fill the system's audit log.
        syscall(_RESTRICT_SELF, ruleset, _LOG_NOTHING if version >= 7 else 0)
    finally:
        os.close(ruleset)


def _allow_beneath(ruleset: int, path: str, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, parent), 0)
    finally:
        os.close(parent)


@functools.cache
def _accelerators() -> tuple[str, ...]:
    """The device files through which this machine's GPUs are driven: they are opened for writing."""
    if sys.platform != "linux":
        return ()
    return tuple(f"/dev/{name}" for name in os.listdir("/dev") if name.startswith(("nvidia", "kfd", "dri", "dxg")))


# ---- resource limits -------------------------------------------------------------------------------------------

_OPEN_FILES = 65536
_FIRST_TO_GO = "/proc/self/oom_score_adj"


@dataclass(frozen=True)
class _Usage:
    """What the process has used before the program starts; None where the system does not tell.

    `cpu` in seconds, `space` (address space) and `data` (private writable memory) in bytes, `tasks` of all users.
    """

    cpu: float
    space: int | None
    data: int | None
    tasks: int | None


def _usage() -> _Usage:
    used = os.times()
    if sys.platform != "linux":
        return _Usage(cpu=used.user + used.system, space=None, data=None, tasks=None)
    with open("/proc/self/statm") as file:
        pages = [int(field) for field in file.read().split()]
    with open("/proc/loadavg") as file:
        tasks = int(file.read().split()[3].partition("/")[2])
    size = os.sysconf("SC_PAGE_SIZE")
    return _Usage(cpu=used.user + used.system, space=pages[0] * size, data=pages[5] * size, tasks=tasks)


def _bounds(limits: Limits, usage: _Usage, *, accelerated: bool) -> dict[str, int]:
    """The resource limits to set, by their names without RLIMIT_; empty where there are none."""
    if sys.platform == "win32":
        return {}
    bounds = {"CPU": math.ceil(usage.cpu + limits.cpu), "FSIZE": limits.file, "CORE": 0, "NOFILE": _OPEN_FILES}
    # GPU drivers reserve more address space than a machine has memory; what they reserve so is not writable.
    name, memory = ("DATA", usage.data) if accelerated else ("AS", usage.space)
    if memory is not None:
        bounds[name] = memory + limits.memory
    # The kernel counts all tasks of the user. Those of the machine are an upper bound, and one line to read.
    if usage.tasks is not None:
        bounds["NPROC"] = usage.tasks + limits.processes
    return bounds


def _lower_limit(name: str, bound: int) -> None:
    """Lower one limit, never raise it. CPU time leaves a second between the signal and the kill."""
    kind: int = getattr(resource, f"RLIMIT_{name}")
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (_least(soft, bound), _least(hard, bound + 1 if name == "CPU" else bound)))


def _least(current: int, bound: int) -> int:
    return bound if current == resource.RLIM_INFINITY else min(current, bound)


# ---- audit hook ------------------------------------------------------------------------------------------------

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
# Neither of them announces by an event of its own that it starts a new interpreter: their import is refused.
_STARTERS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
_WRITES = "the run may write only in its scratch folder"
_SECRET = "secrets are hidden from the run"
_PROGRAMS = "without Landlock the run may not start other programs"
_SIGNALS = "the run may signal only its own processes"
_NETWORK = "the run has no network"

_Check = Callable[..., None]


@dataclass(frozen=True)
class _Policy:
    """What the hook allows.

    `roots` and `devices` are free to write; `scratch` is the root where files up to `largest` bytes may be copied to.
    `secrets` must not be read. `owner` is the restricted process, and `leader` says whether it leads its session.
    `network` lets sockets pass. `kernel` says that Landlock stands behind the hook.
    """

    scratch: str
    roots: tuple[str, ...]
    devices: tuple[str, ...]
    secrets: tuple[str, ...]
    largest: int
    owner: int
    leader: bool
    network: bool
    kernel: bool

    def writable(self, path: str) -> bool:
        """Whether the run may change the file at `path`, an absolute path without links."""
        # What is left of a descriptor's link once resolved is a pipe or a socket, open already.
        folders = (*self.roots, *self.devices, f"/proc/{os.getpid()}/fd")
        return _beneath(path, folders)

    def settle(self, path: str) -> None:
        """Copy what links in the scratch folder show of the user's on the way to `path`, if that lies there."""
        whole = os.path.normpath(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
        if whole.startswith(self.scratch + os.sep):
            make_own(self.scratch, whole, self.writable, self.largest)

    def ours(self, process: int) -> bool:
        """Whether `process` is the restricted process or belongs to it. Raises ProcessLookupError when it is gone."""
        if process in (self.owner, os.getpid()):
            return True
        if self.leader and os.getsid(process) == self.owner:
            return True
        return process in descendants(self.owner)


def _beneath(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _hook(policy: _Policy, written: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    """The audit hook for `policy`: raises PermissionError for what it forbids; tells `written` which files are."""
    checks = _file_checks(policy, written) | _process_checks(policy)
    if not policy.network:
        checks |= _network_checks(policy)
    if not policy.kernel:
        checks |= _program_checks(policy)
    find = checks.get

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        check = find(event)
        if check is not None:
            check(*arguments)

    return hook


def _file_checks(policy: _Policy, written: Callable[[str], None]) -> dict[str, _Check]:
    """What cannot succeed anyway is left to the system, so that a program meets the error that it expects."""
    born: set[str] = set()

    def opened(path: Any, _mode: Any, flags: int) -> None:
        if isinstance(path, int):
            return
        if not flags & _WRITING:
            if policy.secrets and _beneath(_resolve(path), policy.secrets):
                raise FileNotFoundError(errno.ENOENT, _SECRET, path)
            return
        policy.settle(os.fsdecode(path))
        real = _resolve(path)
        if policy.writable(real):
            if _beneath(real, policy.roots):
                written(os.fsdecode(path))
            return
        if flags & os.O_EXCL and os.path.dirname(real) == _SHARED_MEMORY and not os.path.lexists(real):
            born.add(real)
        elif os.path.lexists(os.path.dirname(real) if flags & os.O_CREAT else real):
            _refuse(_WRITES, real)

    def changed(path: Any, *rest: Any) -> None:
        modify(resolved(path, _folder_argument(rest)))

    def attributes_changed(path: Any, *_rest: Any) -> None:
        modify(resolved(path))

    def truncated(path: Any, *_rest: Any) -> None:
        if not isinstance(path, int):
            modify(resolved(path))

    def database_opened(database: Any, *_rest: Any) -> None:
        name = os.fsdecode(database)
        if name in ("", ":memory:"):
            return
        policy.settle(name)
        # A kernel that stands behind the hook judges the file when it is written; a URI may say that it will not be.
        if not policy.kernel and (name.startswith("file:") or not policy.writable(_resolve(name))):
            _refuse(_WRITES, name)

    def resolved(path: Any, folder: int = -1) -> str:
        if not isinstance(path, int):
            policy.settle(_from_folder(os.fsdecode(path), folder))
        return _resolve(path, folder)

    def entry_of(path: Any, folder: int = -1) -> str:
        policy.settle(os.path.dirname(_from_folder(os.fsdecode(path), folder).rstrip(os.sep)))
        return _entry(path, folder)

    def modify(real: str) -> None:
        if not policy.writable(real) and os.path.lexists(real):
            _refuse(_WRITES, real)

    def removed(path: Any, folder: int = -1) -> None:
        entry = entry_of(path, folder)
        if entry not in born:
            modify(entry)
        born.discard(entry)

    def created(path: Any, *rest: Any) -> None:
        entry = entry_of(path, _folder_argument(rest))
        if not policy.writable(entry) and not os.path.lexists(entry):
            _refuse(_WRITES, entry)

    def linked(_source: Any, path: Any, folder: int = -1) -> None:
        created(path, folder)

    def renamed(source: Any, target: Any, source_folder: int = -1, target_folder: int = -1) -> None:
        modify(entry_of(source, source_folder))
        entry = entry_of(target, target_folder)
        if not policy.writable(entry):
            _refuse(_WRITES, entry)

    def hard_linked(source: Any, target: Any, source_folder: int = -1, target_folder: int = -1) -> None:
        # A second name inside for a file outside would be a way to write it.
        modify(_resolve(source, source_folder))
        created(target, target_folder)

    return {
        "open": opened,
        "os.chflags": attributes_changed,
        "os.chmod": changed,
        "os.chown": changed,
        "os.link": hard_linked,
        "os.mkdir": created,
        "os.remove": removed,
        "os.removexattr": attributes_changed,
        "os.rename": renamed,
        "os.rmdir": removed,
        "os.setxattr": attributes_changed,
        "os.symlink": linked,
        "os.truncate": truncated,
        "os.utime": changed,
        "sqlite3.connect": database_opened,
    }


def _process_checks(policy: _Policy) -> dict[str, _Check]:
    def killed(process: int, _signal: int) -> None:
        if process > 0:
            allow(process, gone_is_fine=True)
        else:
            allow(-process or os.getpgrp(), gone_is_fine=False)

    def group_killed(group: int, _signal: int) -> None:
        allow(group or os.getpgrp(), gone_is_fine=False)

    def allow(process: int, *, gone_is_fine: bool) -> None:
        try:
            ours = policy.ours(process)
        except ProcessLookupError:
            # The system says so itself of a process; a group may live on without its leader, and be anybody's.
            ours = gone_is_fine
        if not ours:
            _refuse(_SIGNALS, process)

    return {"os.kill": killed, "os.killpg": group_killed}


def _network_checks(policy: _Policy) -> dict[str, _Check]:
    unix = getattr(socket, "AF_UNIX", None)
    local_names = {None, "", "localhost", *([os.uname().nodename] if sys.platform != "win32" else [])}

    def addressed(endpoint: Any, address: Any) -> None:
        if endpoint.family != unix:
            _refuse(_NETWORK, address)
        # Names that begin with a null byte live outside the file system, in the kernel's own scope.
        if address and os.fsdecode(address)[0] != "\0" and not policy.writable(_resolve(address)):
            _refuse(_NETWORK, address)

    def sent(endpoint: Any, address: Any) -> None:
        # A connected socket sends without an address, and was judged when it connected.
        if address is not None:
            addressed(endpoint, address)

    def looked_up(host: Any, *_rest: Any) -> None:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in local_names:
            _refuse(_NETWORK, host)

    return {
        "socket.bind": addressed,
        "socket.connect": addressed,
        "socket.sendto": sent,
        "socket.sendmsg": sent,
        "socket.getaddrinfo": looked_up,
        "socket.gethostbyname": looked_up,
        "socket.gethostbyaddr": looked_up,
    }


def _program_checks(policy: _Policy) -> dict[str, _Check]:
    """The doors by which native code that the hook does not see would come in."""

    def started(program: Any, *_rest: Any) -> None:
        _refuse(_PROGRAMS, program)

    def spawned(_mode: Any, program: Any, *_rest: Any) -> None:
        _refuse(_PROGRAMS, program)

    def imported(module: str, *_rest: Any) -> None:
        if module in _STARTERS:
            _refuse(_PROGRAMS, sys.executable)

    events = (
        "os.exec",
        "os.posix_spawn",
        "os.startfile",
        "os.startfile/2",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    )
    return dict.fromkeys(events, started) | {
        "_winapi.CreateProcess": started,
        "import": imported,
        "os.spawn": spawned,
    }


def _refuse(sentence: str, what: object) -> NoReturn:
    raise PermissionError(errno.EACCES, sentence, what)


def _folder_argument(arguments: Sequence[Any]) -> int:
    """The `dir_fd` of an event: its last argument, -1 for none."""
    return arguments[-1] if arguments and isinstance(arguments[-1], int) else -1


def _resolve(path: Any, folder: int = -1) -> str:
    """The absolute path, free of links, of what `path` (or an open descriptor) leads to, from `folder` if given."""
    if isinstance(path, int):
        return _path_of(path)
    return os.path.realpath(_from_folder(os.fsdecode(path), folder))


def _entry(path: Any, folder: int = -1) -> str:
    """Like `_resolve`, but a link in the last place stands for itself."""
    text = _from_folder(os.fsdecode(path), folder)
    parent, name = os.path.split(text.rstrip(os.sep) or os.sep)
    return os.path.join(os.path.realpath(parent), name) if name not in ("", ".", "..") else os.path.realpath(text)


def _from_folder(path: str, folder: int) -> str:
    return path if folder < 0 or os.path.isabs(path) else os.path.join(_path_of(folder), path)


def _path_of(descriptor: int) -> str:
    """The path of an open file. Raises OSError where it has none that the system would tell."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).partition(b"\0")[0])
    return os.readlink(f"/proc/self/fd/{descriptor}")


# ---- parents and children --------------------------------------------------------------------------------------

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38


def die_with_parent(signal_number: int, *, parent: int | None = None) -> bool:
    """Have the kernel send this process `signal_number` when its parent ends. False where no kernel does that.

    `parent` is the parent's process id as known before the fork: if it has died since, the signal comes now. Without
    it only a death during this call is noticed. The kernel means the *thread* that forked. Children do not inherit it.
    """
    if sys.platform != "linux":
        return False
    expected = os.getppid() if parent is None else parent
    control(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != expected:
        os.kill(os.getpid(), signal_number)
    return True


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process, so that none gets away. False where no kernel does that."""
    if sys.platform != "linux":
        return False
    control(_PR_SET_CHILD_SUBREAPER, 1)
    return True


def descendants(process: int) -> list[int]:
    """The children of `process`, their children and so on, parents first; those ended but not waited for count.

    Always empty off Linux (see `Capabilities.process_tree`).
    """
    if sys.platform != "linux":
        return []
    children = _listed_children if os.path.exists("/proc/thread-self/children") else _scanned_children()
    found = [process]
    for member in found:
        found += children(member)
    return found[1:]


def _listed_children(process: int) -> list[int]:
    """Children as the kernel lists them for each thread."""
    return [int(child) for text in _thread_files(process, "children") for child in text.split()]


def _thread_files(process: int, name: str) -> Iterator[str]:
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/{name}") as file:
                yield file.read()
    except (FileNotFoundError, ProcessLookupError):
        return


def _scanned_children() -> Callable[[int], list[int]]:
    """Children by asking every process for its parent: for kernels built without the lists."""
    children: dict[int, list[int]] = {}
    for process in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{process}/stat") as file:
                # The command's name, in parentheses, may hold anything.
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(process)
    return lambda process: children.get(process, [])
