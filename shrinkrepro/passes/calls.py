"""Passes that make calls shorter: fewer arguments, methods of tensors in place of long function names."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, whole, without
from shrinkrepro.passes.syntax import canonical, needs_parentheses, parenthesised
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span

# Modules whose functions tensors often have as methods too.
_FUNCTIONAL = ("torch", "torch.nn.functional")


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
            span, receiver = whole(tree, call), whole(tree, first.value)
            opening = parenthesised(
                receiver, needs_parentheses(tree, first.value, cst.Attribute(first.value, cst.Name(method)))
            )
            start = whole(tree, rest[0]).start if rest else tree.span(call).end - 1
            yield patch(
                f"call {method} as a method",
                Edit(span, (*opening, f".{method}(", Span(span.path, start, tree.span(call).end))),
            )


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
            method, first = name.rpartition(".")[2].lower(), call.args[0].value
            opening = parenthesised(
                whole(tree, first), needs_parentheses(tree, first, cst.Attribute(first, cst.Name(method)))
            )
            yield patch(f"call {method} as a method", Edit(whole(tree, call), (*opening, f".{method}()")))
