"""Passes that do away with classes: attributes become variables; a class that adds nothing gives way to its base."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.bodies import members, own
from shrinkrepro.passes.common import names, patch, removal, replaced_by_block, whole, within, without
from shrinkrepro.passes.functions import Function, calls, instances, listed_parameters, parameters
from shrinkrepro.passes.sites import (
    Copy,
    Site,
    copy_for,
    local_names,
    passed_by,
    reads_of_self,
    self_of,
    site_of,
    uses_of_self,
)
from shrinkrepro.passes.syntax import argument, dotted, imported, last_name
from shrinkrepro.program.edit import Edit, Patch, Piece, deletion
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree

_INITIALISES_BASE = m.Expr(m.Call(m.Attribute(m.Call(m.Name("super")), m.Name("__init__"))))
_REGISTERS = m.Expr(
    m.Call(
        m.Attribute(m.Name(), m.Name("register_buffer") | m.Name("register_parameter")),
        args=[m.Arg(m.SimpleString(), keyword=None), m.Arg(keyword=None), m.ZeroOrMore()],
    )
)
_MOST_SITES = 4


def dissolve_classes(program: Program, facts: Facts) -> Iterator[Patch]:
    """Make variables of the attributes of objects, when their class has nothing but a constructor, or fields.

    Before:
        class Net(Module):
            def __init__(self, size):
                super().__init__()
                self.layer = Linear(size, size)
        net = Net(4)
        y = net.layer(x)
    After:
        layer = Linear(4, 4)
        y = layer(x)

    Before:
        @dataclass
        class Config:
            size: int = 4
            rate: float = 0.1
        config = Config(size=2)
        x = ones(config.size)
    After:
        size = 2
        x = ones(size)
    """
    for tree in reversed(facts.trees):
        for owner in reversed(list(tree.walk(cst.ClassDef))):
            function = _constructor(tree, owner)
            if function is not None:
                yield from _dissolved(function, owner, facts)
            elif (fields := _fields(owner)) is not None:
                yield from _spelled_out(tree, owner, fields)


def classes_to_bases(program: Program, facts: Facts) -> Iterator[Patch]:
    """Use the base of a class that adds nothing to it, or only chooses what its constructor gets.

    Before:
        class Net(Sequential):
            def __init__(self, size):
                super().__init__(Linear(size, size), Tanh())
        net = Net(4)
    After:
        net = Sequential(Linear(4, 4), Tanh())

    Before:
        class Net(Module):
            pass
        net = Net()
    After:
        net = Module()
    """
    for tree in reversed(facts.trees):
        for owner in reversed(list(tree.walk(cst.ClassDef))):
            if len(owner.bases) == 1 and not owner.keywords and not owner.decorators:
                function = _constructor(tree, owner)
                if function is not None:
                    yield from _base_called(function, owner, facts)
                elif _empty(owner):
                    yield _base_named(tree, owner)


def objects_to_functions(program: Program, facts: Facts) -> Iterator[Patch]:
    """Use a function where an object was only called: the one method of its class, or the part that it calls itself.

    Before:
        class Wave(Module):
            def forward(self, x):
                return x.sin()
        y = checkpoint(Wave(), x)
    After:
        def Wave(x):
            return x.sin()
        y = checkpoint(Wave, x)

    Before:
        class Net(Module):
            def __init__(self, size):
                super().__init__()
                self.layer = Linear(size, size)
            def forward(self, x):
                return self.layer(x)
        y = checkpoint(Net(4), x)
    After:
        y = checkpoint(Linear(4, 4), x)
    """
    for tree in reversed(facts.trees):
        for owner in reversed(list(tree.walk(cst.ClassDef))):
            match owner.body.body:
                case [cst.FunctionDef(cst.Name("forward" | "__call__")) as called]:
                    yield from _as_function(Function(tree, called, owner), owner)
                case [
                    cst.FunctionDef(cst.Name("__init__")) as made,
                    cst.FunctionDef(cst.Name("forward" | "__call__")) as called,
                ]:
                    yield from _part_called(Function(tree, made, owner), Function(tree, called, owner), owner, facts)


def objects_to_parts(program: Program, facts: Facts) -> Iterator[Patch]:
    """Use the only attribute of an object instead of the object.

    Before:
        class Net(Module):
            def __init__(self, size):
                super().__init__()
                self.layer = Linear(size, size)
        net = Net(4)
        optimizer = SGD(net.parameters())
        y = net.layer(x)
    After:
        net = Linear(4, 4)
        optimizer = SGD(net.parameters())
        y = net(x)
    """
    for tree in reversed(facts.trees):
        for owner in reversed(list(tree.walk(cst.ClassDef))):
            constructor = _constructor(tree, owner)
            only = None if constructor is None else _only_part(constructor)
            if constructor is None or only is None:
                continue
            known = instances(owner.name.value, facts)
            edits = _part_in_place(constructor, owner, only[1], facts)
            uses = [
                Edit(Span(tree.file.path, whole(tree, use.value).end, tree.span(use).end))
                for use in tree.walk(cst.Attribute)
                if use.attr.value == only[0] and last_name(use.value) in known
            ]
            if edits:
                yield patch(f"use the part of {owner.name.value}", *edits, *uses)


def _as_function(method: Function, owner: cst.ClassDef) -> Iterator[Patch]:
    """The patch that makes a function of a class which has nothing but a method, when that does not use its object."""
    tree, node = method.tree, method.node
    places = [tree.parents[use] for use in names(tree).read.get(owner.name.value, ())]
    made = [place for place in places if isinstance(place, cst.Call) and not place.args]
    plain = not (uses_of_self(method) or node.decorators or owner.decorators) and self_of(method) is not None
    if plain and made and len(made) == len(places):
        edits = [Edit(tree.span(node.name), (tree.span(owner.name),)), *without(tree, listed_parameters(node), {0})]
        edits += [Edit(tree.span(call), (whole(tree, call.func),)) for call in made]
        unwrapped = replaced_by_block(tree, tree.statement_of[owner], owner.body)
        yield patch(f"make a function of {owner.name.value}", *unwrapped, *edits)


def _part_called(constructor: Function, method: Function, owner: cst.ClassDef, facts: Facts) -> Iterator[Patch]:
    """The patch that uses the part of an object which gets all that the object is called with."""
    handed, only = _handed_on(method), _only_part(constructor)
    if only is not None and only[0] == handed:
        edits = _part_in_place(constructor, owner, only[1], facts)
        if edits:
            yield patch(f"use the part of {owner.name.value}", *edits)


def _part_in_place(
    constructor: Function, owner: cst.ClassDef, part: cst.BaseExpression, facts: Facts
) -> list[Edit] | None:
    """The edits that make a part of an object where the object is made; None where that cannot be."""
    tree, sites = constructor.tree, _sites(constructor, facts)
    edits = [removal(tree, tree.statement_of[owner])]
    for site in sites:
        copy = copy_for(constructor, site)
        if copy is None:
            return None
        edits.append(Edit(whole(tree, site.use), copy.expression(part, site.use)))
        edits += [Edit(_start(site), copy.heading)] if copy.heading else []
    return edits if sites else None


def _handed_on(method: Function) -> str | None:
    """The attribute that a method calls with all that it is called with, when it does nothing else."""
    handed = [parameter.name for parameter in parameters(method)]
    match method.node.body.body:
        case [cst.SimpleStatementLine(body=[cst.Return(cst.Call(cst.Attribute(cst.Name(me), cst.Name(name)), args))])]:
            plain = not any(arg.star or arg.keyword for arg in args)
            return name if plain and me == self_of(method) and [dotted(arg.value) for arg in args] == handed else None
    return None


def _only_part(constructor: Function) -> tuple[str, cst.BaseExpression] | None:
    """The attribute that a constructor sets, and to what, when it does nothing else with its object."""
    block = constructor.tree.block_of(constructor.node.body)
    match [statement.node for statement in block if not m.matches(statement.node, _INITIALISES_BASE)]:
        case [cst.Assign([cst.AssignTarget(cst.Attribute(cst.Name(me), cst.Name(attribute)))], value)]:
            once = me == self_of(constructor) and len(reads_of_self(constructor)) == 1
            return (attribute, value) if once else None
    return None


def _start(site: Site) -> Span:
    """The place before the lines of a site's statement."""
    return replace(site.statement.span, end=site.statement.span.start)


