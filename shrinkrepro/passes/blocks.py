"""Passes over statements that have blocks: blocks unwrapped, clauses dropped, loops made shorter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import (
    clause_lines,
    clauses,
    from_the_end,
    joined,
    names,
    patch,
    removal,
    replaced_by_block,
    whole,
    within,
    without,
)
from shrinkrepro.passes.syntax import ATOMS, last_name, parenthesised, standalone
from shrinkrepro.program.edit import Edit, Patch, Piece, deletion
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree

_RANGE = m.Call(func=m.Name("range"))


def drop_clauses(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop `elif`, `else`, `except`, `finally` and `case` with their blocks.

    Before:
        if ready:
            start()
        else:
            wait()
    After:
        if ready:
            start()
    """
    for tree in reversed(facts.trees):
        for statement in from_the_end(tree):
            for clause in reversed(clauses(statement.node)):
                if _optional(statement.node, clause):
                    yield patch("drop a clause", deletion(clause_lines(tree, clause)))


def _optional(statement: cst.CSTNode, clause: cst.CSTNode) -> bool:
    """Whether the statement stands without the clause: a `try` needs a handler or `finally`, a `match` a case."""
    needed: Sequence[cst.CSTNode | None]
    match statement:
        case cst.Try() | cst.TryStar():
            needed = statement.handlers if statement.orelse else (*statement.handlers, statement.finalbody)
        case cst.Match():
            needed = statement.cases
        case _:
            return True
    return [part for part in needed if part] != [clause]


def unwrap_blocks(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the block of an `if`, `for`, `while`, `with` or `try` in its place: the branch that ran, one turn of a loop.

    Before:
        for step in range(3):
            if step > 5:
                break
            train(step)
    After:
        step = 0
        if step > 5:
            pass
        train(step)

    Before:
        with open(path) as file:
            read(file)
    After:
        file = open(path)
        read(file)

    Before:
        try:
            train()
        except RuntimeError as problem:
            print(problem)
    After:
        train()
    """
    for tree in reversed(facts.trees):
        for statement in from_the_end(tree):
            match statement.node:
                case cst.If() as node:
                    yield from _branches(tree, statement, node, facts)
                case cst.For(asynchronous=None) as node:
                    for heading in first_turn(tree, node, facts):
                        yield one_turn(tree, statement, node, heading)
                case cst.While() as node:
                    yield one_turn(tree, statement, node, ())
                case cst.With(asynchronous=None) as node:
                    for heading in _entering(tree, statement, node):
                        yield patch("unwrap a with", *replaced_by_block(tree, statement, node.body, heading))
                case cst.Try() | cst.TryStar() as node:
                    yield patch("unwrap a try", *replaced_by_block(tree, statement, node.body))


def drop_with_items(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop the items of a `with` one by one.

    Before:
        with no_grad(), timer():
            train()
    After:
        with no_grad():
            train()
    """
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.With))):
            for position in reversed(range(len(node.items))):
                if len(node.items) > 1:
                    yield patch("drop a with item", *without(tree, node.items, {position}))


def shorten_ranges(program: Program, facts: Facts) -> Iterator[Patch]:
    """Count to one, or else to two, wherever the program counts.

    Before:
        for step in range(warmup, steps):
            train()
    After:
        for step in range(2):
            train()
    """
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.Call))):
            if m.matches(node, _RANGE) and node.args:
                first, last = tree.span(node.args[0]), tree.span(node.args[-1])
                arguments = Span(first.path, first.start, last.end)
                for count in ("1", "2"):
                    if program.text(arguments) not in ("1", count):
                        yield patch(f"count to {count}", Edit(arguments, (count,)))


