"""From a trace to a diagnosis: positions in running code become the statements that a reader recognises."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from shrinkrepro.failure import VersionMismatch, parse
from shrinkrepro.program.source import Cell, Program
from shrinkrepro.runtime.messages import Frame, Place, Trace, Written

_Point = tuple[int, int]  # line from 1, column in characters from 0
_Extent = tuple[int, _Point, _Point]  # how many blocks around it, start, end

_ARITHMETIC = "The culprit was inferred from version numbers: the graph hides what was saved."
_NOT_OURS = "The first write to the saved tensor was made by code that no statement of the program called."


@dataclass(frozen=True)
class Statement:
    """A statement of the program, in its role: what saved, changed or needed the tensor.

    Lines count from 1, columns are characters from 0; a compound statement is its header only, and so is `source`,
    its text. `function` is the function that it stands in, `operator` the torch function called there (empty where
    no call shows). `library_frame` is where library code made that call, if the statement did not make it itself.
    `count` is how often it did what it is named for. `cell` is the notebook's cell that it stands in, if any.
    """

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    source: str
    function: str
    operator: str
    library_frame: Frame | None = None
    count: int = 1
    cell: Cell | None = None

    @property
    def shown_line(self) -> int:
        """Its line as the user counts: within the cell in a notebook, else within the file."""
        return self.line if self.cell is None else self.line - self.cell.first + 1


@dataclass(frozen=True)
class Write:
    """A statement that wrote to tensors before the failure, harmful or not, `versions` in all; it counts its calls."""

    statement: Statement
    versions: int


@dataclass(frozen=True)
class Rise:
    """One rise of the saved tensor's version counter, and the statement that made it; None: no statement is known."""

    statement: Statement | None
    before: int
    after: int


@dataclass(frozen=True)
class Vertex:
    """A node of the autograd graph, and the statement that made it, if that is known.

    `feeds` are the positions of the nodes that it hands gradients to. `start`: the backward pass begins there.
    """

    name: str
    feeds: tuple[int, ...]
    start: bool
    statement: Statement | None


@dataclass(frozen=True)
class Diagnosis:
    """Why a program fails.

    `node` and `attribute` name the graph node and the saved tensor that is stale, `attributes` all of that node's
    that are stale in the same words, `saved` the statement that saved it, `culprit` the first that changed it since,
    `other_mutations` the later ones in order, `needed` the one whose backward pass failed. `built` is where the
    module was constructed that wrote because of its `inplace=True`. `method` is the trace's; `notes` are sentences
    about what remains unknown. `writes` are the statements that wrote to any tensor before the failure. `empty`: the
    culprit wrote no element. `rises` are those of the saved tensor's version counter, in order. `graph` is the piece of
    the autograd graph around the stale node, which comes first. `operands` says how many tensors the method takes that
    the node is named after, itself included; empty where tensors have no such method.
    """

    failure: VersionMismatch
    node: str | None
    attribute: str | None
    saved: Statement | None
    culprit: Statement | None
    needed: Statement | None
    other_mutations: tuple[Statement, ...]
    built: Statement | None
    method: str
    notes: tuple[str, ...]
    writes: tuple[Write, ...] = ()
    attributes: tuple[str, ...] = ()
    empty: bool = False
    rises: tuple[Rise, ...] = ()
    graph: tuple[Vertex, ...] = ()
    operands: tuple[int, ...] = ()


def diagnose(trace: Trace, sources: Mapping[str, str]) -> Diagnosis:
    """What `trace` says about the program whose files are `sources` (text by path relative to its root).

    Raises ValueError if the trace's message is not PyTorch's.
    """
    failure = parse(trace.message)
    if failure is None:
        raise ValueError(f"no version mismatch: {trace.message!r}")
    files = _Files(sources)
    first = trace.mutations[0].place if trace.mutations else None
    culprit = files.statement(first)
    writers = list(_folded(files.statement(mutation.place) for mutation in trace.mutations))
    notes = trace.notes
    if first is not None and culprit is None:
        notes += (_NOT_OURS,)
    elif trace.method == "arithmetic":
        notes += (_ARITHMETIC,)
    return Diagnosis(
        failure=failure,
        node=trace.node,
        attribute=trace.attribute,
        saved=files.statement(trace.saved),
        culprit=None if culprit is None else writers[0],
        needed=files.statement(trace.needed),
        other_mutations=tuple(writers if culprit is None else writers[1:]),
        built=files.statement(trace.built),
        method=trace.method,
        notes=notes,
        writes=tuple(_writes(files, trace.written)),
        attributes=trace.attributes,
        empty=bool(trace.mutations) and trace.mutations[0].empty,
        rises=tuple(Rise(files.statement(m.place), m.before, m.after) for m in trace.mutations),
        graph=tuple(Vertex(node.name, node.feeds, node.start, files.statement(node.place)) for node in trace.graph),
        operands=trace.operands,
    )


def _writes(files: _Files, written: Iterable[Written]) -> Iterator[Write]:
    """The statements that wrote, each operator apart, in the order of their first write."""
    found: dict[tuple[str, int, int, str], Write] = {}
    for call in written:
        statement = files.statement(call.place)
        if statement is not None:
            key = statement.file, statement.line, statement.column, statement.operator
            known = found.get(key)
            count, versions = (known.statement.count, known.versions) if known else (0, 0)
            found[key] = Write(replace(statement, count=count + call.count), versions + call.versions)
    return iter(found.values())