def _constructor(tree: Tree, owner: cst.ClassDef) -> Function | None:
    """The constructor of a class that has nothing else, to be put elsewhere line by line."""
    match owner.body:
        case cst.IndentedBlock(body=[cst.FunctionDef(name=cst.Name("__init__"), decorators=[]) as node]):
            fits = isinstance(node.body, cst.IndentedBlock) and members(tree, node.body) is not None
            plain = not own(tree, node.body, cst.Return) and not own(tree, node.body, cst.Yield)
            return Function(tree, node, owner) if fits and plain else None
    return None


def _sites(function: Function, facts: Facts) -> tuple[Site, ...]:
    """Every call of a constructor in sight; none when its body cannot be put at one of them."""
    tree, found = function.tree, []
    for where, call in calls(function, facts):
        if where is not tree or tree.span(call) in tree.span(function.node):
            return ()
        site = site_of(tree, call, passed_by(function, call), None)
        if site is None:
            return ()
        found.append(site)
    return tuple(found) if len(found) <= _MOST_SITES else ()


def _dissolved(function: Function, owner: cst.ClassDef, facts: Facts) -> Iterator[Patch]:
    """The patch that puts the body of a constructor in place of each `net = Net(...)`: `self.x` becomes `net_x`."""
    tree, sites = function.tree, _sites(function, facts)
    parts = _parts(function)
    objects = [_object(tree, site.use) for site in sites]
    if parts is None or not sites or (None in objects and len(sites) > 1):
        return
    edits = [removal(tree, tree.statement_of[owner])]
    free = _free(tree, owner, parts.attributes, objects, local_names(function))
    for site, name in zip(sites, objects, strict=True):
        copy = copy_for(function, site)
        if copy is None:
            return
        prefix: Piece = owner.name.value.lower() if name is None else tree.span(name)
        copy = replace(copy, edits=(*copy.edits, *_unbound(tree, parts, prefix, free)))
        lines = (*copy.heading, *copy.lines(tree.block_of(function.node.body), site.statement.indent))
        if name is not None:
            edits.append(Edit(site.statement.span, lines))
            edits += _uses(tree, owner, last_name(name), parts.attributes, free)
            continue
        place = tree.parents[site.use]
        if not isinstance(place, cst.Attribute) or place.attr.value not in parts.attributes:
            return
        edits.append(Edit(_start(site), lines))
        edits.append(Edit(tree.span(place), (*_front(prefix, place.attr.value, free), tree.span(place.attr))))
    yield patch(f"dissolve {owner.name.value}", *edits)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What the body of a constructor consists of.

    `gone` are calls of the base's constructor, `buffers` calls that register tensors, `places` all other uses of the
    object, `attributes` the names that it sets.
    """

    gone: tuple[Statement, ...]
    buffers: tuple[Statement, ...]
    places: tuple[cst.Attribute, ...]
    attributes: frozenset[str]


def _parts(function: Function) -> _Parts | None:
    """The parts of a constructor; None when it does more with the object than to set attributes and to read those."""
    tree, body = function.tree, function.node.body
    block = tree.block_of(body)
    gone = tuple(member for member in block if m.matches(member.node, _INITIALISES_BASE))
    buffers = tuple(member for member in block if m.matches(member.node, _REGISTERS))
    apart = [member.node for member in (*gone, *buffers)]
    places = [tree.parents[use] for use in uses_of_self(function) if not within(tree, [use], *apart)]
    attributes = [place for place in places if isinstance(place, cst.Attribute)]
    set_here = {last_name(place) for place in attributes if _assigned(tree, place)} | {*map(_registered, buffers)}
    if len(attributes) < len(places) or not set_here.issuperset(map(last_name, attributes)):
        return None
    return _Parts(gone, buffers, tuple(attributes), frozenset(set_here))


def _assigned(tree: Tree, place: cst.CSTNode) -> bool:
    """Whether an attribute is assigned, alone or as one of several."""
    parent = tree.parents[place]
    if isinstance(parent, (cst.Element, cst.Tuple, cst.List)):
        return _assigned(tree, parent)
    return isinstance(parent, cst.AssignTarget) or (isinstance(parent, cst.AnnAssign) and parent.target is place)


def _object(tree: Tree, call: cst.BaseExpression) -> cst.BaseExpression | None:
    """The dotted name that a new object is assigned to; None when it is used in another way."""
    match tree.statement_around(call).node:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if value is call:
            return target if dotted(target) is not None else None
    return None


def _free(
    tree: Tree,
    owner: cst.ClassDef,
    attributes: Collection[str],
    objects: Sequence[cst.BaseExpression | None],
    taken: Collection[str] = (),
) -> set[str]:
    """The attributes that can be variables under their own names: those of one object, when nothing has the name."""
    if len(objects) > 1 or isinstance(objects[0], cst.Attribute):
        return set()
    found = names(tree)
    outside = {
        name
        for uses in (found.read, found.bound)
        for name, nodes in uses.items()
        if len(within(tree, nodes, owner)) < len(nodes)
    }
    return set(attributes) - outside - set(taken) - imported(tree).keys() - set(dir(builtins))


def _front(prefix: Piece, attribute: str, free: Collection[str]) -> tuple[Piece, ...]:
    """What stands before the name of an attribute in the name of its variable."""
    return () if attribute in free else (prefix, "_")


def _unbound(tree: Tree, parts: _Parts, prefix: Piece, free: Collection[str]) -> list[Edit]:
    """The edits that make variables of the attributes in the body of a constructor."""
    edits = [deletion(statement.span) for statement in parts.gone]
    for place in parts.places:
        before = replace(tree.span(place), end=tree.span(place.attr).start)
        edits.append(Edit(before, _front(prefix, place.attr.value, free)))
    for buffer in parts.buffers:
        name, value = _registered(buffer), tree.span(_call(buffer).args[1].value)
        opening = Span(value.path, buffer.code.start, value.start)
        edits.append(Edit(opening, (*_front(prefix, name, free), f"{name} = ")))
        edits.append(deletion(Span(value.path, value.end, buffer.code.end)))
    return edits


def _call(statement: Statement) -> cst.Call:
    return cst.ensure_type(cst.ensure_type(statement.node, cst.Expr).value, cst.Call)


def _registered(buffer: Statement) -> str:
    """The name that `self.register_buffer("name", value)` gives to a tensor."""
    return str(cst.ensure_type(_call(buffer).args[0].value, cst.SimpleString).evaluated_value)


def _uses(
    tree: Tree, owner: cst.ClassDef, name: str, attributes: Collection[str], free: Collection[str]
) -> Iterator[Edit]:
    """The edits that make `net_x`, or `x` where that is free, of `net.x` wherever the object's attribute is used."""
    for use in tree.walk(cst.Attribute):
        if last_name(use.value) == name and use.attr.value in attributes and tree.span(use) not in tree.span(owner):
            kept = use.attr.value not in free
            start = whole(tree, use.value).end if kept else tree.span(use).start
            yield Edit(Span(tree.file.path, start, tree.span(use.attr).start), ("_",) if kept else ())


