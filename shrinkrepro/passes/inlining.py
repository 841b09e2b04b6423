"""Passes that do away with functions and classes: bodies go where they are called, attributes become variables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import block_lines, descendants, names, patch, reindented, removal, simple, whole, within
from shrinkrepro.passes.functions import Function, calls, functions, parameters
from shrinkrepro.passes.syntax import argument, dotted, last_name, needs_parentheses, parenthesised
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
_BINDS_NAMES = (cst.Lambda, cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp)


def inline_functions(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the body of a function or method where it is called, when one call is in sight, and delete the function.

    Its parameters are assigned first; its variables get new names where the caller uses the same.

    Before:
        def scale(x, by):
            y = x * by
            return y.exp()
        y = 1
        z = scale(w, 2).sum()
    After:
        y = 1
        x = w
        by = 2
        y_1 = x * by
        z = y_1.exp().sum()

    Before:
        class Net:
            def forward(self, x):
                return self.layer(x)
            size = 1
        net = Net()
        y = net(x)
    After:
        class Net:
            size = 1
        net = Net()
        y = net.layer(x)
    """
    for function in functions(facts):
        site = _only_site(function, facts) if function.node.name.value != "__init__" else None
        if site is not None:
            yield from _inlined(function, site)


def dissolve_classes(program: Program, facts: Facts) -> Iterator[Patch]:
    """Make variables of the attributes of an object, when its class has nothing but a constructor and is used once.

    Before:
        class Net(Module):
            def __init__(self, size):
                super().__init__()
                self.layer = Linear(size, size)
        net = Net(4)
        y = net.layer(x)
    After:
        size = 4
        net_layer = Linear(size, size)
        y = net_layer(x)
    """
    for function in functions(facts):
        owner = function.owner
        if owner is not None and function.node.name.value == "__init__" and len(owner.body.body) == 1:
            site = _only_site(function, facts)
            if site is not None:
                yield from _dissolved(function, owner, site)


@dataclass(frozen=True, eq=False)
class _Site:
    """A call, the statement that it is part of, and the function or module that this statement belongs to.

    `values` are what the parameters of the called function stand for: arguments, or defaults. `receiver` is what
    stands for the object, when the function is a method.
    """

    call: cst.Call
    statement: Statement
    scope: cst.CSTNode
    values: Mapping[str, cst.BaseExpression]
    receiver: cst.BaseExpression | None


def _only_site(function: Function, facts: Facts) -> _Site | None:
    """The only call in sight, as a place where the function's body can be put; None when there is no such place."""
    sites = calls(function, facts)
    if len(sites) != 1 or sites[0][0] is not function.tree or not _straight(function):
        return None
    tree, call = sites[0]
    if tree.inside(call, *_BINDS_NAMES) or tree.span(call) in tree.span(function.node):
        return None
    statement, values = tree.statement_around(call), _values(function, call)
    own_lines = statement.span.start + len(statement.indent) == statement.code.start
    if values is None or not own_lines or isinstance(statement.node, cst.While):
        return None
    scopes = (around for around in tree.ancestors(call) if isinstance(around, (cst.FunctionDef, cst.Module)))
    return _Site(call, statement, next(scopes), values, _receiver(function, call))


def _straight(function: Function) -> bool:
    """Whether a function runs from top to bottom and may stand elsewhere: `return` at the end only, nothing special."""
    node = function.node
    if node.asynchronous is not None or not isinstance(node.body, cst.IndentedBlock):
        return False
    if any(last_name(decorator.decorator) != "staticmethod" for decorator in node.decorators):
        return False
    inner = list(descendants(node.body))
    ends = [found for found in inner if isinstance(found, cst.Return)]
    special = any(isinstance(found, (cst.Yield, cst.Await, cst.Global, cst.Nonlocal)) for found in inner)
    return not special and (not ends or (len(ends) == 1 and ends[0] is _result(node)))


def _result(node: cst.FunctionDef) -> cst.Return | None:
    """The `return` at the end of a function, on a line of its own."""
    match node.body.body[-1]:
        case cst.SimpleStatementLine(body=[cst.Return() as result]):
            return result
    return None


def _values(function: Function, call: cst.Call) -> Mapping[str, cst.BaseExpression] | None:
    """What each parameter stands for in a call; None when that cannot be told."""
    passed, values = 0, {}
    for parameter in parameters(function):
        found = argument(call, parameter.name, parameter.position)
        value = parameter.node.default if found is None else found.value
        if parameter.node.star or value is None:
            return None
        values[parameter.name] = value
        passed += found is not None
    return values if passed == len(call.args) else None


