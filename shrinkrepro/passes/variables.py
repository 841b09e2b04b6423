"""Passes that do away with variables: values go where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, count, pairwise
from keyword import iskeyword

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import joined, names, patch, removal, whole, within
from shrinkrepro.passes.syntax import delimited, own_scope, standalone
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree
from shrinkrepro.runtime.messages import Value


def inline_variables(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the value of a variable that is assigned once where the variable is read, and delete the assignment.

    Before:
        x = torch.ones(1)
        y = x.exp()
    After:
        y = torch.ones(1).exp()
    """
    for tree in reversed(facts.trees):
        for statement in sorted(tree.statements, key=lambda s: -s.code.start):
            name = _only_name(statement)
            if name is None:
                continue
            scope = _scope(tree, statement.node)
            uses = within(tree, names(tree).read.get(name, ()), scope)
            bound = within(tree, names(tree).bound.get(name, ()), scope)
            later = [use for use in uses if tree.span(use).start > statement.code.end]
            if len(bound) != 1 or not later or len(later) != len(uses):
                continue
            assert isinstance(statement.node, cst.Assign)
            value = statement.node.value
            puts = [Edit(whole(tree, use), standalone(tree, value, use)) for use in later]
            yield patch(f"inline {name}", removal(tree, statement), *puts)


