"""How the script melted: each piece of its text, and the steps of the reduction that still had it."""

from __future__ import annotations

import bisect
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES

from shrinkrepro.program.source import Program, SourceFile, Span
from shrinkrepro.report.wording import Role, Spot

_Interval = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """Text that was kept or lost as one.

    `kind` is the short name that Pygments gives to its kind ("k" for a keyword). `kept` are the numbers of the steps
    that have it, as ranges: "0-3,5"; None for white space, which is neither kept nor lost. `role` is the part that the
    statement plays which it belongs to.
    """

    text: str
    kind: str
    kept: str | None
    role: Role | None


@dataclass(frozen=True)
class Line:
    """A line of the script; `roles` are the parts of the statements that begin on it, `kept` as in a piece."""

    number: int
    pieces: tuple[Piece, ...]
    roles: tuple[Role, ...]
    kept: str


def lines(file: SourceFile, steps: Sequence[Program], spots: Sequence[Spot] = ()) -> Iterator[Line]:
    """The lines of an original file, in pieces that `steps` (its reduction, in order) kept or lost as one."""
    kept = [_kept(file.path, program) for program in steps]
    marked = [(_span(file, spot), spot.role) for spot in spots if spot.statement.file == file.path]
    kinds = list(_kinds(file.text))
    cuts = {0, len(file.text)}
    cuts |= {start for start, _ in kinds} | {end for step in kept for interval in step for end in interval}
    cuts |= {end for span, _ in marked for end in (span.start, span.end)}
    for number, (start, end) in enumerate(pairwise([*file.line_starts, len(file.text) + 1]), 1):
        inside = sorted({start, end - 1, *(cut for cut in cuts if start < cut < end)})
        pieces = tuple(
            Piece(
                text,
                _kind_at(kinds, low),
                None if text.isspace() else _ranges(_holding(kept, low)),
                next((role for span, role in marked if span.start <= low < span.end), None),
            )
            for low, high in pairwise(inside)
            if (text := file.text[low:high])
        )
        holding = {
            step for low, high in pairwise(inside) if file.text[low:high].strip() for step in _holding(kept, low)
        }
        if pieces or number < len(file.line_starts):
            roles = tuple(
                spot.role for spot in spots if spot.statement.file == file.path and spot.statement.line == number
            )
            yield Line(number, pieces, roles, _ranges(sorted(holding)))


def highlighted(text: str) -> Iterator[list[tuple[str, str]]]:
    """The lines of a program, each as pieces of text with the short name of their kind."""
    pieces = ((part, kind) for start, kind, word in _lexed(text) for part in io.StringIO(word))
    line: list[tuple[str, str]] = []
    for part, kind in pieces:
        if part != "\n":
            line.append((part.rstrip("\n"), kind))
        if part.endswith("\n"):
            yield line
            line = []
    if line:
        yield line


def _lexed(text: str) -> Iterator[tuple[int, str, str]]:
    for start, kind, word in PythonLexer().get_tokens_unprocessed(text):
        yield start, STANDARD_TYPES.get(kind, ""), word


def _kinds(text: str) -> Iterator[tuple[int, str]]:
    return ((start, kind) for start, kind, _ in _lexed(text))


def _kind_at(kinds: Sequence[tuple[int, str]], offset: int) -> str:
    return kinds[bisect.bisect_right(kinds, offset, key=lambda pair: pair[0]) - 1][1] if kinds else ""


def _span(file: SourceFile, spot: Spot) -> Span:
    statement = spot.statement
    return file.span_of(statement.line, statement.column, statement.end_line, statement.end_column)


def _kept(path: str, program: Program) -> list[_Interval]:
    """The stretches of the original file that a program still has, in order, none overlapping another."""
    copied = sorted((run.offset, run.offset + run.length) for file in program for run in file.runs if run.path == path)
    merged: list[_Interval] = []
    for start, end in copied:
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _holding(kept: Sequence[Sequence[_Interval]], offset: int) -> list[int]:
    """The numbers of the steps that have the character at `offset`."""
    found = []
    for number, intervals in enumerate(kept):
        position = bisect.bisect_right(intervals, offset, key=lambda interval: interval[0]) - 1
        if position >= 0 and offset < intervals[position][1]:
            found.append(number)
    return found


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as ranges: "0-3,5"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in ranges)
