"""Passes that do away with functions made of functions: decorators are applied, lambdas and partials called by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.bodies import on_own_lines, result_of, runs_through
from shrinkrepro.passes.common import names, patch, removal, whole, within
from shrinkrepro.passes.functions import Function, functions, parameters, without_decorator
from shrinkrepro.passes.sites import Passed, Site, copy_for, listed, names_outside, numbered, scope_of
from shrinkrepro.passes.syntax import argument, last_name, needs_parentheses, parenthesised, standalone
from shrinkrepro.program.edit import Edit, Patch, Piece, copied
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Tree

_MOST_SITES = 4


def apply_decorators(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write out what a decorator of the program's own makes of a function.

    The function takes the name that it has in the decorator, and what the decorator returns takes its name. A
    decorator that returns the function itself becomes statements after the function.

    Before:
        def doubled(function):
            def wrapper(*args):
                return function(*args) * 2
            return wrapper
        @doubled
        def add(x, y):
            return x + y
        add(1, 2)
    After:
        def function(x, y):
            return x + y
        def add(*args):
            return function(*args) * 2
        add(1, 2)

    Before:
        def listed(function):
            known.append(function)
            return function
        known = []
        @listed
        def one():
            return 1
    After:
        known = []
        def one():
            return 1
        known.append(one)
    """
    for function in functions(facts):
        if runs_through(function) and function.owner is None and len(parameters(function)) == 1:
            yield from _applied(function)


