"""Programs as nested lists of lines that keep their identity while they are moved, renamed and wrapped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Line:
    """One line of code, without its indentation; the same object wherever it ends up."""

    text: str


@dataclass(eq=False)
class Block:
    """A header that ends in a colon, its body, and the clauses that belong to it."""

    header: Line
    body: list[Item] = field(default_factory=list)
    clauses: list[Item] = field(default_factory=list)


Item = Line | Block

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def lines_of(items: Iterable[Item], indent: int = 0) -> Iterator[tuple[Line, int]]:
    """Every line from top to bottom, with its depth."""
    for item in items:
        if isinstance(item, Line):
            yield item, indent
        else:
            yield item.header, indent
            yield from lines_of(item.body, indent + 1)
            yield from lines_of(item.clauses, indent)


def render(items: Iterable[Item]) -> str:
    """The text of a program."""
    return "".join(f"{'    ' * indent}{line.text}\n" if line.text else "\n" for line, indent in lines_of(items))


def numbers(items: Iterable[Item]) -> dict[Line, int]:
    """The number of each line in the rendered text, from 1."""
    return {line: number for number, (line, _) in enumerate(lines_of(items), 1)}


def parsed(text: str, indent: int = 0) -> list[Item]:
    """Fixed text as lines, one each; indentation stays part of their text."""
    return [Line("    " * indent + line) for line in text.splitlines()]


@dataclass(frozen=True)
class Names:
    """The names that a stretch of code needs from outside, in order, and those that it binds."""

    needs: tuple[str, ...]
    binds: tuple[str, ...]


def names(items: Sequence[Item]) -> Names:
    """What a stretch of code needs and binds. Its loops are taken to run at least once."""
    needs: dict[str, None] = {}
    binds: dict[str, None] = {}
    for node in ast.parse(render(items)).body:
        _walk(node, needs, binds)
    return Names(tuple(needs), tuple(binds))


def mentioned(items: Iterable[Item]) -> set[str]:
    """Every identifier that stands anywhere in a stretch of code, in strings too."""
    return set(_IDENTIFIER.findall(render(items)))


def renamed(line: Line, name: str, text: str) -> None:
    """Write `text` in `line` wherever it uses `name`."""
    if line.text.startswith(("try", "except")):
        return
    header = line.text.endswith(":")
    tree = ast.parse(line.text + (" pass" if header else ""))
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
    for node in sorted(found, key=lambda n: -n.col_offset):
        line.text = line.text[: node.col_offset] + text + line.text[node.end_col_offset :]


def _walk(node: ast.AST, needs: dict[str, None], binds: dict[str, None]) -> None:
    """Names in the order in which Python evaluates them, as far as assignments go."""
    match node:
        case ast.Assign():
            parts: list[ast.AST] = [node.value, *node.targets]
        case ast.AugAssign():
            if isinstance(node.target, ast.Name) and node.target.id not in binds:
                needs[node.target.id] = None
            parts = [node.target, node.value]
        case ast.For():
            parts = [node.iter, node.target, *node.body]
        case ast.With():
            parts = [*node.items, *node.body]
        case ast.Lambda() | ast.ListComp() | ast.FunctionDef():
            inner = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
            inner |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and part.id not in inner and part.id not in binds:
                    needs[part.id] = None
            if isinstance(node, ast.FunctionDef):
                binds[node.name] = None
            return
        case ast.Name():
            if isinstance(node.ctx, ast.Store):
                binds[node.id] = None
            elif node.id not in binds:
                needs[node.id] = None
            return
        case ast.ClassDef():
            binds[node.name] = None
            return
        case _:
            parts = list(ast.iter_child_nodes(node))
    for part in parts:
        _walk(part, needs, binds)
