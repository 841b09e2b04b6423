"""Passes that know which autograd node must be stale, and write the shortest call that makes one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, whole
from shrinkrepro.passes.syntax import OPERATORS, needs_parentheses, parenthesised, snake
from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program, count_tokens
from shrinkrepro.program.tree import Tree

_MOST_OPERANDS = 3


def call_named_by_node(program: Program, facts: Facts) -> Iterator[Patch]:
    """Call the function that the stale node is named after on the same tensors, in place of one that leads to it.

    Before:
        import torch
        w = torch.ones(1, 1, requires_grad=True) * 1
        y = torch.nn.functional.linear(w, w)
        w += 1
        y.sum().backward()
    After:
        import torch
        w = torch.ones(1, 1, requires_grad=True) * 1
        y = w @ w
        w += 1
        y.sum().backward()
    """
    node = facts.diagnosis.node if facts.diagnosis else None
    if node is None or facts.saving is None:
        return
    function = snake(re.sub(r"Backward\d*$", "", node))
    tree = facts.tree(facts.saving.code.path)
    inside = [call for call in tree.walk(cst.Call) if tree.span(call) in facts.saving.code]
    for call in sorted(inside, key=lambda c: tree.span(c).start - tree.span(c).end):
        operands = _operands(tree, facts, call)[:_MOST_OPERANDS]
        size = count_tokens(f"({tree.text(call)})")
        for text in _texts(function, operands):
            tokens = count_tokens("(" + "".join(p if isinstance(p, str) else program.text(p) for p in text) + ")")
            if tokens < size:
                yield patch(f"call {function}", Edit(whole(tree, call), text))


def _operands(tree: Tree, facts: Facts, call: cst.Call) -> list[tuple[Piece, ...]]:
    """The tensors that a call is given, as pieces that a method can follow."""
    values = facts.values(tree.file.path)
    given = [argument.value for argument in call.args]
    if isinstance(call.func, cst.Attribute):
        given.insert(0, call.func.value)
    tensors = [node for node in given if (value := values.get(whole(tree, node))) is not None and value.tensor]
    return [parenthesised(whole(tree, node), needs_parentheses(tree, node, call.func)) for node in tensors]


def _texts(function: str, operands: list[tuple[Piece, ...]]) -> Iterator[tuple[Piece, ...]]:
    """Ways to call `function` on some of the operands, those with fewer first; the last one transposed, too."""
    operator = OPERATORS.get(function)
    for one in operands:
        yield (*one, f".{function}()")
    for one, two in itertools.product(operands, repeat=2):
        if operator:
            yield (*one, f" {operator} ", *two)
            yield (*one, f" {operator} ", *two, ".t()")
        yield (*one, f".{function}(", *two, ")")
        yield (*one, f".{function}(", *two, ".t())")
    for one, two, three in itertools.product(operands, repeat=3):
        yield (*one, f".{function}(", *two, ", ", *three, ")")
        yield (*one, f".{function}(", *two, ", ", *three, ".t())")