@dataclass(frozen=True, eq=False)
class _Field:
    """A name that a class assigns in its body, and the value that it gives it."""

    name: str
    value: cst.BaseExpression | None


def _fields(owner: cst.ClassDef) -> tuple[_Field, ...] | None:
    """The fields of a class that has nothing else; None when it has."""
    found = []
    for line in owner.body.body:
        match line:
            case cst.SimpleStatementLine(body=[cst.AnnAssign(target=cst.Name(name), value=value)]):
                found.append(_Field(name, value))
            case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]):
                found.append(_Field(name, value))
            case cst.SimpleStatementLine(body=[cst.Pass()]) | cst.Pass():
                pass
            case _:
                return None
    return tuple(found)


def _spelled_out(tree: Tree, owner: cst.ClassDef, fields: Sequence[_Field]) -> Iterator[Patch]:
    """The patch that makes variables of the fields which are read, of one object or of the class itself."""
    name = owner.name.value
    reads = [use for use in names(tree).read.get(name, ()) if not within(tree, [use], owner)]
    made = [call for call in map(tree.parents.get, reads) if isinstance(call, cst.Call) and call.func in reads]
    if len(made) == 1 and len(reads) == 1:
        target, statement = _object(tree, made[0]), tree.statement_around(made[0])
        values = _given(made[0], fields)
    elif reads and not made:
        target, statement, values = owner.name, tree.statement_of[owner], {f.name: f.value for f in fields if f.value}
    else:
        return
    if target is None or values is None:
        return
    known = last_name(target)
    places = [use for use in tree.walk(cst.Attribute) if last_name(use.value) == known]
    attributes = frozenset(values) | {last_name(place) for place in places if _assigned(tree, place)}
    used = {last_name(place) for place in places}
    if not used <= attributes:
        return
    prefix: Piece = tree.span(target)
    free = _free(tree, owner, attributes, [target])
    lines: list[Piece] = []
    for field, value in values.items():
        if field in used:
            lines += [statement.indent, *_front(prefix, field, free), f"{field} = ", whole(tree, value), "\n"]
    edits = [removal(tree, tree.statement_of[owner])] if statement.node is not owner else []
    put = Edit(statement.span, tuple(lines)) if lines else removal(tree, statement)
    yield patch(f"dissolve {name}", *edits, put, *_uses(tree, owner, known, attributes, free))


