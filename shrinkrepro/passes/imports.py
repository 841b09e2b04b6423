"""Passes over imports: names nobody reads dropped, aliases replaced by what they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import names, patch, removal, without
from shrinkrepro.passes.syntax import dotted
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import Tree


def drop_unused_imports(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop imported names that nothing reads, and imports of a name that is imported again.

    Before:
        import torch
        from math import cos, sin
        sin(1)
    After:
        import torch
        from math import sin
        sin(1)
    """
    for tree in reversed(facts.trees):
        imported = list(_imported(tree))
        for position in reversed(range(len(imported))):
            entry = imported[position]
            again = any((entry.name, entry.full) == (earlier.name, earlier.full) for earlier in imported[:position])
            if again or not (entry.name in names(tree).read or _imported_elsewhere(entry.name, tree, facts)):
                yield patch("drop an unused import", *entry.removal(tree))


def canonical_imports(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write an imported name in full everywhere, under the module that the name is found in, and import only that.

    Before:
        import torch
        import torch.nn as nn
        net = nn.Linear(2, 2)
    After:
        import torch
        net = torch.nn.Linear(2, 2)

    Before:
        from torch.nn import functional as F
        F.relu(x)
    After:
        import torch
        torch.nn.functional.relu(x)
    """
    for tree in reversed(facts.trees):
        imported = list(_imported(tree))
        plain = {entry.name for entry in imported if entry.name == entry.full}
        for entry in reversed(imported):
            root, dot, _ = entry.full.partition(".")
            uses = names(tree).read.get(entry.name, ())
            if not root or not dot or entry.name == root or entry.name in names(tree).bound or not uses:
                continue
            puts = [Edit(tree.span(use), (entry.full,)) for use in uses]
            if root in plain:
                yield patch(f"write {entry.name} in full", *puts, *entry.removal(tree))
            elif len(entry.aliases) == 1:
                statement = tree.statement_around(entry.statement)
                yield patch(f"write {entry.name} in full", *puts, Edit(statement.code, (f"import {root}",)))


@dataclass(frozen=True, eq=False)
class _Imported:
    """One name that an import statement binds, and the full dotted name of what it stands for.

    `import a.b` binds `a` and stands for `a.b`. `position` is the place among the `aliases` of the `statement`.
    """

    name: str
    full: str
    statement: cst.Import | cst.ImportFrom
    aliases: Sequence[cst.ImportAlias]
    position: int

    def removal(self, tree: Tree) -> tuple[Edit, ...]:
        """The edits that take it out of its statement, or the statement out where it is all that it binds."""
        if len(self.aliases) == 1:
            return (removal(tree, tree.statement_around(self.statement)),)
        return without(tree, self.aliases, {self.position})


def _imported(tree: Tree) -> Iterator[_Imported]:
    """The names that a file imports, in the order of the text; those that `*` brings are not known."""
    for node in tree.spans:
        if isinstance(node, cst.Import):
            for position, alias in enumerate(node.names):
                full = alias.evaluated_name
                yield _Imported(alias.evaluated_alias or full.partition(".")[0], full, node, node.names, position)
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            base = "." * len(node.relative) + ((dotted(node.module) or "") if node.module is not None else "")
            for position, alias in enumerate(node.names):
                name = alias.evaluated_name
                yield _Imported(alias.evaluated_alias or name, f"{base}.{name}", node, node.names, position)


def _imported_elsewhere(name: str, tree: Tree, facts: Facts) -> bool:
    """Whether another file of the program imports the name, perhaps from this file."""
    others = (other for other in facts.trees if other is not tree)
    return any(entry.full.rpartition(".")[2] == name for other in others for entry in _imported(other))
