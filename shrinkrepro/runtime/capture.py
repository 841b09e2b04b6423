"""A second, equal run that stops at the write and describes the values which the two statements had.

The first run numbers its torch calls; this one counts along, so that "the call that saved" and "the call that changed"
are numbers here. Expressions of the two statements are instrumented to leave their latest values behind.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any, NoReturn

import torch

from shrinkrepro.runtime.describe import describe, spell
from shrinkrepro.runtime.graph import tensors_in
from shrinkrepro.runtime.instrument import Site, instrument, renumber
from shrinkrepro.runtime.messages import Call, Job, Moments, Seen, Value
from shrinkrepro.runtime.tracer import Tracer


class Capture:
    """Watches one run of `job` up to the write.

    The job's hint names the events `saved` and `changed`, each as [operator, step], and the lines of the statements
    `saving` and `changing`, each as [path, first line, last line]. `captured` is called with the moments, inside the
    call that changes the tensor and before it does so.
    """

    def __init__(self, job: Job, own: Mapping[str, str], captured: Callable[[Moments], NoReturn]) -> None:
        self._job, self._own, self._captured = job, own, captured
        self._sites: list[tuple[str, Site]] = []
        self._latest: dict[int, tuple[Any, bool]] = {}
        self._at_save: dict[int, tuple[Any, bool]] = {}
        self._call: tuple[Any, Sequence[Any], Mapping[str, Any], Any] | None = None
        self._module: tuple[torch.nn.Module, tuple[Any, ...]] | None = None
        self._process = os.getpid()
        self._tracer = Tracer(own, tap=self)  # counts the calls as in the first run

    def __enter__(self) -> Capture:
        self._tracer.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._tracer.__exit__(*exception)

    def reached(self, operator: str, step: int) -> None:
        """The event that saved the tensor begins: the values that its statement's expressions have by now stay."""
        if [operator, step] == self._job.hint["saved"]:
            self._at_save = dict(self._latest)

    def before(self, operator: str, step: int, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """A torch call is about to be made: at the one that changes the tensor, describe everything."""
        if [operator, step] != self._job.hint["changed"] or os.getpid() != self._process:
            return  # worker processes inherit the count, and go on with it
        if self._job.hint["changed"] == self._job.hint["saved"]:
            self._call = (func, args, kwargs, None)
        with torch._C.DisableTorchFunction():
            self._changing(func, args, kwargs)

    def after(
        self, operator: str, step: int, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """A torch call has come back: the one that saved the tensor is remembered."""
        if [operator, step] == self._job.hint["saved"]:
            self._call = (func, args, kwargs, result)
            self._module = _running_module(sys._getframe(1))

    def compile(self, path: str, source: str, location: str) -> CodeType:
        """The code of one of the program's files, its two statements instrumented where they stand in it."""
        ranges = [self._job.hint[name] for name in ("saving", "changing")]
        wanted = [range(first, last + 1) for file, first, last in ranges if file == path]

        def touches(statement: ast.stmt) -> bool:
            return any(statement.lineno in lines or (statement.end_lineno or 0) in lines for lines in wanted)

        if not wanted:
            return compile(source, location, "exec", dont_inherit=True)
        tree, sites = instrument(source, touches)
        renumber(tree, len(self._sites))
        self._sites += [(path, site) for site in sites]
        return compile(tree, location, "exec", dont_inherit=True)

    def see(self, index: int, value: Any) -> Any:
        """What instrumented expressions call."""
        self._latest[index] = (value, torch._C.is_grad_enabled())
        return value

    def _changing(self, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        stores = tuple(self._stored(sys._getframe(2)))
        moments = Moments(
            saved=self._describe_call(),
            change=self._described(function, arguments, keywords, None),
            grad_change=torch._C.is_grad_enabled(),
            saving=tuple(self._seen(self._at_save, "saving")),
            changing=(*self._seen(self._latest, "changing"), *stores),
            grad_saving=self._grad(self._at_save, "saving"),
            grad_changing=self._grad(self._latest, "changing"),
            written=(),
        )
        tensors = tensors_in((arguments, keywords))
        before = [tensor._version for tensor in tensors]
        function(*arguments, **keywords)
        written = {
            tensor.untyped_storage()._cdata
            for tensor, version in zip(tensors, before, strict=True)
            if tensor._version != version
        }
        self._captured(replace(moments, written=tuple(sorted(written))))

    def _describe_call(self) -> Call | None:
        if self._call is None:
            return None
        call = self._described(*self._call)
        module, inputs = self._module or (None, ())
        return replace(
            call,
            module=None if module is None else self._describe(module),
            inputs=tuple(self._describe(value) for value in inputs),
        )

    def _described(self, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], result: Any) -> Call:
        name = spell(function) or str(getattr(function, "__name__", ""))
        return Call(
            name,
            tuple(self._describe(argument) for argument in arguments),
            {name: self._describe(value) for name, value in keywords.items()},
            self._describe(result),
            method=hasattr(torch.Tensor, name.rpartition(".")[2]),
        )

    def _describe(self, value: Any) -> Value:
        return describe(value, self._own)

    def _indices(self, seen: Mapping[int, tuple[Any, bool]], which: str) -> list[int]:
        file, first, last = self._job.hint[which]
        return [i for i in seen if self._sites[i][0] == file and first <= self._sites[i][1].line <= last]

    def _seen(self, seen: Mapping[int, tuple[Any, bool]], which: str) -> list[Seen]:
        found = []
        for index in self._indices(seen, which):
            path, site = self._sites[index]
            value = self._describe(seen[index][0])
            found.append(Seen(path, site.line, site.column, site.end_line, site.end_column, value))
        return found

    def _grad(self, seen: Mapping[int, tuple[Any, bool]], which: str) -> bool:
        return all(seen[index][1] for index in self._indices(seen, which)[-1:])

    def _stored(self, frame: FrameType | None) -> list[Seen]:
        """The values of names and attribute chains that the changing statement stores to (`x += 1` reads x unseen)."""
        path, first, last = self._job.hint["changing"]
        while frame is not None and not (
            self._own.get(frame.f_code.co_filename) == path and first <= frame.f_lineno <= last
        ):
            frame = frame.f_back
        if frame is None:
            return []
        found = []
        for node in ast.walk(ast.parse(self._job.files[path])):
            if isinstance(node, ast.AugAssign) and first <= node.lineno <= last:
                value = _evaluate(node.target, frame)
                if value is not None:
                    target = node.target
                    end_line, end = target.end_lineno or target.lineno, target.end_col_offset or 0
                    found.append(Seen(path, target.lineno, target.col_offset, end_line, end, self._describe(value[0])))
        return found


def _running_module(frame: FrameType | None) -> tuple[torch.nn.Module, tuple[Any, ...]] | None:
    """The innermost of PyTorch's modules whose `forward` is running, and the tensors that it was given."""
    while frame is not None:
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        module = frame.f_locals.get(names[0]) if names else None
        if frame.f_code.co_name == "forward" and isinstance(module, torch.nn.Module):
            if getattr(torch.nn, type(module).__name__, None) is not type(module):
                return None
            given = [frame.f_locals.get(name) for name in names[1:]]
            return module, tuple(value for value in given if isinstance(value, torch.Tensor))
        frame = frame.f_back
    return None


def _evaluate(node: ast.expr, frame: FrameType) -> tuple[Any] | None:
    """The value, in a tuple, of a name or a chain of attributes in a frame; None for any other expression."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return (names[node.id],)
    elif isinstance(node, ast.Attribute):
        owner = _evaluate(node.value, frame)
        if owner is not None and hasattr(owner[0], node.attr):
            return (getattr(owner[0], node.attr),)
    return None
