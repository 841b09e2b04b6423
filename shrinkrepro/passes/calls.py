"""Passes that make calls shorter: fewer arguments, methods of tensors in place of long function names."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, whole, without
from shrinkrepro.passes.syntax import OPERATORS, canonical, last_name, needs_parentheses, parenthesised
from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Tree

# Modules whose functions tensors often have as methods too.
_FUNCTIONAL = ("torch", "torch.nn.functional", "torch.Tensor")


def drop_arguments(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take arguments out of calls: all of a call's at once, then the later half, then one by one.

    Before:
        y = f(a, b, key=c)
    After:
        y = f(a, b)
    """
    for tree in reversed(facts.trees):
        for call in sorted(tree.walk(cst.Call), key=lambda node: -tree.span(node).start):
            count = len(call.args)
            groups = [range(count), range(count // 2, count)] if count > 2 else []
            for positions in (*groups, *([position] for position in reversed(range(count)))):
                yield patch("drop arguments", *without(tree, call.args, positions))


def function_to_method(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write a function of PyTorch's as the method of its first argument.

    Before:
        import torch
        y = torch.nn.functional.relu(x)
    After:
        import torch
        y = x.relu()
    """
    for tree in reversed(facts.trees):
        for call in sorted(tree.walk(cst.Call), key=lambda node: -tree.span(node).start):
            name = canonical(tree, call.func)
            module, _, method = (name or "").rpartition(".")
            if module not in _FUNCTIONAL or not call.args or call.args[0].star or call.args[0].keyword:
                continue
            first, *rest = call.args
            span, opening = whole(tree, call), _receiver(tree, first.value)
            start = whole(tree, rest[0]).start if rest else tree.span(call).end - 1
            closing = Span(span.path, start, tree.span(call).end)
            yield patch(f"call {method} as a method", Edit(span, (*opening, f".{method}(", closing)))
            if not rest:  # methods demand a dimension where functions of old guess one
                yield patch(f"call {method} as a method", Edit(span, (*opening, f".{method}(0)")))


def module_to_method(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write a call of a module made on the spot as the method of what it is called with.

    Before:
        import torch
        y = torch.nn.Sigmoid()(x)
    After:
        import torch
        y = x.sigmoid()
    """
    for tree in reversed(facts.trees):
        for call in sorted(tree.walk(cst.Call), key=lambda node: -tree.span(node).start):
            if not isinstance(call.func, cst.Call) or len(call.args) != 1 or call.args[0].keyword or call.args[0].star:
                continue
            name = canonical(tree, call.func.func) or ""
            if not name.startswith("torch.nn."):
                continue
            method = name.rpartition(".")[2].lower()
            opening = _receiver(tree, call.args[0].value)
            yield patch(f"call {method} as a method", Edit(whole(tree, call), (*opening, f".{method}()")))


def map_to_calls(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write the calls that `map` makes for the items of a list or tuple.

    Before:
        y = list(map(f, [x]))
    After:
        y = list([f(x)])
    """
    for tree in reversed(facts.trees):
        for call in sorted(tree.walk(cst.Call), key=lambda node: -tree.span(node).start):
            if last_name(call.func) != "map" or len(call.args) != 2 or any(arg.star for arg in call.args):
                continue
            function, items = (arg.value for arg in call.args)
            if isinstance(items, cst.List | cst.Tuple) and all(isinstance(e, cst.Element) for e in items.elements):
                made = [(*_receiver(tree, function), "(", whole(tree, item.value), ")") for item in items.elements]
                pieces = [piece for one in made for piece in (", ", *one)][1:]
                yield patch("call what is mapped", Edit(whole(tree, call), ("[", *pieces, "]")))


def method_to_operator(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write a method of tensors as the operator that it stands for.

    Before:
        y = x.mul(a + b)
    After:
        y = x * (a + b)
    """
    for tree in reversed(facts.trees):
        for call in sorted(tree.walk(cst.Call), key=lambda node: -tree.span(node).start):
            operator = OPERATORS.get(last_name(call.func))
            if operator is None or not isinstance(call.func, cst.Attribute) or len(call.args) != 1:
                continue
            argument = call.args[0]
            if argument.keyword is not None or argument.star:
                continue
            sides = [
                parenthesised(whole(tree, side), needs_parentheses(tree, side, None))
                for side in (call.func.value, argument.value)
            ]
            text: tuple[Piece, ...] = (*sides[0], f" {operator} ", *sides[1])
            inner = not isinstance(tree.parents[call], (cst.Arg, cst.Assign, cst.Expr, cst.Return))
            yield patch(f"write {operator}", Edit(whole(tree, call), ("(", *text, ")") if inner else text))


def keywords_to_positions(program: Program, facts: Facts) -> Iterator[Patch]:
    """Pass arguments by position: all of a call's at once, then the first keyword alone.

    Before:
        y = f(a, size=2, dim=1)
    After:
        y = f(a, 2, 1)
    """
    for tree in reversed(facts.trees):
        for call in sorted(tree.walk(cst.Call), key=lambda node: -tree.span(node).start):
            named = [
                Edit(Span(tree.file.path, tree.span(arg.keyword).start, whole(tree, arg.value).start))
                for arg in call.args
                if arg.keyword is not None
            ]
            if len(named) > 1:
                yield patch("pass by position", *named)
            if named:
                yield patch("pass by position", named[0])


def _receiver(tree: Tree, value: cst.BaseExpression) -> tuple[Piece, ...]:
    """The pieces that put a copy of an expression before the dot of a method, or the arguments of a call."""
    place = cst.Attribute(value, cst.Name("method"))
    return parenthesised(whole(tree, value), needs_parentheses(tree, value, place))
