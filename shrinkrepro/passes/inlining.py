"""Passes that do away with functions: their bodies go where they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.bodies import grad_mode, idle, movable_with_mode, own, portable, result_of, returns
from shrinkrepro.passes.common import patch, removal, whole
from shrinkrepro.passes.functions import Function, calls, functions, parameters
from shrinkrepro.passes.sites import (
    Binding,
    Copy,
    Passed,
    Site,
    copy_for,
    dropped,
    passed_by,
    receiver_of,
    site_of,
    through_super,
)
from shrinkrepro.passes.syntax import dotted
from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import Statement, Tree

_MOST_SITES = 4
_MOST_WAYS = 2


def inline_functions(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the body of a function or method wherever it is called, and delete the function.

    What is passed by name goes where the parameters are read, the rest is assigned first; variables get new names
    where the caller uses the same. Where the body branches, each call may keep one of the branches that ran. Of a write
    that is responsible for the failure, one copy is kept. A decorator that switches gradients becomes a `with`.

    Before:
        def scale(x, by):
            y = x * by
            return y.exp()
        y = 1
        z = scale(w + 1, 2).sum()
    After:
        y = 1
        x = w + 1
        y_1 = x * 2
        z = y_1.exp().sum()

    Before:
        class Net:
            def forward(self, x):
                return self.layer(x)
            size = 1
        net = Net()
        y = net(x) + net(y)
    After:
        class Net:
            size = 1
        net = Net()
        y = net.layer(x) + net.layer(y)

    Before:
        def scale(x, by):
            if by == 1:
                return x
            return x * by
        w = 1
        y = scale(w, 1)
        z = scale(w, 2)
    After:
        w = 1
        y = w
        z = w * 2
    """
    for function in functions(facts):
        if movable_with_mode(function):
            sites = _sites(function, facts)
            for plan in _plans(function, sites, facts):
                yield from _inlined(function, sites, plan, facts)


