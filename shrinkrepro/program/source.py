"""The program that is being reduced: immutable source files whose every character knows where it came from."""

from __future__ import annotations

import ast
import bisect
import io
import tokenize
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath

from shrinkrepro.runtime.messages import Protection

_IN_PLACE = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "xor", "or"]
_WRITING_METHODS = {"__setitem__", *(f"__i{name}__" for name in _IN_PLACE)}
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


@dataclass(frozen=True, order=True)
class Span:
    """Characters `start` to `end` (exclusive) of the file at `path` in one version of a program."""

    path: str
    start: int
    end: int

    def __contains__(self, other: Span) -> bool:
        return self.path == other.path and self.start <= other.start and other.end <= self.end

    @property
    def empty(self) -> bool:
        """Whether it covers no character: a place to insert at."""
        return self.start == self.end


@dataclass(frozen=True)
class Run:
    """Characters from `start` on, `length` of them, were copied from `offset` on in the original file `path`."""

    start: int
    length: int
    path: str
    offset: int


@dataclass(frozen=True)
class Cell:
    """Code cell `number` (from 1) of a notebook: its lines begin at line `first` of the file that they became."""

    number: int
    first: int


@dataclass(frozen=True)
class SourceFile:
    """One file: its path relative to the program's root, its text, and the runs of text copied from the original.

    Characters outside every run are literal text that a rewrite brought in. `cells` are those of a notebook as it was
    loaded, in order; a file that was edited has none.
    """

    path: str
    text: str
    runs: tuple[Run, ...]
    cells: tuple[Cell, ...] = ()

    @classmethod
    def original(cls, path: str, text: str) -> SourceFile:
        """A file as the user wrote it: one run that covers all of it."""
        return cls(path, text, (Run(0, len(text), path, 0),) if text else ())

    def origins(self, start: int, end: int) -> Iterator[Run]:
        """The parts of the runs that lie between `start` and `end`, clipped to them."""
        first = max(0, bisect.bisect_right(self.runs, start, key=lambda run: run.start) - 1)
        for run in self.runs[first:]:
            if run.start >= end:
                return
            low, high = max(run.start, start), min(run.start + run.length, end)
            if low < high:
                yield Run(low, high - low, run.path, run.offset + low - run.start)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset of each line's first character; line numbers count from 1, so line n starts at index n - 1."""
        starts = [0]
        starts.extend(i + 1 for i, character in enumerate(self.text) if character == "\n")
        return tuple(starts)

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line that holds the character at `offset`."""
        return bisect.bisect_right(self.line_starts, offset)

    def cell_at(self, line: int) -> Cell | None:
        """The notebook's cell that holds `line`; None in a file that is no notebook."""
        position = bisect.bisect_right(self.cells, line, key=lambda cell: cell.first)
        return self.cells[position - 1] if position else None

    def offset_of(self, line: int, column: int = 0) -> int:
        """The offset of the character in `column` (characters, from 0) of `line` (from 1), kept inside the text."""
        if line > len(self.line_starts):
            return len(self.text)
        return min(self.line_starts[line - 1] + column, len(self.text))

    def span_of(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """The characters from one place up to another, lines and columns as in `offset_of`."""
        return Span(self.path, self.offset_of(line, column), self.offset_of(end_line, end_column))


@dataclass(frozen=True)
class Invocation:
    """How the program is started.

    `root` is the absolute folder that the files' paths are relative to, `entry` the path of the script in it, `cwd`
    the folder it is started in, `argv` its arguments, `module` the dotted name for `-m`, `environment` what to add to
    the environment variables. `hidden` are files below the root that are not to be seen: the program had them once.
    `folders`, relative to the root, are those that modules are imported from; the first is the script's own.
    `network` lets the program use the network, `protection` is what guards its runs, as a Job says. `stdin` is what it
    reads as standard input: bytes, decoded by `os.fsdecode`. `seed` is what its random generators begin with.
    """

    root: str
    entry: str
    cwd: str
    argv: tuple[str, ...] = ()
    module: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    hidden: tuple[str, ...] = ()
    folders: tuple[str, ...] = ("",)
    network: bool = False
    protection: Protection = "kernel"
    stdin: str = ""
    seed: int | None = None

    def inside(self, path: str) -> str:
        """A file's path relative to the folder that it is imported from."""
        holding = [folder for folder in self.folders if folder and path.startswith(f"{folder}/")]
        return path[len(max(holding, key=len)) + 1 :] if holding else path

    def module_name(self, path: str) -> str:
        """The dotted name under which a file is imported: "a/__init__.py" is "a", "a/b.py" is "a.b"."""
        parts = PurePosixPath(self.inside(path)).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True)