def drop_conditions(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop the conditions of comprehensions.

    Before:
        kept = [row for row in rows if row > 0]
    After:
        kept = [row for row in rows]
    """
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.CompIf))):
            span = tree.span(node)
            start = len(tree.file.text[: span.start].rstrip())
            yield patch("drop a condition", deletion(Span(span.path, start, span.end)))


def return_early(program: Program, facts: Facts) -> Iterator[Patch]:
    """Return what a function computes on the way instead of what it returns in the end.

    Before:
        def forward(x):
            h = enter(x)
            y = leave(h)
            return y
    After:
        def forward(x):
            return enter(x)
    """
    for tree in reversed(facts.trees):
        for function in reversed(list(tree.walk(cst.FunctionDef))):
            members = tree.block_of(function.body)
            if not _returns_value(tree, function):
                continue
            for position, member in enumerate(members):
                rest = members[position + 1 :]
                if facts.culprit is not None and any(facts.culprit.code in after.code for after in rest):
                    continue
                if isinstance(member.node, cst.Assign) and rest:
                    value = whole(tree, member.node.value)
                    opening = Edit(Span(value.path, member.code.start, value.start), ("return ",))
                    yield patch("return early", opening, *(removal(tree, after) for after in rest))


def _returns_value(tree: Tree, function: cst.FunctionDef) -> bool:
    results = (node for node in tree.walk(cst.Return) if node.value is not None)
    return any(tree.span(node) in tree.span(function.body) for node in results)


def _branches(tree: Tree, statement: Statement, node: cst.If, facts: Facts) -> Iterator[Patch]:
    """Patches that leave one branch of an `if`, those that ran first."""

    def idle(suite: cst.BaseSuite) -> bool:
        return not any(facts.executed(tree.file.path, line) for line in tree.lines(suite))

    for suite in sorted((node.body, *(clause.body for clause in clauses(node))), key=idle):
        yield patch("unwrap an if", *replaced_by_block(tree, statement, suite))


def one_turn(tree: Tree, statement: Statement, loop: cst.For | cst.While, heading: tuple[Piece, ...]) -> Patch:
    """The patch that leaves one turn of a loop; its `break` and `continue` become `pass`."""
    idle = [Edit(jump.code, ("pass",)) for jump in jumps(tree, loop)]
    return patch("leave one turn of a loop", *replaced_by_block(tree, statement, loop.body, heading), *idle)


def jumps(tree: Tree, loop: cst.For | cst.While) -> Iterator[Statement]:
    """The `break` and `continue` statements that belong to `loop`."""
    for statement in tree.statements:
        if isinstance(statement.node, (cst.Break, cst.Continue)) and statement.code in tree.span(loop.body):
            around = (node for node in tree.ancestors(statement.node) if isinstance(node, (cst.For, cst.While)))
            if next(around) is loop:
                yield statement


def first_turn(tree: Tree, loop: cst.For, facts: Facts) -> Iterator[tuple[Piece, ...]]:
    """What may bind the variables of a loop for one turn; nothing first, where its body reads none of them."""
    read = names(tree).read
    variables = [node for nodes in names(tree).bound.values() for node in within(tree, nodes, loop.target)]
    if not any(within(tree, read.get(variable.value, ()), loop.body) for variable in variables):
        yield ()
    if not any(variable.value in read for variable in variables):
        return
    target = whole(tree, loop.target)
    for items in first_items(tree, loop, (loop.body,), facts):
        yield (target, " = ", *joined([item.pieces(tree) for item in items], ", "))
    match loop.iter:
        case cst.Call(func=cst.Name("enumerate"), args=[cst.Arg() as argument]) if isinstance(loop.target, cst.Tuple):
            yield from _first_enumerated(tree, loop.target, argument)
    yield (target, " = next(iter(", whole(tree, loop.iter), "))")


@dataclass(frozen=True, eq=False)
class Item:
    """What stands for a variable of a loop in its only turn: an expression, or the first thing in it; or a literal."""

    node: cst.BaseExpression | str
    first: bool = False

    def pieces(self, tree: Tree, place: cst.CSTNode | None = None) -> tuple[Piece, ...]:
        """The item as it has to be written, in parentheses if it needs any in the place of `place`."""
        if isinstance(self.node, str):
            return parenthesised(self.node, place is not None and isinstance(tree.parents[place], cst.Attribute))
        if self.first:
            return (*parenthesised(whole(tree, self.node), not isinstance(self.node, ATOMS)), "[0]")
        return (whole(tree, self.node),) if place is None else standalone(tree, self.node, place)


def first_items(
    tree: Tree, loop: cst.For | cst.CompFor, inside: Sequence[cst.CSTNode], facts: Facts
) -> Iterator[tuple[Item, ...]]:
    """What may stand for each variable of a loop in its only turn; `inside` is what the loop repeats.

    That is what all turns together run through, in place of its first part, or that part, or the literals that the
    variables were.
    """
    match loop.iter, loop.target:
        case cst.Call(func=cst.Name("range"), args=arguments), _ if arguments:
            yield (Item(arguments[0].value if len(arguments) > 1 else "0"),)
        case cst.Call(func=cst.Name("enumerate"), args=[argument]), cst.Tuple(elements=[_, _]):
            yield from ((Item("0"), item) for item in _items(argument.value))
        case cst.Call(func=cst.Name("zip"), args=arguments), cst.Tuple(elements=parts) if len(parts) == len(arguments):
            yield from zip(*(_items(argument.value) for argument in arguments), strict=False)
        case ((cst.List(elements=elements) | cst.Tuple(elements=elements)), _):
            yield from ((Item(element.value),) for element in dict.fromkeys((*elements[-1:], *elements[:1])))
        case cst.Call(func=cst.Attribute(cst.Dict(elements=[*_, cst.DictElement(key, value)]), cst.Name("items"))), _:
            yield (Item(key), Item(value))
        case cst.Call(func=cst.Attribute(cst.Dict(elements=[*_, cst.DictElement(_, value)]), cst.Name("values"))), _:
            yield (Item(value),)
        case cst.Dict(elements=[*_, cst.DictElement(key, _)]), _:
            yield (Item(key),)
        case _:
            yield from ((item,) for item in _items(loop.iter))
    seen = [_seen(tree, variable, inside, facts) for variable in targets(loop.target)]
    if seen and None not in seen:
        yield tuple(Item(text) for text in seen if text is not None)


def targets(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The variables of a loop."""
    return [element.value for element in target.elements] if isinstance(target, cst.Tuple) else [target]


def _items(source: cst.BaseExpression) -> tuple[Item, ...]:
    return (Item(source), Item(source, first=True))


def _seen(tree: Tree, variable: cst.BaseExpression, inside: Sequence[cst.CSTNode], facts: Facts) -> str | None:
    """The literal that a variable was where a loop first read it; None when it was none, or nothing reads it."""
    reads = within(tree, names(tree).read.get(last_name(variable), ()), *inside)
    values = [value for use in reads if (value := facts.values(tree.file.path).get(tree.span(use))) is not None]
    return values[0].text if values and values[0].kind == "literal" else None


def _first_enumerated(tree: Tree, target: cst.Tuple, argument: cst.Arg) -> Iterator[tuple[Piece, ...]]:
    """The first turn of `for count, value in enumerate(argument)`, with and without the count."""
    if len(target.elements) == 2:
        count, value = (tree.span(element) for element in target.elements)
        yield (value, " = next(iter(", tree.span(argument), "))")
        yield (count, ", ", value, " = 0, next(iter(", tree.span(argument), "))")


def _entering(tree: Tree, statement: Statement, node: cst.With) -> Iterator[tuple[Piece, ...]]:
    """What may stand for the head of a `with`: nothing, or its names bound to its items, which nobody enters."""
    yield ()
    bindings = [
        (whole(tree, item.asname.name), " = ", whole(tree, item.item)) for item in node.items if item.asname is not None
    ]
    if bindings:
        yield joined(bindings, f"\n{statement.indent}")
