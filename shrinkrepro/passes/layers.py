"""Passes that make a network small: layers skipped, losses summed, optimizers plain."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, removal, simple, whole, without
from shrinkrepro.passes.syntax import (
    canonical,
    imported,
    last_name,
    needs_parentheses,
    parenthesised,
    plain_arguments,
    replaced,
)
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span, count_tokens
from shrinkrepro.program.tree import Tree

_CONTAINERS = frozenset({"ModuleDict", "ModuleList", "Sequential"})
_NO_LAYERS = _CONTAINERS | {"Identity", "Module", "Parameter", "ParameterDict", "ParameterList"}
# the value of these is never their first argument's kind of value
_NOT_BYPASSED = frozenset(
    {"enumerate", "getattr", "hasattr", "isinstance", "len", "print", "range", "setattr", "super", "type", "zip"}
)


def drop_layers(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take layers out of Sequential and ModuleList: half of them, then one by one.

    Before:
        net = Sequential(Linear(2, 2), ReLU(), Linear(2, 2))
    After:
        net = Sequential(Linear(2, 2), Linear(2, 2))

    Before:
        self.blocks = nn.ModuleList([Block(8), Block(8)])
    After:
        self.blocks = nn.ModuleList([Block(8)])
    """
    for tree in reversed(facts.trees):
        for call in _latest_first(tree):
            if last_name(call.func) not in _CONTAINERS:
                continue
            for items in _entries(call):
                half = (len(items) + 1) // 2
                halves = [range(half, len(items)), range(half)] if len(items) > 3 else []
                singles = [[position] for position in reversed(range(len(items)))] if len(items) > 1 else []
                for positions in (*halves, *singles):
                    yield patch("drop layers", *without(tree, items, positions))


