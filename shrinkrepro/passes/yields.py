"""Passes that do away with generators and context managers of the program: their bodies go where they are used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.blocks import jumps, one_turn
from shrinkrepro.passes.bodies import idle, members, on_own_lines, own, result_of, runs_through
from shrinkrepro.passes.common import names, patch, removal, whole, within
from shrinkrepro.passes.functions import Function, calls, functions, instances, parameters
from shrinkrepro.passes.sites import (
    Copy,
    Passed,
    Site,
    copy_for,
    numbered,
    passed_by,
    receiver_of,
    scope_of,
    self_of,
    site_of,
)
from shrinkrepro.passes.syntax import dotted, last_name
from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Tree

_ITERATES = m.Name("iter") | m.Name("next")


def yields_to_returns(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take the first value of a generator, which becomes a function that returns it.

    Before:
        def rows():
            for i in range(3):
                yield i + 1
        for row in rows():
            print(row)
    After:
        def rows():
            for i in range(3):
                return i + 1
        row = rows()
        print(row)

    Before:
        def rows():
            yield 1
        row = next(iter(rows()))
    After:
        def rows():
            return 1
        row = rows()
    """
    for function in functions(facts):
        yields = _yields(function)
        sites = calls(function, facts)
        if yields and not function.node.decorators and sites and all(_values_taken(*site) for site in sites):
            edits = [edit for tree, call in sites for edit in _first_taken(tree, call)]
            edits += [_returning(function.tree, found) for found in yields]
            yield patch(f"return the first value of {function.node.name.value}", *edits)