def _receiver(function: Function, call: cst.Call) -> cst.BaseExpression | None:
    """What stands for the object in a call of a method: `net` in `net.forward(x)` and in `net(x)`."""
    if not function.bound:
        return None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == function.node.name.value:
        return call.func.value
    return call.func


def _inlined(function: Function, site: _Site) -> Iterator[Patch]:
    """The patch that puts the body of a function before the statement that calls it, and its result into the call."""
    tree, result = function.tree, _result(function.node)
    if _captures(function, site) or (site.receiver is not None and dotted(site.receiver) is None):
        return
    new_names = _new_names(function, site)
    edits = [*_renamed(function, new_names), removal(tree, tree.statement_of[function.node])]
    if site.receiver is not None:
        edits += [Edit(tree.span(use), (whole(tree, site.receiver),)) for use in _uses_of_self(function)]
    body, moved = _body(function, site.statement.indent, result)
    before = (*_bindings(function, site, new_names), *body)
    value = None if result is None else result.value
    statement = site.statement
    if isinstance(statement.node, cst.Expr) and statement.node.value is site.call and _idle(value):
        edits.append(Edit(statement.span, before) if before else removal(tree, statement))
    else:
        needed = value is not None and needs_parentheses(tree, value, tree.parents[site.call])
        pieces = ("None",) if value is None else parenthesised(whole(tree, value), needed)
        edits.append(Edit(whole(tree, site.call), pieces))
        if before:
            edits.append(Edit(Span(tree.file.path, statement.span.start, statement.span.start), before))
    yield patch(f"inline {function.node.name.value}", *edits, *moved)


def _dissolved(function: Function, owner: cst.ClassDef, site: _Site) -> Iterator[Patch]:
    """The patch that puts the body of a constructor in place of `net = Net(...)`: `self.x` in it becomes `net_x`."""
    tree, node = function.tree, site.statement.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or node.value is not site.call:
        return
    target = node.targets[0].target
    if dotted(target) is None or _captures(function, site):
        return
    gone = [member for member in tree.block_of(function.node.body) if m.matches(member.node, _INITIALISES_BASE)]
    buffers = [member for member in tree.block_of(function.node.body) if m.matches(member.node, _REGISTERS)]
    inside = [use for use in _uses_of_self(function) if not within(tree, [use], *(s.node for s in (*gone, *buffers)))]
    places = [tree.parents[use] for use in inside]
    if not all(isinstance(place, cst.Attribute) for place in places):
        return
    set_here = {
        last_name(place) for place in places if isinstance(tree.parents[place], (cst.AssignTarget, cst.AnnAssign))
    }
    attributes = set_here | {_registered(buffer) for buffer in buffers}
    if not attributes.issuperset(map(last_name, places)):
        return
    new_names = _new_names(function, site)
    edits = [*_renamed(function, new_names), removal(tree, tree.statement_of[owner]), *map(_deletion, gone)]
    edits += [Edit(_up_to_name(tree, place), (tree.span(target), "_")) for place in places]
    edits += [edit for buffer in buffers for edit in _assigning(tree, buffer, tree.span(target))]
    edits += [
        Edit(Span(tree.file.path, whole(tree, use.value).end, tree.span(use.attr).start), ("_",))
        for use in tree.walk(cst.Attribute)
        if last_name(use.value) == last_name(target) and use.attr.value in attributes
        if tree.span(use) not in tree.span(owner)
    ]
    body, moved = _body(function, site.statement.indent, None)
    before = (*_bindings(function, site, new_names), *body)
    edits.append(Edit(site.statement.span, before))
    yield patch(f"dissolve {owner.name.value}", *edits, *moved)


def _deletion(statement: Statement) -> Edit:
    """The edit that takes a statement out of a block that goes anyway: no `pass` for it."""
    return deletion(statement.span)


def _up_to_name(tree: Tree, place: cst.CSTNode) -> Span:
    """The span of `self.` in `self.x`."""
    assert isinstance(place, cst.Attribute)
    return Span(tree.file.path, tree.span(place).start, tree.span(place.attr).start)


def _registered(buffer: Statement) -> str:
    """The name that `self.register_buffer("name", value)` gives to a tensor."""
    assert isinstance(buffer.node, cst.Expr)
    name = cst.ensure_type(cst.ensure_type(buffer.node.value, cst.Call).args[0].value, cst.SimpleString)
    return str(name.evaluated_value)