def bypass_calls(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put what a call is given in its place: a layer is skipped, a function not called.

    Before:
        y = self.act(self.layer(x))
    After:
        y = self.layer(x)

    Before:
        y = self.act(self.layer(x))
    After:
        y = self.act(x)
    """
    for tree in reversed(facts.trees):
        for call in _latest_first(tree):
            first = plain_arguments(call)[:1]
            if not first or isinstance(tree.parents[call], (cst.Expr, cst.Decorator)):
                continue
            literal = isinstance(first[0].value, (cst.Integer, cst.Float, cst.BaseString))
            if not literal and last_name(call.func) not in _NOT_BYPASSED:
                yield patch(f"bypass {_shown(tree, call.func)}", replaced(tree, call, first[0].value))


def identity_layers(program: Program, facts: Facts) -> Iterator[Patch]:
    """Make layers, and modules of the program's own classes, an Identity.

    Before:
        from torch import nn
        layer = nn.Linear(8, 8)
    After:
        from torch import nn
        layer = nn.Identity()
    """
    own = {node.name.value for tree in facts.trees for node in tree.walk(cst.ClassDef) if node.bases}
    for tree in reversed(facts.trees):
        namespace = _nn(tree)
        for call in _latest_first(tree):
            name, full = last_name(call.func), canonical(tree, call.func) or ""
            layer = (
                full.startswith("torch.nn.") and full.count(".") == 2 and name[:1].isupper() and name not in _NO_LAYERS
            )
            identity = f"{namespace}.Identity()"
            if not namespace or not (layer or name in own) or name.endswith("Loss"):
                continue
            if _cost(identity) < _cost(tree.text(call)):
                yield patch(f"make {name} an Identity", Edit(whole(tree, call), (identity,)))


def simplest_loss(program: Program, facts: Facts) -> Iterator[Patch]:
    """Sum up the output where a loss compares it with a target.

    Before:
        loss = criterion(model(x), target)
    After:
        loss = model(x).sum()
    """
    for tree in reversed(facts.trees):
        for call in _latest_first(tree):
            first, name = plain_arguments(call)[:1], last_name(call.func).lower()
            is_loss = (
                name.endswith(("loss", "criterion", "entropy", "cosine_similarity", "kl_div")) or name == "loss_fn"
            )
            constructed = last_name(call.func)[:1].isupper()
            if first and is_loss and not constructed:
                value = first[0].value
                pieces = parenthesised(whole(tree, value), needs_parentheses(tree, value, call.func))
                if isinstance(value, (cst.Name, cst.Call, cst.Attribute, cst.Subscript)) or pieces[0] == "(":
                    yield patch(
                        f"sum instead of {_shown(tree, call.func)}", Edit(whole(tree, call), (*pieces, ".sum()"))
                    )


def plain_backward(program: Program, facts: Facts) -> Iterator[Patch]:
    """Call backward without arguments, or with `retain_graph=True` as the only one.

    Before:
        loss.backward(gradient=g, retain_graph=True)
    After:
        loss.backward()

    Before:
        loss.backward(gradient=g, retain_graph=True)
    After:
        loss.backward(retain_graph=True)
    """
    for tree in reversed(facts.trees):
        for call in _latest_first(tree):
            if last_name(call.func) != "backward" or not call.args:
                continue
            others = [i for i, arg in enumerate(call.args) if not (arg.keyword and arg.keyword.value == "retain_graph")]
            yield patch("call backward without arguments", *without(tree, call.args, range(len(call.args))))
            if 0 < len(others) < len(call.args):
                yield patch("call backward with retain_graph alone", *without(tree, call.args, others))


def sum_before_backward(program: Program, facts: Facts) -> Iterator[Patch]:
    """Sum what the last call before backward is given, in place of what it makes of that; of one number take abs.

    Complex numbers have no gradient of their sum, but of their absolute value.

    Before:
        Linear(4, 1)(cat([x, y], 1)).backward()
    After:
        cat([x, y], 1).sum().backward()

    Before:
        cat([x, y], 1).sum().backward()
    After:
        x.sum().backward()

    Before:
        view_as_real(z * w).mean().backward()
    After:
        (z * w).abs().backward()
    """
    for tree in reversed(facts.trees):
        for call in _latest_first(tree):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
                for part in _given(call.func.value):
                    pieces = parenthesised(whole(tree, part), needs_parentheses(tree, part, call.func))
                    yield patch("sum before backward", Edit(whole(tree, call.func.value), (*pieces, ".sum()")))
                    yield patch("abs before backward", Edit(whole(tree, call.func.value), (*pieces, ".abs()")))


def _given(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a call is given, lists of it taken apart; of `f(x).sum()` what `f` is given."""
    match node:
        case cst.Call(func=cst.Attribute(value=cst.Call() as inner), args=[]):
            return _given(inner)
        case cst.Call():
            found = [arg.value for arg in plain_arguments(node)]
            lists = [part for part in found if isinstance(part, (cst.List, cst.Tuple))]
            parts = [*found, *(element.value for part in lists for element in part.elements[:1])]
            return [part for part in parts if not isinstance(part, (cst.List, cst.Tuple)) and not simple(part)]
    return []


def simplest_optimizer(program: Program, facts: Facts) -> Iterator[Patch]:
    """Give optimizers nothing but the parameters, or make them SGD.

    Before:
        import torch
        opt = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.9))
    After:
        import torch
        opt = torch.optim.Adam(net.parameters())

    Before:
        import torch
        opt = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.9))
    After:
        import torch
        opt = torch.optim.SGD(net.parameters(), lr=1)
    """
    for tree in reversed(facts.trees):
        for call in _latest_first(tree):
            full, first = canonical(tree, call.func) or "", plain_arguments(call)[:1]
            if not full.startswith("torch.optim.") or full.count(".") != 2 or not first:
                continue
            if len(call.args) > 1:
                rest = range(1, len(call.args))
                yield patch("give the optimizer only the parameters", *without(tree, call.args, rest))
            if not full.endswith(".SGD") and isinstance(call.func, cst.Attribute):
                name, last = tree.span(call.func.attr), tree.span(call)
                tail = Edit(Span(name.path, whole(tree, first[0]).end, last.end), (", lr=1)",))
                yield patch("make the optimizer SGD", Edit(name, ("SGD",)), tail)


def drop_schedulers(program: Program, facts: Facts) -> Iterator[Patch]:
    """Delete learning-rate schedulers: where they are made and their steps, together.

    Before:
        import torch
        scheduler = torch.optim.lr_scheduler.StepLR(opt, 1)
        scheduler.step()
    After:
        import torch
    """
    made = [(tree, node, name) for tree in facts.trees for node, name in _schedulers(tree)]
    for name in dict.fromkeys(name for _, _, name in reversed(made)):
        edits = [removal(tree, tree.statement_of[node]) for tree, node, bound in made if bound == name]
        edits += [
            removal(tree, tree.statement_around(call))
            for tree in facts.trees
            for call in tree.walk(cst.Call)
            if isinstance(tree.parents[call], cst.Expr)
            and isinstance(call.func, cst.Attribute)
            and last_name(call.func.value) == name
        ]
        yield patch(f"delete {name}", *edits)


def _schedulers(tree: Tree) -> Iterator[tuple[cst.Assign, str]]:
    """Assignments that make a scheduler, and the name that they bind it to."""
    for node in tree.walk(cst.Assign):
        full = canonical(tree, node.value.func) if isinstance(node.value, cst.Call) else None
        if full is not None and full.startswith("torch.optim.lr_scheduler.") and len(node.targets) == 1:
            yield node, last_name(node.targets[0].target)


def _entries(call: cst.Call) -> Iterator[tuple[cst.Arg, ...] | tuple[cst.BaseElement, ...]]:
    """The lists of layers that a container is made of: its arguments, and a list or tuple passed to it."""
    if len(call.args) > 1 and all(arg.keyword is None for arg in call.args):
        yield tuple(call.args)
    for arg in call.args:
        if isinstance(arg.value, (cst.List, cst.Tuple)) and (
            isinstance(arg.value, cst.List) or len(arg.value.elements) > 2
        ):
            yield tuple(arg.value.elements)


def _cost(text: str) -> tuple[int, int]:
    return count_tokens(text), len(text)


def _nn(tree: Tree) -> str | None:
    """How the file can write `torch.nn`."""
    known = {full: name for name, full in imported(tree).items()}
    return known.get("torch.nn") or (f"{known['torch']}.nn" if "torch" in known else None)


def _latest_first(tree: Tree) -> list[cst.Call]:
    """The calls of a file: those that end last before the others, outer ones before those in their arguments."""
    return sorted(tree.walk(cst.Call), key=lambda call: (-tree.span(call).end, tree.span(call).start))


def _shown(tree: Tree, node: cst.CSTNode) -> str:
    return " ".join(tree.text(node).split())[:40]