def _given(call: cst.Call, fields: Sequence[_Field]) -> dict[str, cst.BaseExpression] | None:
    """What each field of a new object is; None when the call passes anything else."""
    values, taken = {}, set()
    for position, field in enumerate(fields):
        found = argument(call, field.name, position)
        value = field.value if found is None else found.value
        if value is not None:
            values[field.name] = value
        if found is not None:
            taken.add(found)
    return values if len(taken) == len(call.args) else None


def _empty(owner: cst.ClassDef) -> bool:
    return all(m.matches(line, m.SimpleStatementLine([m.Pass()]) | m.Pass()) for line in owner.body.body)


def _base_named(tree: Tree, owner: cst.ClassDef) -> Patch:
    """The patch that names the base of a class wherever the class is named."""
    uses = [use for use in names(tree).read.get(owner.name.value, ()) if not within(tree, [use], owner)]
    base = whole(tree, owner.bases[0].value)
    edits = [Edit(tree.span(use), (base,)) for use in uses]
    return patch(f"use the base of {owner.name.value}", removal(tree, tree.statement_of[owner]), *edits)


def _base_called(function: Function, owner: cst.ClassDef, facts: Facts) -> Iterator[Patch]:
    """The patch that calls the base of a class with what the constructor of the class passes to it."""
    tree, sites = function.tree, _sites(function, facts)
    block = tree.block_of(function.node.body)
    if not sites or reads_of_self(function) or not m.matches(block[-1].node, _INITIALISES_BASE):
        return
    edits = [removal(tree, tree.statement_of[owner])]
    for site in sites:
        copy = copy_for(function, site)
        if copy is None:
            return
        lines = (*copy.heading, *copy.lines(block[:-1], site.statement.indent))
        edits.append(Edit(whole(tree, site.use), _called(copy, owner, _call(block[-1]))))
        if lines:
            edits.append(Edit(_start(site), lines))
    yield patch(f"use the base of {owner.name.value}", *edits)


def _called(copy: Copy, owner: cst.ClassDef, call: cst.Call) -> tuple[Piece, ...]:
    """A call of the base of a class with the arguments of another call."""
    base = whole(copy.tree, owner.bases[0].value)
    if not call.args:
        return (base, "()")
    first, last = copy.tree.span(call.args[0]), copy.tree.span(call.args[-1])
    return (base, "(", *copy.part(Span(first.path, first.start, last.end)), ")")
