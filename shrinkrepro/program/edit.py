"""Edits as values: what a pass proposes, how proposals combine, and how they become a new program.

An edit replaces one span of a program by a sequence of literal text and spans copied from that same program. Because
nothing is re-generated, building a candidate costs microseconds, and every copied character keeps its provenance.

Edits nest. When an edit's span lies inside a piece that another edit copies, both apply: the copy is made with the
inner edit in place. When it lies inside what the outer edit discards, it is void. Unwrapping a block and deleting a
statement in that block are therefore independent patches that combine in any order. Deletions may overlap: what either
of them takes out is gone, as with two statements on one line that both take out the semicolon between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shrinkrepro.program.source import Program, Run, SourceFile, Span

Piece = str | Span


class Conflict(Exception):
    """Two edits cannot both be made: they overlap in part and put text there, or replace the same span differently."""


@dataclass(frozen=True)
class Block:
    """A block of statements that must not become empty.

    When edits empty all of its `members` statements, the last of them leaves its `filler`: "    pass\\n" for a
    statement on lines of its own, "pass" for one that shares its line. Blocks are told apart by their `span`.
    """

    span: Span
    members: int
    filler: str


@dataclass(frozen=True)
class Edit:
    """Replace `span` by the pieces of `replacement`: text as it stands, spans as copies from the same program.

    `block` is set when the edit takes a whole statement out of a block.
    """

    span: Span
    replacement: tuple[Piece, ...] = ()
    block: Block | None = None


@dataclass(frozen=True)
class Patch:
    """Edits that are made together or not at all, against one version of a program, and what they do in plain words.

    `dropped` are the files that the program then goes without.
    """

    edits: tuple[Edit, ...]
    label: str = ""
    dropped: frozenset[str] = frozenset()

    def __or__(self, other: Patch) -> Patch:
        """Both patches as one; `apply` raises Conflict when they contradict each other."""
        edits = tuple(dict.fromkeys((*self.edits, *other.edits)))
        return Patch(edits, self.label or other.label, self.dropped | other.dropped)

    def apply(self, program: Program) -> Program:
        """The program with every edit made.

        Raises Conflict when two edits contradict each other.
        """
        edits = _with_fillers(self.edits)
        _check(edits)
        touched = {edit.span.path for edit in edits} - self.dropped
        files = tuple(_render_file(program, file, edits) if file.path in touched else file for file in program)
        return replace(program, files=files).without(self.dropped)


def deletion(span: Span, block: Block | None = None) -> Edit:
    """The edit that takes `span` out."""
    return Edit(span, (), block)


def copied(span: Span, edits: Sequence[Edit]) -> tuple[Piece, ...]:
    """The pieces that copy `span` with the edits made that lie inside it: in this copy, and nowhere else.

    An edit is not made again inside its own replacement, so a piece may contain the span that it replaces.
    """
    pieces: list[Piece] = []
    position = span.start
    for edit in sorted((edit for edit in edits if edit.span in span), key=_order):
        if edit.span.start < position:  # inside what an edit before it took out
            continue
        pieces.append(Span(span.path, position, edit.span.start))
        for piece in edit.replacement:
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                pieces += copied(piece, [other for other in edits if _copied(other, edit)])
        position = edit.span.end
    pieces.append(Span(span.path, position, span.end))
    return tuple(piece for piece in pieces if isinstance(piece, str) or not piece.empty)


def conflicting(patches: Iterable[Patch]) -> bool:
    """Whether the patches contradict each other."""
    try:
        _check(_with_fillers(tuple(dict.fromkeys(edit for patch in patches for edit in patch.edits))))
    except Conflict:
        return True
    return False


def _with_fillers(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits, with the last deletion of each emptied block leaving its filler, and overlapping deletions as one."""
    deleted = Counter(edit.block.span for edit in edits if edit.block)
    emptied = {edit.block.span for edit in edits if edit.block and deleted[edit.block.span] == edit.block.members}
    last = {block: max(edit.span for edit in edits if edit.block and edit.block.span == block) for block in emptied}
    filled = (
        replace(edit, replacement=(edit.block.filler,))
        if edit.block and last.get(edit.block.span) == edit.span
        else edit
        for edit in edits
    )
    return _with_deletions_joined(filled)