def inline_next(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the value of a variable into the one place that reads it before it is assigned again.

    Before:
        x = f()
        x = g(x)
        use(x)
    After:
        x = g(f())
        use(x)
    """
    for tree in reversed(facts.trees):
        for statement, following in _pairs(tree):
            name = _only_name(statement)
            if name is None:
                continue
            uses = within(tree, names(tree).read.get(name, ()), following.node)
            scope = _scope(tree, statement.node)
            everywhere = within(tree, names(tree).read.get(name, ()), scope)
            rebinds = bool(within(tree, names(tree).bound.get(name, ()), following.node))
            if len(uses) != 1 or (len(everywhere) != 1 and not rebinds):
                continue
            assert isinstance(statement.node, cst.Assign)
            value = standalone(tree, statement.node.value, uses[0])
            yield patch(f"inline {name}", removal(tree, statement), Edit(whole(tree, uses[0]), value))


def split_assignments(program: Program, facts: Facts) -> Iterator[Patch]:
    """Assign one variable a line where several are assigned at once.

    Before:
        x, y = f(), 2
    After:
        x = f()
        y = 2
    """
    for tree in reversed(facts.trees):
        for statement in sorted(tree.statements, key=lambda s: -s.code.start):
            match statement.node:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Tuple(elements=targets))],
                    value=cst.Tuple(elements=values),
                ) if len(targets) == len(values) and not any(
                    isinstance(part, cst.StarredElement) for part in (*targets, *values)
                ):
                    lines = [
                        (tree.span(target.value), " = ", whole(tree, value.value))
                        for target, value in zip(targets, values, strict=True)
                    ]
                    if lines:
                        yield patch("assign one by one", Edit(statement.code, joined(lines, f"\n{statement.indent}")))


def compute_once(program: Program, facts: Facts) -> Iterator[Patch]:
    """Compute once what is computed twice in the same words.

    Before:
        total = f(x, 1).sum()
        f(x, 1).backward()
    After:
        y = f(x, 1)
        total = y.sum()
        y.backward()

    Before:
        a = f(x, 1)
        f(x, 1).backward()
    After:
        a = f(x, 1)
        a.backward()
    """
    for tree in reversed(facts.trees):
        found: dict[tuple[cst.CSTNode, str], list[cst.Call]] = {}
        for call in tree.walk(cst.Call):
            if call.args and own_scope(tree, call):
                found.setdefault((_scope(tree, call), tree.text(call)), []).append(call)
        repeated = [calls for calls in found.values() if len(calls) > 1]
        for first, *others in sorted(repeated, key=lambda calls: -len(tree.text(calls[0]))):
            statement = tree.statement_around(first)
            if any(tree.statement_around(other) is statement for other in others):
                continue
            name = _only_name(statement) if tree.parents[first] is statement.node else None
            known = {*names(tree).read, *names(tree).bound}
            new = name or next(free for free in chain(["y"], (f"y_{i}" for i in count(1))) if free not in known)
            edits = [Edit(whole(tree, call), (new,)) for call in others]
            if name is None:
                value, start = whole(tree, first), statement.span.start
                before = Span(value.path, start, value.start)
                pieces = (statement.indent, f"{new} = ", value, "\n", before, new)
                edits.append(Edit(Span(value.path, start, value.end), pieces))
            yield patch(f"compute {new} once", *edits)


def merge_names(program: Program, facts: Facts) -> Iterator[Patch]:
    """Use one name where another was only a second name for the same thing.

    Before:
        y = x
        z = y + 1
    After:
        z = x + 1
    """
    for tree in reversed(facts.trees):
        for statement in sorted(tree.statements, key=lambda s: -s.code.start):
            name, node = _only_name(statement), statement.node
            if name is None or not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Name):
                continue
            scope = _scope(tree, node)
            bound = within(tree, names(tree).bound.get(name, ()), scope)
            uses = (*within(tree, names(tree).read.get(name, ()), scope), *bound)
            later = [use for use in dict.fromkeys(uses) if tree.span(use).start > statement.code.end]
            if iskeyword(node.value.value) and set(later) & set(bound):
                continue  # nothing can be assigned to None
            edits = [Edit(tree.span(use), (node.value.value,)) for use in later]
            yield patch(f"{node.value.value} for {name}", removal(tree, statement), *edits)


def index_once(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take the item that every use of a variable asks for when the variable is assigned.

    Before:
        y = f(x)
        y[0].sum()
        g(y[0])
    After:
        y = f(x)[0]
        y.sum()
        g(y)
    """
    for tree in reversed(facts.trees):
        for statement in sorted(tree.statements, key=lambda s: -s.code.start):
            name, node = _only_name(statement), statement.node
            if name is None or not isinstance(node, cst.Assign):
                continue
            scope = _scope(tree, node)
            uses = within(tree, names(tree).read.get(name, ()), scope)
            bound = within(tree, names(tree).bound.get(name, ()), scope)
            outer = [tree.parents[use] for use in uses]
            items = [o for o, use in zip(outer, uses, strict=True) if isinstance(o, cst.Subscript) and o.value is use]
            indices = {tree.text(item)[len(name) :] for item in items}
            if len(bound) != 1 or len(items) != len(uses) or len(indices) != 1:
                continue
            index = Edit(Span(statement.code.path, statement.code.end, statement.code.end), (indices.pop(),))
            yield patch(f"index {name} once", index, *(Edit(tree.span(item), (name,)) for item in items))


def drop_results(program: Program, facts: Facts) -> Iterator[Patch]:
    """Keep a value and drop the name that it is assigned to, where nothing reads the name.

    Before:
        y = x.add_(1)
    After:
        x.add_(1)
    """
    for tree in reversed(facts.trees):
        for statement in sorted(tree.statements, key=lambda s: -s.code.start):
            if isinstance(statement.node, (cst.Assign, cst.AugAssign, cst.AnnAssign)) and statement.node.value:
                span = whole(tree, statement.node.value)
                yield patch("drop a target", Edit(statement.code, (span,)))


def _only_name(statement: Statement) -> str | None:
    """The one name that a statement assigns; None when it does anything else."""
    match statement.node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return str(name)
    return None


def _scope(tree: Tree, node: cst.CSTNode) -> cst.CSTNode:
    """The function around a statement, or the whole file."""
    return next((n for n in tree.ancestors(node) if isinstance(n, cst.FunctionDef)), tree.module)


def _pairs(tree: Tree) -> Iterator[tuple[Statement, Statement]]:
    """Each statement with the one that follows it in its block, later ones first."""
    by_block: dict[object, list[Statement]] = {}
    for statement in tree.statements:
        by_block.setdefault(statement.block.span if statement.block else None, []).append(statement)
    pairs = [(a, b) for members in by_block.values() for a, b in pairwise(members)]
    return iter(sorted(pairs, key=lambda pair: -pair[0].code.start))


def reuse_names(program: Program, facts: Facts) -> Iterator[Patch]:
    """Read a tensor that has a name already, or a copy or a mask made of it, where another one is made.

    Before:
        import torch
        x = torch.ones(2)
        y = x * torch.ones(2)
    After:
        import torch
        x = torch.ones(2)
        y = x * x

    Before:
        import torch
        x = torch.ones(2)
        y = x.masked_fill(torch.zeros(2, dtype=torch.bool), 1)
    After:
        import torch
        x = torch.ones(2)
        y = x.masked_fill(x > 0, 1)
    """
    for tree in reversed(facts.trees):
        values = facts.values(tree.file.path)
        made = [node for node in tree.expressions if _is_tensor(values.get(whole(tree, node)))]
        for node in sorted(made, key=lambda n: (tree.span(n).start - tree.span(n).end, -tree.span(n).start)):
            scope = _scope(tree, node)
            known = [
                name
                for name, uses in names(tree).bound.items()
                if any(
                    tree.statement_around(use).code.end <= tree.span(node).start for use in within(tree, uses, scope)
                )
                and _names_a_tensor(tree, values, name)
            ]
            if isinstance(node, cst.Name):  # of two names, the one bound first
                known = known[: known.index(node.value)] if node.value in known else []
            value = values[whole(tree, node)].tensor
            mask = value is not None and value.dtype == "torch.bool"
            for name in reversed(known):
                for text in (f"{name} > 0",) if mask else (name, f"{name} * 1"):
                    put = text if text == name or delimited(tree, node) else f"({text})"
                    yield patch(f"use {name} again", Edit(whole(tree, node), (put,)))


def _names_a_tensor(tree: Tree, values: Mapping[Span, Value], name: str) -> bool:
    """Whether some use of the name, or some value assigned to it, was a tensor."""
    assigned = [tree.statement_around(use).node for use in names(tree).bound.get(name, ())]
    given = [whole(tree, node.value) for node in assigned if isinstance(node, cst.Assign)]
    used = [tree.span(use) for use in names(tree).read.get(name, ())]
    return any(_is_tensor(values.get(span)) for span in (*given, *used))


def _is_tensor(value: Value | None) -> bool:
    return value is not None and value.tensor is not None
