"""Passes that know which autograd node must be stale, and write the shortest call that makes one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, whole
from shrinkrepro.passes.syntax import OPERATORS, needs_parentheses, parenthesised
from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program, count_tokens
from shrinkrepro.program.tree import Tree
from shrinkrepro.runtime.naming import function_of

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
    found = facts.diagnosis
    if found is None or found.node is None or facts.saving is None:
        return
    function = function_of(found.node)
    tree = facts.tree(facts.saving.code.path)
    inside = [call for call in tree.walk(cst.Call) if tree.span(call) in facts.saving.code]
    for call in sorted(inside, key=lambda c: tree.span(c).start - tree.span(c).end):
        operands = _operands(tree, facts, call)[:_MOST_OPERANDS]
        size = count_tokens(f"({tree.text(call)})")
        for text in _texts(function, found.operands, operands):
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


def _texts(function: str, counts: Sequence[int], operands: list[tuple[Piece, ...]]) -> Iterator[tuple[Piece, ...]]:
    """Ways to call `function` on operands, as many as one of `counts`: on several in any order, or on one, repeated.

    The last one is transposed, too: what a linear layer multiplies with is its weight transposed.
    """
    for chosen in (some for count in counts for some in _selections(operands, count)):
        first, rest = chosen[0], chosen[1:]
        if not rest:
            yield (*first, f".{function}()")
        elif function in OPERATORS:
            yield (*first, f" {OPERATORS[function]} ", *rest[0])
            yield (*first, f" {OPERATORS[function]} ", *rest[0], ".t()")
        else:
            passed = [piece for operand in rest for piece in (", ", *operand)][1:]
            yield (*first, f".{function}(", *passed, ")")
            yield (*first, f".{function}(", *passed, ".t())")


def _selections(operands: list[tuple[Piece, ...]], count: int) -> Iterator[tuple[tuple[Piece, ...], ...]]:
    yield from itertools.permutations(operands, count)
    if count > 1:
        yield from ((one,) * count for one in operands)
