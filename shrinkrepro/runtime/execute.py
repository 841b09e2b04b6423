"""Runs one program from memory, in the process that calls it, and reports how that went. The process ends with it.

The program sees what `python script.py` would show it: `__main__`, `__file__`, `sys.argv`, `sys.path[0]`, and local
modules; but every source comes from the job, none is read from disk.
"""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import io
import itertools
import linecache
import os
import sys
import time
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from shrinkrepro.runtime.instrument import SEE
from shrinkrepro.runtime.messages import PHRASE, Frame, Job, Moments, Outcome, Pass, Report, Trace

if TYPE_CHECKING:
    from shrinkrepro.runtime.observer import Observer


Compiler = Callable[[str, str, str], types.CodeType]


class Watcher(Protocol):
    """What watches a run from inside.

    One that can explain a failure has a method `failed`, which takes PyTorch's message and gives a Trace, and is called
    inside the failing call, while the graph is alive. One that writes down what backward passes compute has a method
    `passes`, which gives those so far.
    """

    def __enter__(self) -> Any: ...

    def __exit__(self, *exception: object) -> Any: ...


@runtime_checkable
class Instrumenting(Protocol):
    """A watcher that has the program's files compiled in its own way."""

    def compile(self, path: str, source: str, location: str) -> types.CodeType:
        """The code of the file at `path` (below the root) with text `source`, named `location` in tracebacks."""

    def see(self, index: int, value: Any) -> Any:
        """What the instrumented code calls with the values of its expressions."""


def execute(job: Job, send: Callable[[Report], None], private: Sequence[str] = ()) -> NoReturn:
    """Run the job's program, send the report of its end or of its first version-mismatch error, and end the process.

    `private` are folders, besides the job's root, whose modules are the user's own and not to be reported.
    The process is not left in a usable state: modules, paths and PyTorch's engine are those of the program.
    """
    own = {os.path.join(job.root, *PurePosixPath(path).parts): path for path in job.files}
    before = len(sys.modules)
    started = time.perf_counter()
    observer = _observer(job, own)
    engine: _Engine | None = None

    def report(outcome: Outcome, **details: Any) -> NoReturn:
        """Send the report and leave at once: nothing that the program left behind gets to run."""
        seconds = time.perf_counter() - started
        observation = observer.observation() if observer is not None else None
        modules, strays = _imported(before, own, (job.root, *private))
        passes = engine.passes if engine is not None else 0
        written_down: Callable[[], tuple[Pass, ...]] = getattr(watcher, "passes", tuple)
        send(
            Report(
                outcome,
                seconds=seconds,
                backwards=passes,
                observation=observation,
                passes=written_down(),
                modules=tuple(modules),
                strays=strays,
                **details,
            )
        )
        os._exit(0)

    def failed(message: str) -> NoReturn:
        explain: Callable[[str], Trace] | None = getattr(watcher, "failed", None)
        report("failed", failure=message, trace=explain(message) if explain else None)

    def captured(moments: Moments) -> NoReturn:
        report("captured", moments=moments)

    watcher = _watcher(job, own, captured, lambda: report("exhausted"))
    instrumenting = next((w for w in (watcher, observer) if isinstance(w, Instrumenting)), None)
    compiler = _compile if instrumenting is None else instrumenting.compile
    if instrumenting is not None:
        setattr(builtins, SEE, instrumenting.see)
    try:
        main = _prepare(job, own, compiler)
        code = compiler(job.entry, job.files[job.entry], main.__file__ or job.entry)
    except (SyntaxError, ValueError) as problem:
        report("invalid", error_type=type(problem).__name__, error=str(problem))
    from shrinkrepro.runtime.announce import announce_native_writers

    try:
        announce_native_writers()
        _seed(job.seed)
        engine = _Engine.install(failed, lambda: report("exhausted"), job.limits.backwards)
        started = time.perf_counter()
        with _entered(observer), _entered(watcher):
            if main.__package__:  # as -m does; without a package it is None or empty
                importlib.import_module(main.__package__)
            exec(code, main.__dict__)
    except SystemExit as stop:
        if stop.code in (None, 0):
            report("finished")
        report("raised", error_type="SystemExit", error=str(stop.code), error_frame=_own_frame(stop, own))
    except BaseException as problem:
        if PHRASE in str(problem):  # came up past our engine: from C++, or raised again by a subprocess
            failed(str(problem))
        report("raised", error_type=type(problem).__name__, error=str(problem), error_frame=_own_frame(problem, own))
    report("finished")


class _Engine:
    """Stands in for PyTorch's autograd engine: counts finished passes and sees every version-mismatch error first.

    A pass that another one runs (a checkpoint does, to compute its segment again) is part of that one.

    Everything in Python that runs backward goes through `Variable._execution_engine.run_backward`: `backward()`,
    `autograd.grad`, double backward, errors that the script swallows.
    """

    def __init__(
        self, engine: Any, failed: Callable[[str], NoReturn], exhausted: Callable[[], NoReturn], most: int | None
    ) -> None:
        self._engine, self._failed, self._exhausted, self._most = engine, failed, exhausted, most
        self.passes = 0
        self._under_way = 0

    @classmethod
    def install(cls, failed: Callable[[str], NoReturn], exhausted: Callable[[], NoReturn], most: int | None) -> _Engine:
        from torch.autograd import Variable

        proxy = cls(Variable._execution_engine, failed, exhausted, most)
        Variable._execution_engine = proxy  # type: ignore[assignment]
        return proxy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(self, *arguments: Any, **keywords: Any) -> Any:
        self._under_way += 1
        try:
            result = self._engine.run_backward(*arguments, **keywords)
        except RuntimeError as problem:
            if PHRASE in str(problem):
                self._failed(str(problem))
            raise
        finally:
            self._under_way -= 1
        self.passes += not self._under_way
        if self._most is not None and self.passes > self._most:
            self._exhausted()
        return result


