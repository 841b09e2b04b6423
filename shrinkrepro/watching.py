"""Explains the failure where it happens: `with watch():` around a training step, in the user's own process.

Nothing is run twice and nothing is isolated. When a backward pass raises "modified by an inplace operation", the
exception gets a note that says where the tensor was saved, changed and needed.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

import torch
from torch.autograd import Variable

from shrinkrepro.diagnosis import Diagnosis, Statement, diagnose
from shrinkrepro.results import place
from shrinkrepro.runtime.engine import Engine
from shrinkrepro.runtime.messages import PHRASE, Trace
from shrinkrepro.runtime.tracer import Tracer

Function = TypeVar("Function", bound=Callable[..., Any])

_HEADING = "shrinkrepro: the tensor was"
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_CELL = re.compile(r"<ipython-input-(\d+)-|[/\\]ipykernel_\d+[/\\]")


@overload
def watch() -> Watch: ...


@overload
def watch(function: Function) -> Function: ...


def watch(function: Function | None = None) -> Watch | Function:
    """Watch what runs in a `with` statement, or in every call of a function that this decorates.

    When a backward pass in there raises PyTorch's "modified by an inplace operation", the exception carries a note
    that says where the tensor was saved, changed and needed. What ran before the watch began is not known.
    """
    return Watch() if function is None else Watch()(function)


class Watch:
    """Watches between `__enter__` and `__exit__`; as a decorator, during each call.

    It may be entered again, inside itself too, but not by two threads at a time.
    """

    def __init__(self) -> None:
        self._files = UserFiles()
        self._entered: list[_Session] = []

    def __call__(self, function: Function) -> Function:
        """The function, watched whenever it runs. Raises TypeError for one whose body runs after the call."""
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is a generator or coroutine; use `with watch():` inside it")

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return watched  # type: ignore[return-value]

    def __enter__(self) -> Watch:
        session = _Session(self._files)
        session.begin()
        self._entered.append(session)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session = self._entered.pop()
        if problem is not None and PHRASE in str(problem):  # raised past the engine: out of C++, or by the user
            session.explain(problem)
        session.end()


class _Session:
    """One stretch of watching: a tracer, and a stand-in for PyTorch's engine that sees the error first."""

    def __init__(self, files: UserFiles) -> None:
        self._files = files
        self._tracer = Tracer(files)
        self._engine: Any = None
        self._explained = False

    def begin(self) -> None:
        """Start to watch."""
        self._engine = Variable._execution_engine
        Variable._execution_engine = Engine(self._engine, self._backward)  # type: ignore[assignment]
        self._tracer.__enter__()

    def end(self) -> None:
        """Stop to watch."""
        self._tracer.__exit__(None, None, None)
        Variable._execution_engine = self._engine

    def _backward(self, engine: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        try:
            return engine.run_backward(*arguments, **keywords)
        except RuntimeError as problem:
            if PHRASE in str(problem):
                self.explain(problem)
            raise

    def explain(self, problem: BaseException) -> None:
        """Add the note to a failure, once: reading the graph spoils it, and watches may be nested."""
        if self._explained or note_of(problem):
            return
        self._explained = True
        try:  # the user's error must come through, whatever becomes of ours
            trace = _without_guess(self._tracer.failed(str(problem)))
            note = note_text(diagnose(trace, self._files.sources(_files_in(trace))))
        except Exception as trouble:  # noqa: BLE001
            note = f"shrinkrepro could not explain this: {type(trouble).__name__}: {trouble}"
        _add_note(problem, note)


class UserFiles(Mapping[str, str]):
    """The files that are not part of Python, PyTorch, this package or an installed one, by the names to show for them.

    Which these are is decided as they come up; iterating shows those that did.
    """

    def __init__(self) -> None:
        library = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
        ours = {str(Path(file).absolute().parent) for file in (torch.__file__, __file__)}
        self._foreign = tuple(f"{folder}{os.sep}" for folder in {*library, *ours})
        self._shown: dict[str, str | None] = {}

    def __contains__(self, file: object) -> bool:
        try:  # asked for every frame of every call
            return self._shown[file] is not None  # type: ignore[index]
        except KeyError:
            return isinstance(file, str) and self._name(file) is not None

    def __getitem__(self, file: str) -> str:
        name = self._name(file)
        if name is None:
            raise KeyError(file)
        return name

    def __iter__(self) -> Iterator[str]:
        return (file for file, name in self._shown.items() if name is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def sources(self, names: Iterable[str]) -> dict[str, str]:
        """The texts of the files shown as `names`, those that are Python and can be read."""
        # a cell that runs another one has its name; the inner one is seen first
        files = {name: file for file, name in reversed(self._shown.items()) if name is not None}
        texts = {name: "".join(linecache.getlines(files[name])) for name in names if name in files}
        return {name: text for name, text in texts.items() if text and _is_python(text)}

    def _name(self, file: str) -> str | None:
        if file not in self._shown:
            self._shown[file] = self._decide(file)
        return self._shown[file]

    def _decide(self, file: str) -> str | None:
        cell = _CELL.search(file)
        if cell is not None:
            return _cell_name(file, cell[1])
        if file.startswith("<") or not _INSTALLED.isdisjoint(file.replace("\\", "/").split("/")):
            return None
        path, here = Path(file).absolute(), Path.cwd()
        if str(path).startswith(self._foreign):
            return None
        return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def _without_guess(trace: Trace) -> Trace:
    """The trace without the place that saved the tensor, where that is the very call that changed it.

    A node made before the watch began first shows when its tensor is used, here by the write: who made it is not known.
    """
    first = trace.mutations[0].place if trace.mutations else None
    saved = trace.saved
    guessed = saved is not None and first is not None and (saved.operator, saved.step) == (first.operator, first.step)
    return replace(trace, saved=None) if guessed else trace


def note_text(diagnosis: Diagnosis) -> str:
    """The three places, a line each."""
    by_whom = {"saved": diagnosis.saved, "changed": diagnosis.culprit, "needed": diagnosis.needed}
    return "\n".join([_HEADING, *(_line(role, statement) for role, statement in by_whom.items())])


def note_of(problem: BaseException) -> str:
    """The note that a watch has added to an exception; empty where none has."""
    text = "\n".join([str(problem), *getattr(problem, "__notes__", ())])
    return text[text.index(_HEADING) :] if _HEADING in text else ""


def _line(role: str, statement: Statement | None) -> str:
    if statement is None:
        return f"  {role:<8} out of sight: before the watch began, or by code that no statement of yours called"
    first, *more = statement.source.splitlines() or [""]
    inside = "" if statement.function == "<module>" else f" in {statement.function}"
    mark = "  <- the culprit" if role == "changed" else ""
    return f"  {role:<8} {place(statement)}{inside}: {first}{' ...' if more else ''}{mark}"


def _add_note(problem: BaseException, note: str) -> None:
    if sys.version_info >= (3, 11):
        problem.add_note(note)
    else:
        problem.args = (f"{problem}\n{note}", *problem.args[1:])


def _files_in(trace: Trace) -> set[str]:
    places = [trace.saved, trace.needed, trace.built, *(mutation.place for mutation in trace.mutations)]
    return {at.stack[0].file for at in places if at is not None and at.stack}


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _cell_name(file: str, number: str | None) -> str:
    """What Jupyter calls the cell whose code is in `file`; the file's own name where nobody knows."""
    if number is not None:
        return f"In[{number}]"
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    named = shell.compile.format_code_name(file) if shell is not None else None
    return named[1] if named else Path(file).name