class Program:
    """An immutable set of source files and the way to start them; `notes` say what was left out when it was loaded."""

    files: tuple[SourceFile, ...]
    invocation: Invocation
    notes: tuple[str, ...] = ()
    _by_path: dict[str, SourceFile] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_path", {file.path: file for file in self.files})

    @classmethod
    def of(cls, text: str, path: str = "program.py") -> Program:
        """A program of one file, for tests and examples; it lives in no folder in particular."""
        return cls((SourceFile.original(path, text),), Invocation(root="/", entry=path, cwd="/"))

    def __getitem__(self, path: str) -> SourceFile:
        return self._by_path[path]

    def __hash__(self) -> int:
        return hash(self.texts)

    @property
    def tokens(self) -> int:
        """How many tokens of Python all files have together."""
        return sum(count_tokens(file.text) for file in self.files)

    @property
    def entry(self) -> SourceFile:
        """The script that is started."""
        return self._by_path[self.invocation.entry]

    def without(self, paths: Collection[str]) -> Program:
        """The program as if the files at `paths` did not exist. One that is left alone is started as a script."""
        if not paths:
            return self
        files = tuple(file for file in self.files if file.path not in paths)
        hidden = (*self.invocation.hidden, *sorted(paths))
        module = self.invocation.module if len(files) > 1 else None
        return replace(self, files=files, invocation=replace(self.invocation, hidden=hidden, module=module))

    def moved_to(self, folder: str) -> Program:
        """The program in another folder, which holds nothing else, started there without arguments."""
        now = self.invocation
        call = Invocation(
            root=folder, entry=now.entry, cwd=folder, module=now.module, network=now.network, protection=now.protection
        )
        if len(self.files) > 1:
            return replace(self, invocation=replace(call, folders=now.folders))
        path = f"{PurePosixPath(now.entry).stem}.py"  # of a script in a package, or of a notebook
        return replace(self, files=(replace(self.entry, path=path),), invocation=replace(call, entry=path, module=None))

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """Path and text of every file: what decides how the program behaves."""
        return tuple((file.path, file.text) for file in self.files)

    def text(self, span: Span) -> str:
        """The characters of `span`."""
        return self._by_path[span.path].text[span.start : span.end]

    def __iter__(self) -> Iterator[SourceFile]:
        return iter(self.files)


def count_tokens(text: str) -> int:
    """How many tokens `text` has, layout and comments not counted."""
    return sum(token.type not in _LAYOUT for token in tokenize.generate_tokens(io.StringIO(text).readline))


def count_statements(text: str) -> int:
    """How many statements `text` has, compound ones and those inside them counted one each."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))


def count_lines(text: str) -> int:
    """How many lines `text` has."""
    return len(text.splitlines())


def count_writes(text: str) -> int:
    """How many statements and calls of `text` are written in a form that can write a tensor in place."""
    return sum(map(_writes, ast.walk(ast.parse(text))))


def _writes(node: ast.AST) -> bool:
    match node:
        case ast.AugAssign():
            return True
        case ast.Assign(targets=targets):
            return any(isinstance(target, ast.Subscript) for target in targets)
        case ast.Attribute(attr=name, ctx=ast.Load()) if name.endswith("_") and not name.endswith("__"):
            return True  # called here or handed to what calls it
        case ast.Call(func=ast.Attribute(attr=name)) if name in _WRITING_METHODS:
            return True
        case ast.keyword(arg="out") | ast.keyword(arg="inplace", value=ast.Constant(value=True)):
            return True
    return False


@dataclass(frozen=True, order=True)
class Size:
    """How large a program is: the order in which two programs are compared, most important first.

    In-place forms come first, because each is a suspect that the reader of the result has to clear. `names` counts
    different names, `characters` leaves white space out. `reach` adds up, over all uses of names, how many names
    appeared before that one, so it is smaller where older names are used; `magnitude` is the sum of all numbers. Only
    strictly smaller programs are ever adopted, so a reduction ends, and repeating it changes nothing.
    """

    writes: int
    tokens: int
    statements: int
    names: int
    characters: int
    reach: int
    magnitude: float

    @classmethod
    def of(cls, program: Program) -> Size:
        """The size of all files together. Raises SyntaxError when one is not Python."""
        texts = [file.text for file in program]
        trees = [ast.parse(text) for text in texts]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        return cls(
            writes=sum(map(_writes, nodes)),
            tokens=program.tokens,
            statements=sum(isinstance(node, ast.stmt) for node in nodes),
            names=len({node.id for node in nodes if isinstance(node, ast.Name)}),
            characters=sum(len("".join(text.split())) for text in texts),
            reach=sum(map(_reach, trees)),
            magnitude=sum(map(_magnitude, nodes)),
        )


def _reach(tree: ast.Module) -> int:
    """The sum, over all uses of names, of the rank in which that name first appears in the text."""
    names = sorted((n for n in ast.walk(tree) if isinstance(n, ast.Name)), key=lambda n: (n.lineno, n.col_offset))
    rank = {name: place for place, name in enumerate(dict.fromkeys(node.id for node in names))}
    return sum(rank[node.id] for node in names)


def _magnitude(node: ast.AST) -> float:
    """The absolute value of a number; 0 for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return abs(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def original_lines(program: Program, span: Span, original: Program) -> frozenset[tuple[str, int]]:
    """The lines (path, number) of `original` that `span` was copied from; white space does not count."""
    file = program[span.path]
    lines: set[tuple[str, int]] = set()
    for run in file.origins(span.start, span.end):
        source = original[run.path]
        for position, character in enumerate(file.text[run.start : run.start + run.length], run.offset):
            if not character.isspace():
                lines.add((run.path, source.line_at(position)))
    return frozenset(lines)