class _MemoryFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the program's local modules from the job's text."""

    def __init__(self, job: Job, compiler: Compiler) -> None:
        self._compile = compiler
        self._sources = job.files
        self._root = job.root
        self._paths = _module_paths(tuple(job.files), job.folders)
        self._hidden = frozenset(_module_paths(job.hidden, job.folders)).difference(self._paths)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname in self._hidden:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        if fullname not in self._paths:
            return None
        location = os.path.join(self._root, *PurePosixPath(self._paths[fullname]).parts)
        package = self._paths[fullname].endswith("__init__.py")
        return importlib.util.spec_from_file_location(
            fullname, location, loader=self, submodule_search_locations=[os.path.dirname(location)] if package else None
        )

    def get_source(self, fullname: str) -> str:
        return self._sources[self._paths[fullname]]

    def is_package(self, fullname: str) -> bool:
        return self._paths[fullname].endswith("__init__.py")

    def get_filename(self, fullname: str) -> str:
        return os.path.join(self._root, *PurePosixPath(self._paths[fullname]).parts)

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        code = self._compile(self._paths[name], self.get_source(name), self.get_filename(name))
        exec(code, module.__dict__)


def _seed(seed: int | None) -> None:
    """Have the random generators that are there begin with `seed`, if that is given."""
    if seed is None:
        return
    import random

    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _prepare(job: Job, own: Mapping[str, str], compiler: Compiler) -> types.ModuleType:
    """Make this process look like `python script.py` to the program, and return its empty `__main__`."""
    os.environ.update(job.environment)
    location = os.path.join(job.root, *PurePosixPath(job.entry).parts)
    sys.argv = [location if job.module else os.path.relpath(location), *job.argv]
    sys.path.insert(0, os.path.join(job.root, *PurePosixPath(job.folders[0]).parts))
    sys.meta_path.insert(0, _MemoryFinder(job, compiler))
    for absolute, path in own.items():  # for tracebacks, inspect.getsource and torch.jit.script
        text = job.files[path]
        lines = io.StringIO(text).readlines()  # str.splitlines() also splits at form feeds, which end no line of Python
        linecache.cache[absolute] = (len(text), None, lines, absolute)
    main = types.ModuleType("__main__")
    main.__file__ = location
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    if job.module:
        main.__package__ = job.module.rpartition(".")[0]
        main.__spec__ = importlib.machinery.ModuleSpec(job.module, None, origin=location)
    sys.modules["__main__"] = main
    return main


def _compile(path: str, source: str, location: str) -> types.CodeType:
    return compile(source, location, "exec", dont_inherit=True)


def _module_paths(files: Sequence[str], folders: Sequence[str]) -> dict[str, str]:
    """Dotted module name to path: "a/__init__.py" is "a", "a/b.py" is "a.b", or "b" where "a" is one of `folders`."""
    names = {}
    for path in files:
        holding = [folder for folder in folders if folder and path.startswith(f"{folder}/")]
        parts = PurePosixPath(path[len(max(holding, key=len)) + 1 :] if holding else path).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def _watcher(
    job: Job, own: Mapping[str, str], captured: Callable[[Moments], NoReturn], exhausted: Callable[[], NoReturn]
) -> Watcher | None:
    if job.watch == "trace":
        from shrinkrepro.runtime.tracer import Tracer

        return Tracer(own)
    if job.watch == "poll":
        from shrinkrepro.runtime.poller import Poller

        return Poller(own, job.hint)
    if job.watch == "capture":
        from shrinkrepro.runtime.capture import Capture

        return Capture(job, own, captured)
    if job.watch == "prove":
        from shrinkrepro.runtime.prove import Prover

        return Prover(job.hint, exhausted)
    return None


def _observer(job: Job, own: Mapping[str, str]) -> Observer | None:
    if job.watch == "observe":
        from shrinkrepro.runtime.observer import Observer

        return Observer(own)
    return None


def _entered(manager: AbstractContextManager[Any] | None) -> AbstractContextManager[Any]:
    return nullcontext() if manager is None else manager


def _own_frame(problem: BaseException, own: Mapping[str, str]) -> Frame | None:
    """The innermost frame of the program's own files in the traceback."""
    found = None
    for frame, line in traceback.walk_tb(problem.__traceback__):
        if frame.f_code.co_filename in own:
            found = Frame(own[frame.f_code.co_filename], line, frame.f_code.co_name)
    return found


def _imported(before: int, own: Mapping[str, str], private: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The modules that the run imported and the job did not bring: installed ones by name, the user's with their file.

    The user's are those below a private folder that are not installed there. `before` is how many modules there were.
    Only the later ones are looked at: to touch the others is to copy the memory that they lie in, which the zygote
    shares with this process.
    """
    installed, strays = [], {}
    for name in list(itertools.islice(reversed(sys.modules), max(0, len(sys.modules) - before))):
        module = sys.modules.get(name)
        location = getattr(module, "__file__", None)
        if getattr(module, "__spec__", None) is None or location in own or name.partition(".")[0] == "shrinkrepro":
            continue
        users = isinstance(location, str) and any(_below(location, folder) for folder in private)
        if not users or _installed(str(location)):
            installed.append(name)
        else:
            strays[name] = os.path.realpath(str(location))  # in the scratch view it is a link to the user's file
    return installed, strays


def _below(location: str, folder: str) -> bool:
    return location.startswith(folder.rstrip(os.sep) + os.sep)


def _installed(location: str) -> bool:
    return "site-packages" in location.split(os.sep) or _below(location, sys.prefix)
