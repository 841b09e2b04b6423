"""Rejects candidates that cannot work, without running them."""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterator
from functools import lru_cache

from shrinkrepro.program.gradients import miscounted
from shrinkrepro.program.source import Program

_BUILTIN = frozenset(dir(builtins)) | {
    "__file__",
    "__name__",
    "__doc__",
    "__spec__",
    "__package__",
    "__loader__",
    "__builtins__",
    "__path__",
    "__annotations__",
}


def invalid(program: Program, original: Program | None = None) -> str | None:
    """Why the program cannot work: a file does not compile, reads a name that it binds nowhere, or miscounts gradients.

    What already stands in a file of the `original` program is no reason (a name set by `exec`, say). None when nothing
    speaks against a run.
    """
    texts = [file.text for file in original or ()]
    known = frozenset(name for text in texts for name in unbound_names(text))
    miscounting = frozenset(name for text in texts for name in miscounted(text))
    for file in program:
        problem = syntax_problem(file.text)
        if problem is not None:
            return problem
        unbound = unbound_names(file.text) - known
        if unbound:
            return f"{file.path}: {', '.join(sorted(unbound))} bound nowhere"
        wrong = miscounted(file.text) - miscounting
        if wrong:
            return (
                f"{file.path}: {', '.join(sorted(wrong))} needs another number of gradients than its backward returns"
            )
    return None


@lru_cache(maxsize=4096)
def syntax_problem(text: str) -> str | None:
    """Why `text` does not compile; None when it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(text, "candidate", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return f"{type(problem).__name__}: {problem}"
    return None


@lru_cache(maxsize=4096)
def unbound_names(text: str) -> frozenset[str]:
    """The global names that `text` reads somewhere and binds nowhere; none when it imports `*`.

    Blind to order and to branches, so a name in this set is missing for certain (or built in by other means), while a
    name outside it may still be missing when it is read.
    """
    top = symtable.symtable(text, "candidate", "exec")
    read: set[str] = set()
    # in a comprehension at the top level, which Python 3.12 makes part of that, the table does not show what := binds
    bound = {node.target.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.NamedExpr)}
    for table in _tables(top):
        for symbol in table.get_symbols():
            here = table is top or symbol.is_declared_global()
            if here and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
            if symbol.is_referenced() and (table is top or symbol.is_global()):
                read.add(symbol.get_name())
    if "import *" in text:
        return frozenset()
    return frozenset(read - bound - _BUILTIN)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