def _assigning(tree: Tree, buffer: Statement, target: Span) -> Iterator[Edit]:
    """The edits that make an assignment of `self.register_buffer("name", value)`."""
    assert isinstance(buffer.node, cst.Expr)
    value = tree.span(cst.ensure_type(buffer.node.value, cst.Call).args[1].value)
    yield Edit(Span(value.path, buffer.code.start, value.start), (target, f"_{_registered(buffer)} = "))
    yield deletion(Span(value.path, value.end, buffer.code.end))


def _idle(value: cst.BaseExpression | None) -> bool:
    """Whether an expression does nothing where its value is not used."""
    return value is None or simple(value) or dotted(value) is not None


def _body(function: Function, indent: str, result: cst.Return | None) -> tuple[tuple[Piece, ...], list[Edit]]:
    """The lines of a function before its `return`, as pieces to copy, and the edits that bring them to `indent`."""
    tree = function.tree
    text, lines = tree.file.text, block_lines(tree, function.node.body)
    end = lines.end if result is None else text.rfind("\n", 0, tree.span(result).start) + 1
    copied = Span(lines.path, lines.start, end)
    if copied.empty:
        return (), []
    own = text[lines.start : tree.span(function.node.body.body[0]).start]
    ending = () if text.endswith("\n", copied.start, copied.end) else ("\n",)
    return (copied, *ending), list(reindented(tree, copied, own, indent)) if own != indent else []


def _bindings(function: Function, site: _Site, new_names: Mapping[str, str]) -> tuple[Piece, ...]:
    """Assignments of what is passed to the parameters, where that is not the same name already."""
    pieces: list[Piece] = []
    for name, value in site.values.items():
        target = new_names.get(name, name)
        if dotted(value) != target:
            pieces += [site.statement.indent, f"{target} = ", whole(function.tree, value), "\n"]
    return tuple(pieces)


def _local_names(function: Function) -> set[str]:
    """The parameters and variables of a function."""
    tree, node = function.tree, function.node
    return {name for name, nodes in names(tree).bound.items() if within(tree, nodes, node.params, node.body)}


def _self(function: Function) -> str | None:
    """What a method calls the object that it belongs to; None for a function."""
    listed = (*function.node.params.posonly_params, *function.node.params.params)
    return listed[0].name.value if function.bound and listed else None


def _uses_of_self(function: Function) -> tuple[cst.Name, ...]:
    """Where a method reads the object that it belongs to."""
    return within(function.tree, names(function.tree).read.get(_self(function) or "", ()), function.node.body)


def _captures(function: Function, site: _Site) -> bool:
    """Whether a name that the function takes from outside is a variable of the caller, and so another one there."""
    tree, scope = function.tree, site.scope
    if isinstance(scope, cst.Module) or scope in tree.ancestors(function.node):
        return False
    free = set(names(tree).read) - _local_names(function)
    read = (name for name in free if within(tree, names(tree).read[name], function.node.body))
    return any(within(tree, names(tree).bound.get(name, ()), scope) for name in read)


def _new_names(function: Function, site: _Site) -> dict[str, str]:
    """New names for those variables of a function that the caller uses as well, for something else."""
    own = _local_names(function) - {_self(function)}
    outside = _names_outside(function, site.scope)
    new: dict[str, str] = {}
    for name in sorted(own & outside):
        if not _shared(function, site, name):
            taken = own | outside | set(new.values())
            new[name] = next(fresh for i in itertools.count(1) if (fresh := f"{name}_{i}") not in taken)
    return new


def _names_outside(function: Function, scope: cst.CSTNode) -> set[str]:
    """The names in `scope` outside the function."""
    tree, found = function.tree, names(function.tree)
    around, inside = tree.span(scope), tree.span(function.node)
    return {
        name
        for uses in (found.read, found.bound)
        for name, nodes in uses.items()
        if any(tree.span(node) in around and tree.span(node) not in inside for node in nodes)
    }


def _shared(function: Function, site: _Site, name: str) -> bool:
    """Whether a parameter and the variable passed for it have the same name and may be the same variable.

    They may when the function does not assign it, or the caller assigns it right then.
    """
    tree = function.tree
    if name not in site.values or dotted(site.values[name]) != name:
        return False
    changed = within(tree, names(tree).bound.get(name, ()), function.node.body)
    return not changed or any(within(tree, names(tree).bound.get(name, ()), site.statement.node))


def _renamed(function: Function, new_names: Mapping[str, str]) -> list[Edit]:
    """The edits that give variables in the body of a function their new names."""
    tree, found = function.tree, names(function.tree)
    return [
        Edit(tree.span(node), (new,))
        for name, new in new_names.items()
        for node in within(tree, (*found.read.get(name, ()), *found.bound.get(name, ())), function.node.body)
    ]