def _with_deletions_joined(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits, with every run of deletions that overlap in part as one that leaves what the last of them leaves."""
    kept: list[Edit] = []
    outer: list[Edit] = []
    for edit in sorted(edits, key=_order):
        previous = outer[-1] if outer else None
        if not _deletes(edit) or (previous and edit.span in previous.span):
            kept.append(edit)
        elif previous and _overlap_in_part(previous.span, edit.span):
            outer[-1] = Edit(replace(previous.span, end=edit.span.end), previous.replacement + edit.replacement)
        else:
            outer.append(edit)
    return (*kept, *outer)


def _deletes(edit: Edit) -> bool:
    return not edit.replacement or edit.block is not None


def _overlap_in_part(first: Span, second: Span) -> bool:
    return first.path == second.path and first.start < second.start < first.end < second.end


def _check(edits: Sequence[Edit]) -> None:
    """Raise Conflict unless the edits' spans form a forest in which no edit crosses the edge of a copied piece."""
    for piece in (piece for edit in edits for piece in edit.replacement if isinstance(piece, Span)):
        for edit in edits:
            if _crosses(edit.span, piece):
                raise Conflict(f"{edit.span} crosses the edge of {piece}, which is copied")
    enclosing: list[Edit] = []
    for edit in sorted(edits, key=_order):
        while enclosing and not _inside(edit.span, enclosing[-1].span):
            previous = enclosing.pop()
            if edit.span.path == previous.span.path and edit.span.start < previous.span.end:
                raise Conflict(f"{previous.span} and {edit.span} overlap")
        if enclosing and enclosing[-1].span == edit.span:
            raise Conflict(f"{edit.span} is replaced twice")
        enclosing.append(edit)


def _order(edit: Edit) -> tuple[str, int, bool, int]:
    """Sorts edits by the text; where several start, insertions come first and then outer edits before inner ones."""
    return edit.span.path, edit.span.start, not edit.span.empty, -edit.span.end


def _inside(inner: Span, outer: Span) -> bool:
    """Whether `inner` is part of `outer`; an insertion at the very edge is not."""
    if inner.empty and not outer.empty:
        return inner.path == outer.path and outer.start < inner.start < outer.end
    return inner in outer


def _crosses(span: Span, piece: Span) -> bool:
    overlap = span.path == piece.path and span.start < piece.end and piece.start < span.end
    return overlap and span not in piece and piece not in span


class _Writer:
    """Collects text and its provenance, joining runs that continue one another."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.runs: list[Run] = []
        self.length = 0

    def literal(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def copy(self, file: SourceFile, start: int, end: int) -> None:
        for origin in file.origins(start, end):
            here = self.length + origin.start - start
            last = self.runs[-1] if self.runs else None
            if last and (last.start + last.length, last.path, last.offset + last.length) == (
                here,
                origin.path,
                origin.offset,
            ):
                self.runs[-1] = replace(last, length=last.length + origin.length)
            else:
                self.runs.append(Run(here, origin.length, origin.path, origin.offset))
        self.literal(file.text[start:end])


def _render_file(program: Program, file: SourceFile, edits: Sequence[Edit]) -> SourceFile:
    writer = _Writer()
    for piece in copied(Span(file.path, 0, len(file.text)), edits):
        if isinstance(piece, str):
            writer.literal(piece)
        else:
            writer.copy(program[piece.path], piece.start, piece.end)
    return SourceFile(file.path, "".join(writer.parts), tuple(writer.runs))


def _copied(edit: Edit, copying: Edit) -> bool:
    """Whether `edit` is made in what the edit `copying` copies.

    An insertion at the edge of what is replaced stands outside, so it is not made a second time inside.
    """
    at_edge = edit.span.empty and edit.span.start in (copying.span.start, copying.span.end)
    return edit is not copying and not at_edge