def apply_lambdas(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the body of a lambda where it is called.

    Before:
        double = lambda x: x * 2
        y = double(a + 1).sum()
    After:
        y = ((a + 1) * 2).sum()
    """
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.Lambda))):
            found = _calls_of(tree, node)
            puts = [_reduced(tree, node, call) for call in found[1]]
            edits = [put for put in puts if put is not None]
            if edits and len(edits) == len(puts):
                yield patch("call a lambda", *found[0], *edits)


def apply_partials(program: Program, facts: Facts) -> Iterator[Patch]:
    """Call the function itself instead of its `partial`, with the arguments of both.

    Before:
        scaled = functools.partial(scale, x, by=2)
        y = scaled(z)
    After:
        y = scale(x, z, by=2)
    """
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.Call))):
            if last_name(node.func) == "partial" and node.args and not node.args[0].star:
                gone, found = _calls_of(tree, node)
                if found:
                    yield patch("call a partial", *gone, *(_completed(tree, node, call) for call in found))


def _applied(function: Function) -> Iterator[Patch]:
    """The patch that writes out a decorator at each function that it decorates."""
    tree, name = function.tree, function.node.name.value
    reads = names(tree).read.get(name, ())
    decorating = [use for use in reads if isinstance(tree.parents[use], cst.Decorator)]
    if not 0 < len(reads) <= _MOST_SITES or len(decorating) < len(reads):
        return
    edits = [removal(tree, tree.statement_of[function.node])]
    for use in decorating:
        made = _decorated(function, cst.ensure_type(tree.parents[use], cst.Decorator))
        if made is None:
            return
        edits += made
    yield patch(f"apply {name}", *edits)


def _decorated(function: Function, decorator: cst.Decorator) -> list[Edit] | None:
    """The edits that write out a decorator at one function; None where that cannot be."""
    tree, target = function.tree, function.tree.parents[decorator]
    if not isinstance(target, cst.FunctionDef) or not on_own_lines(tree.statement_of[target]):
        return None
    made = _what_it_returns(function)
    if made is None and decorator is target.decorators[0]:
        return _followed(function, decorator, target)
    if made is not None and decorator is target.decorators[-1]:
        return _wrapped(function, decorator, target, made)
    return None


def _what_it_returns(function: Function) -> cst.FunctionDef | None:
    """The function inside a decorator that it returns; None when it returns what it is given, or nothing."""
    result = result_of(function)
    inside = [
        member.node
        for member in function.tree.block_of(function.node.body)
        if isinstance(member.node, cst.FunctionDef)
        and result is not None
        and result.value is not None
        and member.node.name.value == last_name(result.value)
    ]
    return inside[0] if inside else None


def _followed(function: Function, decorator: cst.Decorator, target: cst.FunctionDef) -> list[Edit] | None:
    """The edits that do after a function what its decorator does, and leave the function as it is."""
    tree, parameter = function.tree, parameters(function)[0].name
    result = result_of(function)
    if result is not None and result.value is not None and last_name(result.value) != parameter:
        return None
    lines = _lines(function, target, {parameter: target.name.value})
    return None if lines is None else [without_decorator(tree, target, decorator), *_after(tree, target, lines)]


def _wrapped(
    function: Function, decorator: cst.Decorator, target: cst.FunctionDef, made: cst.FunctionDef
) -> list[Edit] | None:
    """The edits that put after a function what its decorator makes of it, under the name that the function had."""
    tree, parameter = function.tree, parameters(function)[0].name
    statement = tree.statement_of[target]
    taken = names_outside(function, scope_of(tree, target))
    name = numbered(parameter, taken) if parameter in taken else parameter
    moved: list[Piece] = []
    for other in target.decorators:
        moved += [] if other is decorator else [statement.indent, tree.span(other), "\n"]
    start = tree.statement_of[made].span.start
    heading = Edit(Span(tree.file.path, start, start), tuple(moved))
    lines = _lines(function, target, {parameter: name, made.name.value: target.name.value}, heading)
    if lines is None or isinstance(tree.parents.get(tree.parents[target]), cst.ClassDef):
        return None
    gone = [without_decorator(tree, target, other) for other in target.decorators]
    return [*gone, Edit(tree.span(target.name), (name,)), *_after(tree, target, lines)]


def _lines(
    function: Function, target: cst.FunctionDef, settled: Mapping[str, str], *edits: Edit
) -> tuple[Piece, ...] | None:
    """The body of a decorator as it has to stand after the function that it decorates, without its `return`."""
    tree, statement = function.tree, function.tree.statement_of[target]
    copy = copy_for(function, Site(target.name, statement, scope_of(tree, target), Passed(), None), settled=settled)
    if copy is None:
        return None
    block = tree.block_of(function.node.body)
    shown = block if result_of(function) is None else block[:-1]
    return replace(copy, edits=(*copy.edits, *edits)).lines(shown, statement.indent)


def _after(tree: Tree, target: cst.FunctionDef, lines: tuple[Piece, ...]) -> list[Edit]:
    """The edit that puts lines after a function."""
    end = tree.statement_of[target].span.end
    ending = () if tree.file.text.endswith("\n", 0, end) else ("\n",)
    return [Edit(Span(tree.file.path, end, end), (*ending, *lines))] if lines else []


def _calls_of(tree: Tree, node: cst.BaseExpression) -> tuple[list[Edit], list[cst.Call]]:
    """The calls of a function that an expression makes, and the edits that take its name away, if it has one.

    No calls where it has a name and anything else is done with that.
    """
    parent = tree.parents[node]
    if isinstance(parent, cst.Call) and parent.func is node:
        return [], [parent]
    match parent:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            scope = scope_of(tree, parent)
            reads = within(tree, names(tree).read.get(name, ()), scope)
            found = [place for use in reads if isinstance(place := tree.parents[use], cst.Call) and place.func is use]
            once = len(within(tree, names(tree).bound.get(name, ()), scope)) == 1
            if once and len(found) == len(reads) <= _MOST_SITES:
                return [removal(tree, tree.statement_around(node))], found
    return [], []


def _reduced(tree: Tree, node: cst.Lambda, call: cst.Call) -> Edit | None:
    """The edit that puts the body of a lambda in the place of a call of it; None when the arguments do not fit."""
    plain = node.params.params
    if len(plain) < sum(isinstance(part, cst.Param) for part in node.params.children):
        return None
    edits: list[Edit] = []
    found = [argument(call, parameter.name.value, position) for position, parameter in enumerate(plain)]
    for parameter, arg in zip(plain, found, strict=True):
        value = parameter.default if arg is None else arg.value
        if value is None:
            return None
        uses = within(tree, names(tree).read.get(parameter.name.value, ()), node.body)
        edits += [Edit(whole(tree, use), standalone(tree, value, use)) for use in uses]
    if len(found) - found.count(None) < len(call.args):
        return None
    body = copied(whole(tree, node.body), edits)
    needed = needs_parentheses(tree, node.body, tree.parents[call])
    return Edit(whole(tree, call), ("(", *body, ")") if needed else body)


def _completed(tree: Tree, partial: cst.Call, call: cst.Call) -> Edit:
    """The edit that calls a function with what its `partial` holds and what a call of that passes."""
    function, *held = partial.args
    overridden = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    kept = [arg for arg in held if arg.keyword is None or arg.keyword.value not in overridden]
    args = sorted((*kept, *call.args), key=lambda arg: arg.keyword is not None or arg.star == "**")
    needed = needs_parentheses(tree, function.value, call)
    called = parenthesised(whole(tree, function.value), needed)
    return Edit(whole(tree, call), (*called, "(", *listed(tree, args), ")"))