def inline_properties(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the bodies of a property wherever it is read and assigned.

    Before:
        class Net:
            @property
            def scale(self):
                return self.by * 2
            @scale.setter
            def scale(self, by):
                self.by = by
            size = 1
        net = Net()
        net.scale = 3
        y = net.scale + 1
    After:
        class Net:
            size = 1
        net = Net()
        net.by = 3
        y = (net.by * 2) + 1
    """
    for getter in functions(facts):
        if getter.owner is not None and [dotted(d.decorator) for d in getter.node.decorators] == ["property"]:
            yield from _property_inlined(getter, getter.owner, facts)


def _property_inlined(getter: Function, owner: cst.ClassDef, facts: Facts) -> Iterator[Patch]:
    """The patch that does away with a property, its setter included."""
    tree, name = getter.tree, getter.node.name.value
    same = [node for node in owner.body.body if isinstance(node, cst.FunctionDef) and node.name.value == name]
    setter = next((Function(tree, node, owner) for node in same if node is not getter.node), None)
    uses = [use for use in tree.walk(cst.Attribute) if use.attr.value == name]
    written = [use for use in uses if isinstance(tree.parents[use], (cst.AssignTarget, cst.AugAssign))]
    if len(same) > 2 or not all(portable(Function(tree, node, owner)) for node in same):
        return
    if len(uses) > _MOST_SITES or any(tree.span(use) in tree.span(node) for use in uses for node in same):
        return
    edits: list[Edit] | None = [removal(tree, tree.statement_of[node]) for node in same]
    for use in uses:
        made = _set_at(setter, use) if use in written else _got_at(getter, use, facts)
        edits = None if edits is None or made is None else edits + made
    if edits is not None:
        yield patch(f"inline {name}", *edits)


def _got_at(getter: Function, use: cst.Attribute, facts: Facts) -> list[Edit] | None:
    """The edits that put the body of a property where it is read; None when it cannot stand there."""
    site = site_of(getter.tree, use, Passed(), use.value)
    return None if site is None else _at_statement(getter, [site], _Plan(), facts)


def _set_at(setter: Function | None, use: cst.Attribute) -> list[Edit] | None:
    """The edit that puts the body of a setter where the property is assigned; None when it cannot stand there."""
    listed = [] if setter is None else parameters(setter)
    statement = None if setter is None else setter.tree.statement_around(use)
    if setter is None or statement is None or len(listed) != 1 or returns(setter.tree, setter.node.body):
        return None
    match statement.node:
        case cst.Assign(targets=[_], value=value):
            site = site_of(setter.tree, value, Passed((Binding((listed[0].name,), value),)), use.value)
            copy = None if site is None else copy_for(setter, site)
            if copy is not None:
                body = setter.tree.block_of(setter.node.body)
                return [Edit(statement.span, (*copy.heading, *copy.lines(body, statement.indent)))]
    return None


def _sites(function: Function, facts: Facts) -> tuple[Site, ...]:
    """Every call in sight, in the order of evaluation; none when the body cannot be put at one of them.

    That of a constructor only goes into those of derived classes.
    """
    tree, constructs = function.tree, function.node.name.value == "__init__"
    found = []
    for where, call in calls(function, facts):
        if constructs and not through_super(call):
            return ()
        inside = where is tree and tree.span(call) in tree.span(function.node)
        site = site_of(tree, call, passed_by(function, call), receiver_of(function, call)) if where is tree else None
        if site is None or inside:
            return ()
        found.append(site)
    return tuple(sorted(found, key=lambda site: tree.span(site.use).end)) if len(found) <= _MOST_SITES else ()


@dataclass(frozen=True, eq=False)
class _Plan:
    """What the copies of a body have that another has not.

    Only `kept` keeps the statement responsible for the failure; None: all do. At each site of `ways`, every `if` whose
    branches both ran gives way to its first branch, or to what runs otherwise; at other sites it stays.
    """

    kept: Site | None = None
    ways: Mapping[Site, bool] = field(default_factory=dict)


def _plans(function: Function, sites: Sequence[Site], facts: Facts) -> Iterator[_Plan]:
    """How to put the body of a function at its sites, the smallest result first."""
    if 0 < len(sites) <= _MOST_WAYS and _branches_both_ran(function, facts):
        for ways in product((True, False), repeat=len(sites)):
            yield _Plan(ways=dict(zip(sites, ways, strict=True)))
    culprit = facts.culprit
    if len(sites) > 1 and culprit is not None and culprit.code in function.tree.span(function.node.body):
        yield from (_Plan(kept=sites[-1]), _Plan(kept=sites[0]))
    elif sites:
        yield _Plan()


def _branches_both_ran(function: Function, facts: Facts) -> bool:
    """Whether some `if` of a function went one way in one call and the other way in another."""
    tree = function.tree
    for node in own(tree, function.node.body, cst.If):
        suite = tree.parents[node]
        block = tree.block_of(suite) if isinstance(suite, cst.IndentedBlock) and returns(tree, node) else ()
        if _forks(tree, node, [member for member in block if member.code.start > tree.span(node).start], facts):
            return True
    return False


def _forks(tree: Tree, node: cst.If, rest: Sequence[Statement], facts: Facts) -> bool:
    """Whether both the branch of an `if` and what runs otherwise, `rest` where it has no `else`, ran."""
    otherwise = [node.orelse] if node.orelse is not None else [statement.node for statement in rest]
    return _ran(tree, [node.body], facts) and _ran(tree, otherwise, facts)


def _ran(tree: Tree, nodes: Sequence[cst.CSTNode], facts: Facts) -> bool:
    return any(facts.executed(tree.file.path, line) for node in nodes for line in tree.lines(node))


def _inlined(function: Function, sites: Sequence[Site], plan: _Plan, facts: Facts) -> Iterator[Patch]:
    """The patch that puts the body of a function at all sites."""
    tree = function.tree
    edits = [removal(tree, tree.statement_of[function.node])]
    for _, here in groupby(sorted(sites, key=_place), key=_place):
        made = _at_statement(function, list(here), plan, facts)
        if made is None:
            return
        edits += made
    yield patch(f"inline {function.node.name.value}", *edits)


def _place(site: Site) -> int:
    return site.statement.code.start


def _at_statement(function: Function, sites: Sequence[Site], plan: _Plan, facts: Facts) -> list[Edit] | None:
    """The edits that put the body of a function at each of its uses in one statement; None when that cannot be."""
    copies: list[Copy] = []
    for site in sites:
        taken = {name for copy in copies for name in copy.names.values()}
        copy = copy_for(function, site, taken)
        if copy is None:
            return None
        copies.append(copy if plan.kept in (None, site) else _without_culprit(copy, facts))
    tree, mode = function.tree, grad_mode(function)
    straight = result_of(function) is not None or not returns(tree, function.node.body)
    if straight and mode is None and not any(site in plan.ways for site in sites):
        return _before(function, sites, copies)
    statement = sites[0].statement
    if len(sites) > 1 or statement.compound:
        return None
    writer = _Branches(copies[0], sites[0], plan.ways.get(sites[0]), facts)
    head = () if mode is None else (statement.indent, "with ", whole(tree, mode), ":\n")
    deeper = statement.indent if mode is None else f"{statement.indent}    "
    body = writer.block(tree.block_of(function.node.body), deeper)
    return [Edit(statement.span, (*copies[0].heading, *head, *body))]


def _without_culprit(copy: Copy, facts: Facts) -> Copy:
    """The copy without the statement that is responsible for the failure."""
    culprit = facts.culprit
    if culprit is None or culprit.compound or isinstance(culprit.node, cst.Return):
        return copy
    return replace(copy, edits=(*copy.edits, dropped(culprit)))


def _before(function: Function, sites: Sequence[Site], copies: Sequence[Copy]) -> list[Edit]:
    """The edits that put a body which runs from top to bottom before a statement, and its results into the calls."""
    tree, result = function.tree, result_of(function)
    value = None if result is None else result.value
    body = tree.block_of(function.node.body)
    statement, edits = sites[0].statement, []
    before: tuple[Piece, ...] = ()
    for site, copy in zip(sites, copies, strict=True):
        lines = copy.lines(body if result is None else body[:-1], statement.indent)
        before = (*before, *copy.heading, *lines)
        pieces: tuple[Piece, ...] = ("None",) if value is None else copy.expression(value, site.use)
        edits.append(Edit(whole(tree, site.use), pieces))
    if is_statement(sites[0]) and idle(value):
        return [Edit(statement.span, before) if before else removal(tree, statement)]
    return [*edits, Edit(replace(statement.span, end=statement.span.start), before)] if before else edits


def is_statement(site: Site) -> bool:
    """Whether a call is a statement of its own, whose value goes nowhere."""
    return isinstance(site.statement.node, cst.Expr) and site.statement.node.value is site.use


@dataclass(frozen=True, eq=False)
class _Branches:
    """Writes the body of a function that returns in several places: each `return` becomes the statement of the site.

    Of an `if` that has a `return` in it, the branches that ran stay; what follows it goes into each of them. With a
    `way`, only one branch of an `if` stays: the first, or what runs otherwise.
    """

    copy: Copy
    site: Site
    way: bool | None
    facts: Facts

    def block(self, statements: Sequence[Statement], indent: str) -> tuple[Piece, ...]:
        """The lines of the statements, up to a `return`; `pass` where nothing is left."""
        return self._lines(statements, indent) or (indent, "pass\n")

    def _lines(self, statements: Sequence[Statement], indent: str) -> tuple[Piece, ...]:
        tree = self.copy.tree
        for position, statement in enumerate(statements):
            node, before = statement.node, self.copy.lines(statements[:position], indent)
            if isinstance(node, cst.Return):
                return (*before, *self._end(node.value, indent))
            rest = statements[position + 1 :]
            if isinstance(node, cst.If) and (returns(tree, node) or self._parts_here(node)):
                return (*before, *self._branches(node, rest, indent))
            if isinstance(node, cst.With) and returns(tree, node.body):
                head = self.copy.part(tree.header(node))
                return (*before, indent, *head, "\n", *self.block(tree.block_of(node.body), f"{indent}    "))
        return (*self.copy.lines(statements, indent), *self._end(None, indent))

    def _branches(self, node: cst.If, rest: Sequence[Statement], indent: str) -> tuple[Piece, ...]:
        """The branches of an `if` that ran, each with the statements that follow."""
        tree = self.copy.tree
        taken = _ran(tree, [node.body], self.facts)
        forks = taken and _forks(tree, node, rest, self.facts)
        if (self.way and forks) or (taken and not forks):
            return self.block((*tree.block_of(node.body), *rest), indent)
        taken = taken and self.way is None
        deeper = f"{indent}    "
        otherwise = self._otherwise(node.orelse, rest, deeper if taken else indent)
        if not taken:
            return otherwise
        body = self.block((*tree.block_of(node.body), *rest), deeper)
        return (indent, "if ", *self.copy.expression(node.test), ":\n", *body, indent, "else:\n", *otherwise)

    def _otherwise(self, clause: cst.If | cst.Else | None, rest: Sequence[Statement], indent: str) -> tuple[Piece, ...]:
        """What runs where the condition of an `if` does not hold, with the statements that follow."""
        if isinstance(clause, cst.If):
            return self._branches(clause, rest, indent)
        return self.block((*(self.copy.tree.block_of(clause.body) if clause else ()), *rest), indent)

    def _parts_here(self, node: cst.If) -> bool:
        return self.way is not None and _forks(self.copy.tree, node, (), self.facts)

    def _end(self, value: cst.BaseExpression | None, indent: str) -> tuple[Piece, ...]:
        """The statement of the site, with a value in place of the call."""
        code, use = self.site.statement.code, whole(self.copy.tree, self.site.use)
        if is_statement(self.site) and idle(value):
            return ()
        pieces = ("None",) if value is None else self.copy.expression(value, self.site.use)
        return (indent, replace(code, end=use.start), *pieces, replace(code, start=use.end), "\n")