def _folded(statements: Iterable[Statement | None]) -> Iterator[Statement]:
    """Each statement once, in order of its first appearance, with how often it appears."""
    found: dict[tuple[str, int, int], Statement] = {}
    for statement in statements:
        if statement is not None:
            key = statement.file, statement.line, statement.column
            known = found.get(key)
            found[key] = statement if known is None else replace(known, count=known.count + 1)
    return iter(found.values())


def in_cells(diagnosis: Diagnosis, program: Program) -> Diagnosis:
    """The diagnosis of `program` in which each statement knows its cell; the same where no file is a notebook."""

    def located(statement: Statement | None) -> Statement | None:
        return None if statement is None else _in_cell(statement, program)

    return replace(
        diagnosis,
        saved=located(diagnosis.saved),
        culprit=located(diagnosis.culprit),
        needed=located(diagnosis.needed),
        built=located(diagnosis.built),
        other_mutations=tuple(_in_cell(mutation, program) for mutation in diagnosis.other_mutations),
        rises=tuple(replace(rise, statement=located(rise.statement)) for rise in diagnosis.rises),
        graph=tuple(replace(vertex, statement=located(vertex.statement)) for vertex in diagnosis.graph),
    )


def _in_cell(statement: Statement, program: Program) -> Statement:
    return replace(statement, cell=program[statement.file].cell_at(statement.line))


class _Files:
    """The program's files, each split into statements once."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._known: dict[str, _Source] = {}

    def statement(self, place: Place | None) -> Statement | None:
        """The statement that the innermost own frame of `place` stands in; None where there is no such frame."""
        if place is None or not place.stack or place.stack[0].file not in self._sources:
            return None
        frame = place.stack[0]
        source = self._known.get(frame.file) or _Source(self._sources[frame.file])
        self._known[frame.file] = source
        start, end = source.extent(frame)
        return Statement(
            file=frame.file,
            line=start[0],
            column=start[1],
            end_line=end[0],
            end_column=end[1],
            source=source.text(start, end),
            function=frame.function,
            operator=place.operator,
            library_frame=place.library,
        )


class _Source:
    """One file's text and the extents of its statements; of compound statements, of the headers."""

    def __init__(self, text: str) -> None:
        self._lines = io.StringIO(text, newline=None).readlines()  # as Python numbers them, unlike str.splitlines
        self._extents = list(self._statements(ast.parse(text)))

    def extent(self, frame: Frame) -> tuple[_Point, _Point]:
        """Start and end of the smallest statement around the frame's expression.

        Where Python does not tell columns, the first of several on the line; where there is none, the whole line.
        """
        holding = [extent for extent in self._extents if _holds(extent, frame)]
        if holding:
            _, start, end = min(holding, key=lambda extent: (-extent[0], extent[1]))
            return start, end
        line = self._lines[frame.line - 1].rstrip() if frame.line <= len(self._lines) else ""
        return (frame.line, len(line) - len(line.lstrip())), (frame.line, len(line))

    def text(self, start: _Point, end: _Point) -> str:
        """The text between two points."""
        lines = self._lines[start[0] - 1 : end[0]]
        if lines:
            lines[-1] = lines[-1][: end[1]]
            lines[0] = lines[0][start[1] :]
        return "".join(lines)

    def _statements(self, tree: ast.AST) -> Iterator[_Extent]:
        todo = [(tree, 0)]
        while todo:
            node, depth = todo.pop()
            if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                start = self._start(node)
                blocks = node.cases if isinstance(node, ast.Match) else getattr(node, "body", None)
                end = self._colon(start, self._start(blocks[0])) if blocks else self._point(*_end(node))
                yield depth, start, end
                depth += 1
            todo += [(child, depth) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]

    def _start(self, node: ast.stmt | ast.ExceptHandler | ast.match_case) -> _Point:
        if isinstance(node, ast.match_case):  # knows no position of its own, but its pattern does
            line = self._lines[node.pattern.lineno - 1]
            return node.pattern.lineno, len(line) - len(line.lstrip())
        parts = [node, *getattr(node, "decorator_list", [])]
        line_number, column = min((part.lineno, part.col_offset) for part in parts)
        line, column = line_number, self._point(line_number, column)[1]
        # a decorator's position leaves its @ out
        return line, self._lines[line - 1].rindex("@", 0, column) if len(parts) > 1 else column

    def _colon(self, start: _Point, body: _Point) -> _Point:
        """The end of the last colon between the start of a compound statement and its body."""
        end = start
        lines = iter(self._lines[start[0] - 1 :])
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            line = token.start[0] + start[0] - 1
            if (line, token.start[1]) >= body:
                break
            if token.string == ":" and (line, token.start[1]) >= start:
                end = line, token.end[1]
        return end

    def _point(self, line: int, column: int) -> _Point:
        """A position with the column in characters, given in bytes as the parser counts."""
        return line, len(self._lines[line - 1].encode()[:column].decode(errors="ignore"))


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)


def _holds(extent: _Extent, frame: Frame) -> bool:
    """Whether the frame's expression begins inside the extent; without columns, whether its line does."""
    _, start, end = extent
    if frame.column is None:
        return start[0] <= frame.line <= end[0]
    return start <= (frame.line, frame.column) < end
