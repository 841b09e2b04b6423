"""Passes over what repeats: comprehensions made plain lists, loops made one turn of what all turns together do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.blocks import Item, first_items, first_turn, one_turn, targets
from shrinkrepro.passes.bodies import members
from shrinkrepro.passes.common import from_the_end, names, patch, whole, within
from shrinkrepro.passes.syntax import last_name
from shrinkrepro.program.edit import Edit, Patch, copied
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree


def flatten_comprehensions(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write the first element of a comprehension, or what all elements together would be, as the only one.

    Before:
        squares = [row * row for row in rows]
    After:
        squares = [rows * rows]

    Before:
        squares = {i: row.exp() for i, row in enumerate(rows)}
    After:
        squares = {0: rows[0].exp()}
    """
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.BaseComp))):  # type: ignore[type-abstract]
            shown = _shown(node)
            made = [_only_element(tree, node, shown, items) for items in first_items(tree, node.for_in, shown, facts)]
            plain = not node.for_in.ifs and node.for_in.inner_for_in is None and node.for_in.asynchronous is None
            for edit in dict.fromkeys(edit for edit in made if plain and edit is not None):
                yield patch("keep one element", edit)


def run_through_less(program: Program, facts: Facts) -> Iterator[Patch]:
    """Leave out one of the things that a loop runs through at once: what it read of that becomes a number.

    Before:
        for weight, gradient in zip(weights, gradients):
            weight -= gradient
    After:
        for weight in weights:
            weight -= 1

    Before:
        for step, batch in enumerate(batches):
            train(batch, step)
    After:
        for batch in batches:
            train(batch, 0)
    """
    for tree in reversed(facts.trees):
        loops: list[cst.For | cst.CompFor] = [*tree.walk(cst.For), *tree.walk(cst.CompFor)]
        for loop in reversed(loops):
            match loop.iter, loop.target:
                case cst.Call(cst.Name("enumerate"), [cst.Arg() as kept]), cst.Tuple(elements=[count, rest]):
                    yield _without(tree, loop, count, "0", rest, kept)
                case cst.Call(cst.Name("zip"), [one, other]), cst.Tuple(elements=[first, second]):
                    yield _without(tree, loop, second, "1", first, one)
                    yield _without(tree, loop, first, "1", second, other)


def _without(
    tree: Tree, loop: cst.For | cst.CompFor, gone: cst.BaseElement, number: str, kept: cst.BaseElement, source: cst.Arg
) -> Patch:
    """The patch that makes a loop run through `source` alone, for the variable `kept`."""
    inside = [loop.body] if isinstance(loop, cst.For) else _shown(tree.parents[loop])
    reads = within(tree, names(tree).read.get(last_name(gone.value), ()), *inside)
    numbers = [Edit(tree.span(use), (number,)) for use in reads]
    head = [
        Edit(whole(tree, loop.target), (tree.span(kept.value),)),
        Edit(whole(tree, loop.iter), (whole(tree, source.value),)),
    ]
    return patch("run through less", *head, *numbers)


def _shown(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The parts of a comprehension that it repeats."""
    return [child for child in node.children if isinstance(child, cst.BaseExpression)]


def last_in_turn(program: Program, facts: Facts) -> Iterator[Patch]:
    """Leave one turn of a loop and change the tensor at its end: what one turn changes, the next one needed unchanged.

    Before:
        import torch
        h = torch.ones(1, requires_grad=True).exp()
        total = 0
        for step in range(2):
            h.mul_(2)
            total = total + h.exp()
        total.backward()
    After:
        import torch
        h = torch.ones(1, requires_grad=True).exp()
        total = 0
        total = total + h.exp()
        h.mul_(2)
        total.backward()
    """
    culprit = facts.culprit
    for tree in facts.trees if culprit is not None else ():
        for statement in from_the_end(tree):
            loop = statement.node
            if culprit is not None and isinstance(loop, (cst.For, cst.While)) and culprit.code in tree.span(loop.body):
                for moved in _moved_to_end(tree, loop, culprit):
                    for heading in first_turn(tree, loop, facts) if isinstance(loop, cst.For) else ((),):
                        turn = one_turn(tree, statement, loop, heading)
                        yield patch("change it at the end of a turn", *turn.edits, moved)


def _moved_to_end(tree: Tree, loop: cst.For | cst.While, culprit: Statement) -> Iterator[Edit]:
    """The edit that puts the statement of a loop with `culprit` in it behind all others, if it is not there."""
    block = members(tree, loop.body) or ()
    end = block[-1].span.end if block else 0
    for member in block[:-1]:
        if culprit.code in member.code and tree.file.text.endswith("\n", 0, end):
            path, start, follows = member.span.path, member.span.start, member.span.end
            yield Edit(Span(path, start, end), (Span(path, follows, end), member.span))


def _only_element(
    tree: Tree, node: cst.BaseComp, shown: Sequence[cst.BaseExpression], items: Sequence[Item]
) -> Edit | None:
    """The edit that writes out a comprehension whose variables stand for `items`; None when they do not fit."""
    parts = targets(node.for_in.target)
    if len(parts) != len(items) or not all(isinstance(part, cst.Name) for part in parts):
        return None
    edits = [
        Edit(whole(tree, use), item.pieces(tree, use))
        for part, item in zip(parts, items, strict=True)
        for use in within(tree, names(tree).read.get(cst.ensure_type(part, cst.Name).value, ()), *shown)
    ]
    element = Span(tree.file.path, whole(tree, shown[0]).start, whole(tree, shown[-1]).end)
    opening, closing = "[]" if isinstance(node, (cst.ListComp, cst.GeneratorExp)) else "{}"
    return Edit(whole(tree, node), (opening, *copied(element, edits), closing))
