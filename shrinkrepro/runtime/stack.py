"""Python stacks noted cheaply while a program runs, and read into frames once it has failed.

Noting happens thousands of times a second, reading a handful of times in all: a note holds code objects and
instruction offsets only, and lines and columns are worked out when somebody asks.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import CodeType, FrameType

import torch.overrides

from shrinkrepro.runtime.messages import Frame, Place

_INSTRUMENTATION = os.path.dirname(os.path.abspath(__file__)) + os.sep
_DISPATCH = os.path.abspath(torch.overrides.__file__)

Point = tuple[CodeType, int]


@dataclass(frozen=True, slots=True)
class Note:
    """A stack: the program's own frames, innermost first, and the library frame that runs below them, if any.

    `whole_line`: the innermost point stands for all of its line.
    """

    own: tuple[Point, ...]
    library: Point | None
    whole_line: bool = False


def note(own_files: Mapping[str, str], called: object = None, start: FrameType | None = None) -> Note:
    """The stack above `start` (the caller, if None).

    `called` is the torch function under way. Its frame, the dispatch to it and our own frames do not count as
    library code: the library frame is the innermost one that made the call.
    """
    frame = start or sys._getframe(1)
    body = getattr(called, "__code__", None)
    library: Point | None = None
    own: list[Point] = []
    current: FrameType | None = frame
    while current is not None:
        code = current.f_code
        if code.co_filename in own_files:
            own.append((code, current.f_lasti))
        elif library is None and not own and code is not body and not _between(code.co_filename):
            library = (code, current.f_lasti)
        current = current.f_back
    return Note(tuple(own), library)


def note_line(own_files: Mapping[str, str], frame: FrameType, offset: int) -> Note:
    """The stack as it was while `frame`, one of the program's own, ran the line of the instruction at `offset`."""
    above = () if frame.f_back is None else note(own_files, start=frame.f_back).own
    return Note(((frame.f_code, offset), *above), None, whole_line=True)


def place(note: Note, operator: str, step: int, own_files: Mapping[str, str]) -> Place:
    """What a note says, in the words of the report; `operator` is the function called, `step` its number."""
    own = [_frame(point, own_files) for point in note.own]
    if note.whole_line:
        own[0] = replace(own[0], end_line=None, column=None, end_column=None)
    return Place(operator, tuple(own), None if note.library is None else _frame(note.library, own_files), step)


def _between(file: str) -> bool:
    return file == _DISPATCH or file.startswith(_INSTRUMENTATION)


def _frame(point: Point, own_files: Mapping[str, str]) -> Frame:
    code, offset = point
    line, end_line, column, end_column = _span(code, offset)
    return Frame(
        file=own_files.get(code.co_filename, code.co_filename),
        line=line,
        function=code.co_name,
        end_line=end_line,
        column=_characters(code.co_filename, line, column),
        end_column=_characters(code.co_filename, end_line, end_column),
    )


def _span(code: CodeType, offset: int) -> tuple[int, int | None, int | None, int | None]:
    """First line, last line, and the columns in bytes, of the instruction at `offset`."""
    if sys.version_info >= (3, 11):
        positions = next(itertools.islice(code.co_positions(), max(offset, 0) // 2, None), (None, None, None, None))
        if positions[0] is not None:
            return positions[0], positions[1], positions[2], positions[3]
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line, None, None, None
    return code.co_firstlineno, None, None, None


def _characters(file: str, line: int | None, column: int | None) -> int | None:
    """A column in characters, given in bytes. Where the line is not at hand it is taken to be ASCII."""
    if line is None or column is None:
        return None
    text = linecache.getline(file, line)
    return len(text.encode()[:column].decode(errors="ignore")) if text else column
