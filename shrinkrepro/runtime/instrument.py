"""Source code that tells which values its expressions have.

Each expression that is read is wrapped in a call that passes its value on: `f(x)` becomes
`see(0, see(1, f)(see(2, x)))`. Lines and columns stay those of the original, so tracebacks and tracers name the same
places.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# Expressions whose value is plain to see, or whose meaning depends on the exact form of the code around them.
_LEFT_ALONE = (
    ast.Constant,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.Starred,
    ast.Slice,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.NamedExpr,
    ast.Lambda,
)

SEE = "__shrinkrepro_see__"


@dataclass(frozen=True)
class Site:
    """Where a wrapped expression stands: lines from 1, columns in characters from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


def instrument(source: str, wanted: Callable[[ast.stmt], bool]) -> tuple[ast.Module, tuple[Site, ...]]:
    """The syntax tree of `source` in which the expressions of the wanted statements tell their values.

    A wanted compound statement is wrapped in its header only. The wrapper is the global name `SEE`, called with the
    index of the expression's site and its value, which it must return.
    """
    tree = ast.parse(source)
    wrapper = _Wrapper(source.split("\n"), wanted)
    wrapper.visit(tree)
    ast.fix_missing_locations(tree)
    return tree, tuple(wrapper.sites)


def renumber(tree: ast.Module, first: int) -> None:
    """Count the sites of an instrumented tree from `first` on instead of 0, so that several files share one count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == SEE:
            index = node.args[0]
            if isinstance(index, ast.Constant) and isinstance(index.value, int):
                index.value += first


class _Wrapper(ast.NodeTransformer):
    def __init__(self, lines: Sequence[str], wanted: Callable[[ast.stmt], bool]) -> None:
        self._lines, self._wanted = lines, wanted
        self._active = False
        self.sites: list[Site] = []

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt):
            outer, self._active = self._active, self._wanted(node)
            self.generic_visit(node)
            self._active = outer
            return node
        if isinstance(node, (ast.arguments, ast.pattern, ast.ExceptHandler)) or not isinstance(node, ast.expr):
            self.generic_visit(node)
            return node
        self.generic_visit(node)
        readable = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if not self._active or not readable or isinstance(node, _LEFT_ALONE):
            return node
        return self._wrapped(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        """Annotations are not values."""
        outer, self._active = self._active, self._wanted(node)
        if node.value is not None:
            node.value = self.visit(node.value)
        self._active = outer
        return node

    def _wrapped(self, node: ast.expr) -> ast.Call:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        site = Site(
            node.lineno, self._column(node.lineno, node.col_offset), end_line, self._column(end_line, end_column)
        )
        self.sites.append(site)
        see = ast.Name(SEE, ast.Load())
        call = ast.Call(see, [ast.Constant(len(self.sites) - 1), node], [])
        for part in (call, see, call.args[0]):
            ast.copy_location(part, node)
        return call

    def _column(self, line: int, byte: int) -> int:
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return byte if text.isascii() else len(text.encode()[:byte].decode())