def inline_generators(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the body of a loop over a generator where the generator yields, and all that in the place of the loop.

    The block of a `with` that a generator manages goes there likewise.

    Before:
        def rows(count):
            for i in range(count):
                yield i + 1
                print(i)
        total = 0
        for row in rows(3):
            total += row
    After:
        total = 0
        for i in range(3):
            row = i + 1
            total += row
            print(i)

    Before:
        from contextlib import contextmanager
        @contextmanager
        def shown(x):
            print(x)
            yield x + 1
            print(x)
        with shown(1) as y:
            print(y)
    After:
        from contextlib import contextmanager
        print(1)
        y = 1 + 1
        print(y)
        print(1)
    """
    for function in functions(facts):
        yields = _yields(function)
        manages = [last_name(decorator.decorator) for decorator in function.node.decorators] == ["contextmanager"]
        if len(yields) == 1 and (manages or not function.node.decorators):
            yield from _around(function, yields[0], _uses(function, facts), manages)


def inline_managers(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write out what an object does when a `with` enters and leaves it, and delete the methods for that.

    Before:
        class Shown:
            def __enter__(self):
                print(self.name)
                return self
            def __exit__(self, *problem):
                print(self.end)
        with Shown() as shown:
            print(1)
    After:
        class Shown:
            pass
        shown = Shown()
        print(shown.name)
        print(1)
        print(shown.end)
    """
    for enter in functions(facts):
        if enter.owner is not None and enter.node.name.value == "__enter__" and runs_through(enter):
            for leave in functions(facts):
                if leave.owner is enter.owner and leave.node.name.value == "__exit__" and runs_through(leave):
                    yield from _entered(enter, leave, facts)


def _yields(function: Function) -> list[cst.Yield]:
    """Every `yield` of a function, in order; none when some are part of a larger expression, or the body is special."""
    node, tree = function.node, function.tree
    if node.asynchronous is not None or not isinstance(node.body, cst.IndentedBlock) or not members(tree, node.body):
        return []
    found = own(tree, node.body, cst.Yield)
    alone = all(isinstance(tree.parents[yielding], cst.Expr) for yielding in found)
    special = any(own(tree, node.body, kind) for kind in (cst.Return, cst.Global, cst.Nonlocal, cst.From))
    return found if alone and not special else []


def _returning(tree: Tree, yielding: cst.Yield) -> Edit:
    """The edit that makes a `return` of a `yield`."""
    span = tree.span(yielding)
    return Edit(replace(span, end=span.start + len("yield")), ("return",))


def _values_taken(tree: Tree, call: cst.Call) -> bool:
    """Whether a generator is made to take values out of it: by a loop, or by `next`."""
    parent = tree.parents[call]
    if isinstance(parent, cst.For):
        return parent.iter is call and parent.asynchronous is None and parent.orelse is None
    return _taken_by_next(tree, call) is not None


def _taken_by_next(tree: Tree, call: cst.Call) -> cst.Call | None:
    """The call `next(f())` or `next(iter(f()))` around the call of a generator."""
    around: cst.CSTNode = call
    while m.matches(tree.parents[around], m.Arg()):
        outer = tree.parents[tree.parents[around]]
        if not isinstance(outer, cst.Call) or len(outer.args) != 1 or not m.matches(outer.func, _ITERATES):
            return None
        if last_name(outer.func) == "next":
            return outer
        around = outer
    return None


def _first_taken(tree: Tree, call: cst.Call) -> Sequence[Edit]:
    """The edits that take what a function returns where the values of a generator were taken."""
    taking = _taken_by_next(tree, call)
    if taking is not None:
        return [Edit(whole(tree, taking), (whole(tree, call),))]
    loop = cst.ensure_type(tree.parents[call], cst.For)
    heading = (whole(tree, loop.target), " = ", whole(tree, call))
    return one_turn(tree, tree.statement_of[loop], loop, heading).edits


def _uses(function: Function, facts: Facts) -> list[Site]:
    """Where a generator is called, or the object whose `__iter__` it is; none when some of it is out of reach."""
    tree = function.tree
    if function.owner is not None and function.node.name.value == "__iter__":
        made, known = function.owner.name.value, instances(function.owner.name.value, facts)
        loops = [loop.iter for loop in tree.walk(cst.For)]
        over = [i for i in loops if last_name(i) in known or (isinstance(i, cst.Call) and last_name(i.func) == made)]
        sites = [site_of(tree, use, Passed(), use) for use in over]
    else:
        found = calls(function, facts)
        if any(where is not tree for where, _ in found):
            return []
        sites = [site_of(tree, call, passed_by(function, call), receiver_of(function, call)) for _, call in found]
    fitting = [site for site in sites if site is not None]
    return fitting if len(fitting) == len(sites) else []


@dataclass(frozen=True)
class _Head:
    """What the head of a loop or `with` binds: once, in lines before it, and to each value that a generator yields."""

    before: tuple[Piece, ...]
    target: Span | None


def _around(function: Function, yielding: cst.Yield, sites: Sequence[Site], manages: bool) -> Iterator[Patch]:
    """The patch that puts the block of the only loop or `with` that uses a generator where that yields."""
    tree = function.tree
    if len(sites) != 1 or tree.span(sites[0].use) in tree.span(function.node):
        return
    site, node = sites[0], sites[0].statement.node
    if manages and isinstance(node, cst.With):
        head = _head_of_with(tree, site, node)
    elif not manages and isinstance(node, cst.For):
        head = _head_of_loop(tree, site, node)
    else:
        return
    copy, block = copy_for(function, site), members(tree, node.body)
    if head is None or copy is None or block is None:
        return
    own = tree.block_of(function.node.body)
    place = tree.statement_around(yielding)
    indent = site.statement.indent + place.indent[len(own[0].indent) :]
    once = not tree.inside(yielding, cst.For, cst.While)
    out = [Edit(jump.code, ("pass",)) for jump in jumps(tree, node)] if isinstance(node, cst.For) and once else []
    body = Copy(tree, (), tuple(out), {}).lines(block, indent)
    value = _bound(copy, head.target, yielding.value, indent)
    around = replace(copy, edits=(*copy.edits, Edit(place.span, (*value, *body)))).lines(own, site.statement.indent)
    put = Edit(site.statement.span, (*head.before, *copy.heading, *around))
    yield patch(f"inline {function.node.name.value}", removal(tree, tree.statement_of[function.node]), put)


def _head_of_with(tree: Tree, site: Site, node: cst.With) -> _Head | None:
    """The head of `with f() as x`; None where the `with` has other items."""
    if len(node.items) != 1 or node.items[0].item is not site.use or node.asynchronous is not None:
        return None
    named = node.items[0].asname
    return _Head((), None if named is None else whole(tree, named.name))


def _head_of_loop(tree: Tree, site: Site, node: cst.For) -> _Head | None:
    """The head of `for x in f()` or, with a count that stays 0, of `for i, x in enumerate(f())`."""
    if node.asynchronous is not None or node.orelse is not None:
        return None
    if node.iter is site.use:
        return _Head((), whole(tree, node.target))
    match node.iter, node.target:
        case cst.Call(func=cst.Name("enumerate"), args=[arg]), cst.Tuple(elements=[count, value]):
            if arg.value is site.use:
                before = (site.statement.indent, tree.span(count.value), " = 0\n")
                return _Head(before, whole(tree, value.value))
    return None


def _bound(copy: Copy, target: Span | None, value: cst.CSTNode | None, indent: str) -> tuple[Piece, ...]:
    """The line that assigns a value out of the body of a function; without a target the line that computes it."""
    if not isinstance(value, cst.BaseExpression):
        return () if target is None else (indent, target, " = None\n")
    if target is not None:
        return (indent, target, " = ", *copy.expression(value), "\n")
    return () if idle(value) else (indent, *copy.expression(value), "\n")


def _entered(enter: Function, leave: Function, facts: Facts) -> Iterator[Patch]:
    """The patch that puts the bodies of `__enter__` and `__exit__` around the block of the only `with` of a class."""
    tree, owner = enter.tree, enter.owner
    assert owner is not None
    known = instances(owner.name.value, facts)
    found = [node for node in tree.walk(cst.With) if any(_makes(item.item, owner, known) for item in node.items)]
    passed = [within(tree, names(tree).read.get(p.name, ()), leave.node.body) for p in parameters(leave)]
    if len(found) != 1 or any(passed):
        return
    node, statement = found[0], tree.statement_of[found[0]]
    block = members(tree, node.body)
    if len(node.items) != 1 or block is None or not on_own_lines(statement):
        return
    item, indent = node.items[0], statement.indent
    here, before = _object(tree, item, enter, indent)
    site = Site(item.item, statement, scope_of(tree, node), Passed(), None)
    entering = copy_for(enter, site, (), here)
    leaving = copy_for(leave, site, () if entering is None else entering.names.values(), here)
    if entering is None or leaving is None:
        return
    result = result_of(enter)
    named = None if item.asname is None or whole(tree, item.asname.name) == here else whole(tree, item.asname.name)
    value = _bound(entering, named, None if result is None else result.value, indent)
    lines = (*before, *_through(entering, enter, indent), *value)
    body = Copy(tree, (), (), {}).lines(block, indent)
    put = Edit(statement.span, (*lines, *body, *_through(leaving, leave, indent)))
    gone = [removal(tree, tree.statement_of[method.node]) for method in (enter, leave)]
    yield patch(f"write out what {owner.name.value} manages", *gone, put)


def _makes(node: cst.BaseExpression, owner: cst.ClassDef, known: Collection[str]) -> bool:
    """Whether an expression is an object of a class: a call of the class, or one of its `known` objects."""
    made = isinstance(node, cst.Call) and last_name(node.func) == owner.name.value
    return made or (dotted(node) is not None and last_name(node) in known)


def _object(tree: Tree, item: cst.WithItem, enter: Function, indent: str) -> tuple[Piece, tuple[Piece, ...]]:
    """The name of the object that a `with` enters, and the line that makes the object, if it has no name yet."""
    if dotted(item.item) is not None:
        return whole(tree, item.item), ()
    result, known = result_of(enter), names(tree)
    itself = result is not None and result.value is not None and dotted(result.value) == self_of(enter)
    if itself and item.asname is not None:
        here: Piece = whole(tree, item.asname.name)
    else:
        wanted = last_name(cst.ensure_type(item.item, cst.Call).func).lower()
        taken = {*known.read, *known.bound}
        here = numbered(wanted, taken) if wanted in taken else wanted
    return here, (indent, here, " = ", whole(tree, item.item), "\n")


def _through(copy: Copy, function: Function, indent: str) -> tuple[Piece, ...]:
    """The lines of a body that runs from top to bottom, without the `return` at its end."""
    block = copy.tree.block_of(function.node.body)
    return copy.lines(block if result_of(function) is None else block[:-1], indent)
