"""The second run, for writes that no torch function call shows: the version of the tensor is read line by line.

Scripted functions, C++ extensions and calls made inside C++ raise a version counter behind the tracer's back. The
poller is a tracer that also looks at the saved tensors in question whenever a line of the program has run.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from shrinkrepro.runtime import graph
from shrinkrepro.runtime.graph import Saved
from shrinkrepro.runtime.messages import Trace
from shrinkrepro.runtime.stack import Note, note, note_line
from shrinkrepro.runtime.tracer import Mismatch, Record, Tracer

TraceFunction = Callable[[FrameType, str, Any], Any]


class Poller:
    """Watches a program between `__enter__` and `__exit__`, as a Tracer does; `failed` tells what is known.

    `own_files` maps the absolute paths of the program's files to paths relative to its root. `hint` is the Trace of
    the first run, as a dictionary; its message is enough. If it names no node, the tracer may have been in the way:
    torch function calls are then left alone, and nodes are found through the variables of the program's functions.
    """

    def __init__(self, own_files: Mapping[str, str], hint: Mapping[str, Any]) -> None:
        self._own = own_files
        self._node = hint.get("node")
        self._mismatch = Mismatch.read(hint.get("message") or "")
        self._calls = self._node is not None
        self._tracer = Tracer(own_files, recorded=self._recorded, calls=self._calls)
        self._watched: list[_Watched] = []
        self._before: tuple[Any, Any] = (None, None)

    def __enter__(self) -> Poller:
        self._tracer.__enter__()
        self._before = sys.gettrace(), threading.gettrace()
        threading.settrace(self._called)
        sys.settrace(self._called)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._before[0])
        threading.settrace(self._before[1])
        self._tracer.__exit__(*exception)

    def failed(self, message: str) -> Trace:
        """What led to the failure that PyTorch reports as `message`; to be called once, while its graph is alive."""
        self._poll(lambda: note(self._own))
        return self._tracer.failed(message)

    def _recorded(self, record: Record) -> None:
        """Watch what a new node saved, if it may be what the first run found stale."""
        if self._node is None or record.node == self._node:
            self._watched = self._watched + [
                _Watched(weakref.ref(record), saved, saved.version)
                for saved in record.saved
                if saved.version is not None and (self._mismatch is None or self._mismatch.may_reach(saved))
            ]

    def _called(self, frame: FrameType, event: str, argument: object) -> TraceFunction | None:
        """Python's trace function for new frames: follows the program's own, line by line."""
        if frame.f_code.co_filename not in self._own:
            return None
        self._poll(lambda: note(self._own, start=frame.f_back))
        return _Lines(self._ran).follow

    def _ran(self, frame: FrameType, offset: int, result: object) -> None:
        """The line of `frame` whose first instruction is at `offset` has run, and has perhaps returned `result`."""
        self._poll(lambda: note_line(self._own, frame, offset))
        if not self._calls:
            with torch._C.DisableTorchFunction():
                tensors = graph.tensors_in((result, frame.f_locals), depth=2)
                self._tracer.look(tensors, note_line(self._own, frame, offset))

    def _poll(self, where: Callable[[], Note]) -> None:
        """Log each rise of a watched version since the last look, as made at `where`."""
        if not self._watched:
            return
        with torch._C.DisableTorchFunction():
            self._watched = [watched for watched in self._watched if watched.record() is not None]
            for watched in self._watched:
                version = watched.saved.probe._version if watched.saved.probe is not None else watched.version
                if version != watched.version:
                    self._tracer.unseen(watched.saved, watched.version, version, where())
                    watched.version = version


@dataclass(slots=True)
class _Watched:
    """A saved tensor under watch for as long as the node lives that saved it, and the version last seen."""

    record: weakref.ref[Record]
    saved: Saved
    version: int


class _Lines:
    """Follows one frame: calls `ran` with each line that has run, by the offset of its first instruction."""

    def __init__(self, ran: Callable[[FrameType, int, object], None]) -> None:
        self._ran = ran
        self._offset: int | None = None

    def follow(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        if event in ("line", "return"):
            if self._offset is not None:
                self._ran(frame, self._offset, argument if event == "return" else None)
            self._offset = frame.f_lasti
        return self.follow
