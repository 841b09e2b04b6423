"""Where functions are called, what their parameters stand for there, and how their bodies are copied to that place."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import libcst as cst

from shrinkrepro.passes.bodies import is_super, on_own_lines, own, supers
from shrinkrepro.passes.common import names, reindented, simple, whole, within, without
from shrinkrepro.passes.functions import Function, parameters
from shrinkrepro.passes.syntax import SCOPES, argument, dotted, needs_parentheses, standalone
from shrinkrepro.program.edit import Edit, Piece, copied
from shrinkrepro.program.source import Span
from shrinkrepro.program.tree import Statement, Tree


@dataclass(frozen=True)
class Binding:
    """A parameter and what it stands for. For `f(*pair)`: all parameters that the elements of `pair` stand for."""

    names: tuple[str, ...]
    value: cst.BaseExpression
    unpacked: bool = False


@dataclass(frozen=True)
class Passed:
    """What a call passes: an expression for each parameter, and the arguments that `*args` and `**options` collect."""

    bindings: tuple[Binding, ...] = ()
    collected: tuple[tuple[cst.Param, tuple[cst.Arg, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class Site:
    """A use of a function, the statement that it is part of, and the function or module that this statement belongs to.

    `use` is the expression whose value the function makes: a call, or an attribute for a property. `receiver` is what
    stands for the object, when the function is a method.
    """

    use: cst.BaseExpression
    statement: Statement
    scope: cst.CSTNode
    passed: Passed
    receiver: cst.BaseExpression | None


@dataclass(frozen=True, eq=False)
class Copy:
    """The body of a function as it stands at a site: `edits` are made in the copy, `heading` binds its parameters.

    `names` are the names that its variables have there, by those that they have in the function.
    """

    tree: Tree
    heading: tuple[Piece, ...]
    edits: tuple[Edit, ...]
    names: Mapping[str, str]

    def lines(self, statements: Sequence[Statement], indent: str) -> tuple[Piece, ...]:
        """The lines of some statements of the body, brought to an indentation."""
        return tuple(piece for statement in statements for piece in self._line(statement, indent))

    def expression(self, node: cst.BaseExpression, place: cst.CSTNode | None = None) -> tuple[Piece, ...]:
        """An expression of the body, in parentheses if it needs any in the place of `place`."""
        needed = place is not None and needs_parentheses(self.tree, node, self.tree.parents[place])
        pieces = self.part(whole(self.tree, node))
        return ("(", *pieces, ")") if needed else pieces

    def part(self, span: Span) -> tuple[Piece, ...]:
        """A part of the body."""
        return copied(span, self.edits)

    def _line(self, statement: Statement, indent: str) -> tuple[Piece, ...]:
        lines = statement.span
        moved = () if statement.indent == indent else reindented(self.tree, lines, statement.indent, indent)
        ending = () if self.tree.file.text.endswith("\n", lines.start, lines.end) else ("\n",)
        pieces = copied(lines, (*self.edits, *moved))
        return (*pieces, *ending) if pieces else ()


def site_of(
    tree: Tree, use: cst.BaseExpression, passed: Passed | None, receiver: cst.BaseExpression | None
) -> Site | None:
    """The place where a function is used; None when its body cannot be put before the statement of that place."""
    if passed is None or tree.inside(use, *SCOPES):
        return None
    statement = tree.statement_around(use)
    if not on_own_lines(statement) or isinstance(statement.node, cst.While):
        return None
    return Site(use, statement, scope_of(tree, use), passed, receiver)


def scope_of(tree: Tree, node: cst.CSTNode) -> cst.CSTNode:
    """The function or module that a node belongs to."""
    return next(around for around in tree.ancestors(node) if isinstance(around, (cst.FunctionDef, cst.Module)))


def passed_by(function: Function, call: cst.Call) -> Passed | None:
    """What each parameter stands for in a call; None when that cannot be told."""
    listed = parameters(function)
    collecting = [parameter.node for parameter in listed if parameter.node.star]
    spread = [arg for arg in call.args if arg.star]
    if spread and not collecting and (len(spread) > 1 or spread[0].star != "*" or spread[0] is not call.args[-1]):
        return None
    taken: list[cst.Arg] = []
    bindings, missing = [], []
    for parameter in listed:
        if parameter.node.star:
            continue
        found = argument(call, parameter.name, parameter.position)
        value = parameter.node.default if found is None else found.value
        taken += [] if found is None else [found]
        if found is None and spread:
            missing.append(parameter)
        elif value is None:
            return None
        else:
            bindings.append(Binding((parameter.name,), value))
    if missing:
        if collecting or any(parameter.position is None for parameter in missing):
            return None
        bindings.append(Binding(tuple(parameter.name for parameter in missing), spread[0].value, unpacked=True))
        taken += spread
    rest = [arg for arg in call.args if arg not in taken]
    collected = tuple((node, tuple(arg for arg in rest if _collects(node, arg))) for node in collecting)
    if len(rest) > sum(len(arguments) for _, arguments in collected):
        return None
    return Passed(tuple(bindings), collected)


def _collects(parameter: cst.Param, arg: cst.Arg) -> bool:
    """Whether `*args` or `**options` collects an argument that no other parameter takes."""
    named = arg.keyword is not None or arg.star == "**"
    return named == (parameter.star == "**")


def receiver_of(function: Function, call: cst.Call) -> cst.BaseExpression | None:
    """What stands for the object in a call of a method: `net` in `net.forward(x)` and in `net(x)`.

    In `super().forward(x)`, it is what the calling method calls the object that it belongs to.
    """
    if not function.bound:
        return None
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != function.node.name.value:
        return call.func
    if through_super(call):
        caller = scope_of(function.tree, call)
        listed = caller.params.params if isinstance(caller, cst.FunctionDef) else ()
        return listed[0].name if listed else call.func.value
    return call.func.value


def through_super(call: cst.Call) -> bool:
    """Whether a call is one of a method of the base: `super().forward(x)`."""
    return isinstance(call.func, cst.Attribute) and is_super(call.func.value)


def self_of(function: Function) -> str | None:
    """What a method calls the object that it belongs to; None for a function."""
    listed = (*function.node.params.posonly_params, *function.node.params.params)
    return listed[0].name.value if function.bound and listed else None


def reads_of_self(function: Function) -> tuple[cst.Name, ...]:
    """Where a method reads the object that it belongs to."""
    return within(function.tree, names(function.tree).read.get(self_of(function) or "", ()), function.node.body)


def uses_of_self(function: Function) -> tuple[cst.BaseExpression, ...]:
    """Where a method reads the object that it belongs to, by its name or as `super()`.

    A constructor only ever goes where its base is the base as well, so there `super()` stays what it is.
    """
    means_object = function.bound and function.node.name.value != "__init__"
    return (*reads_of_self(function), *(supers(function.tree, function.node.body) if means_object else ()))


def _captures(function: Function, site: Site) -> bool:
    """Whether a name that the function takes from outside is a variable of the caller, and so another one there."""
    tree, scope = function.tree, site.scope
    if isinstance(scope, cst.Module) or scope in tree.ancestors(function.node):
        return False
    free = {name for name, uses in names(tree).read.items() if within(tree, uses, function.node.body)}
    here = {name for name, nodes in names(tree).bound.items() if within(tree, nodes, scope)}
    return bool((free - local_names(function)) & here)


def local_names(function: Function) -> set[str]:
    """The parameters and variables of a function."""
    tree, node = function.tree, function.node
    elsewhere = {item.name.value for statement in _declarations(function) for item in statement.names}
    return {
        name
        for name, nodes in names(tree).bound.items()
        if name not in elsewhere and within(tree, nodes, node.params, node.body)
    }


def _declarations(function: Function) -> list[cst.Global | cst.Nonlocal]:
    """The statements of a function that say which names are variables of something around it."""
    tree, body = function.tree, function.node.body
    return [*own(tree, body, cst.Global), *own(tree, body, cst.Nonlocal)]


def dropped(statement: Statement) -> Edit:
    """The edit that takes a statement out of a copy of its block."""
    alone = statement.block is not None and statement.block.members == 1
    return Edit(statement.code, ("pass",)) if alone else Edit(statement.span)


def _redeclared(function: Function, site: Site) -> list[Edit] | None:
    """The edits that leave a body right about whose its variables are; None when they would be others at a site."""
    tree, edits = function.tree, []
    for node in _declarations(function):
        owner = tree.module if isinstance(node, cst.Global) else scope_of(tree, function.node)
        if site.scope is not owner:
            return None
        edits.append(dropped(tree.statement_of[node]))
    for node in tree.walk(cst.Nonlocal):
        span = tree.span(node)
        if span in tree.span(function.node.body) and isinstance(site.scope, cst.Module):
            edits.append(Edit(replace(span, end=span.start + len("nonlocal")), ("global",)))
    return edits


def copy_for(
    function: Function,
    site: Site,
    taken: Collection[str] = (),
    me: Piece | None = None,
    settled: Mapping[str, str] = MappingProxyType({}),
) -> Copy | None:
    """The body of a function as it has to stand at a site; None when it cannot stand there.

    Its variables get new names where the caller, or `taken`, has the same, and those that are `settled` the names that
    these say. A parameter that stands for a name or a literal is replaced by it; others are assigned first. `me`, when
    given, is put in the place of a method's object.
    """
    tree, body = function.tree, function.node.body
    spread = [_spread(function, parameter, arguments) for parameter, arguments in site.passed.collected]
    declared = _redeclared(function, site)
    if declared is None or _captures(function, site):
        return None
    bindings, placed = _bindings(function, site, bound=me is None)
    new = {**_new_names(function, site, placed, taken), **settled}
    edits = [*declared, *(edit for found in spread for edit in found)]
    edits += _object_edits(function, placed, new, me)
    for name, value in placed.items():
        uses = within(tree, names(tree).read.get(name, ()), body) if name != self_of(function) else ()
        edits += [Edit(whole(tree, use), standalone(tree, value, use)) for use in uses if dotted(value) != name]
    for name, name_there in new.items():
        renamed = name_there != name and name != self_of(function)
        for use in within(tree, (*names(tree).read.get(name, ()), *names(tree).bound.get(name, ())), body):
            edits += [Edit(tree.span(use), (name_there,))] if renamed else []
    heading = [piece for binding in bindings for piece in _assignment(tree, site, binding, new)]
    return Copy(tree, tuple(heading), tuple(edits), new)


def _object_edits(
    function: Function, placed: Mapping[str, cst.BaseExpression], new: Mapping[str, str], me: Piece | None
) -> list[Edit]:
    """The edits that write in a body what stands for the object of a method: `me`, what was passed, or a new name."""
    name = self_of(function)
    if name is None:
        return []
    here = me if me is not None else whole(function.tree, placed[name]) if name in placed else new[name]
    uses = uses_of_self(function)
    bound = within(function.tree, names(function.tree).bound.get(name, ()), function.node.body)
    return [Edit(function.tree.span(use), (here,)) for use in (*uses, *bound)]


def _bindings(function: Function, site: Site, *, bound: bool) -> tuple[list[Binding], dict[str, cst.BaseExpression]]:
    """The parameters to assign, and those to replace by what they stand for.

    If `bound`, the object of a method is one of them.
    """
    tree, me = function.tree, self_of(function)
    bindings = list(site.passed.bindings)
    if bound and me is not None and site.receiver is not None and uses_of_self(function):
        bindings.insert(0, Binding((me,), site.receiver))
    placed = {
        binding.names[0]: binding.value
        for binding in bindings
        if _plain(binding, me) and not within(tree, names(tree).bound.get(binding.names[0], ()), function.node.body)
    }
    return [binding for binding in bindings if binding.names[0] not in placed], placed


def _plain(binding: Binding, me: str | None) -> bool:
    """Whether what is passed may as well stand wherever the parameter is read."""
    named = dotted(binding.value) is not None if binding.names == (me,) else isinstance(binding.value, cst.Name)
    return not binding.unpacked and (named or simple(binding.value))


def _assignment(tree: Tree, site: Site, binding: Binding, new: Mapping[str, str]) -> tuple[Piece, ...]:
    """The line that assigns what is passed to a parameter; nothing where that has the same name already."""
    targets = ", ".join(new.get(name, name) for name in binding.names)
    targets += "," if binding.unpacked and len(binding.names) == 1 else ""
    if dotted(binding.value) == targets:
        return ()
    return (site.statement.indent, f"{targets} = ", whole(tree, binding.value), "\n")


def _spread(function: Function, parameter: cst.Param, arguments: tuple[cst.Arg, ...]) -> list[Edit]:
    """The edits that put the arguments themselves where a function reads the `*args` or `**options` that hold them."""
    tree = function.tree
    edits: list[Edit] = []
    for use in within(tree, names(tree).read.get(parameter.name.value, ()), function.node.body):
        arg = tree.parents[use]
        call = tree.parents[arg]
        if not isinstance(arg, cst.Arg) or not isinstance(call, cst.Call) or not arg.star:
            edits.append(Edit(tree.span(use), _held(tree, parameter, arguments)))
        elif arguments:
            edits.append(Edit(tree.span(arg), listed(tree, arguments)))
        else:
            edits += without(tree, call.args, {call.args.index(arg)})
    return edits


def _held(tree: Tree, parameter: cst.Param, arguments: tuple[cst.Arg, ...]) -> tuple[Piece, ...]:
    """The arguments that a parameter collects as the object that it is: a tuple, or a dictionary for `**options`."""
    if parameter.star == "**":
        return ("dict(", *listed(tree, arguments), ")")
    return ("(", *listed(tree, arguments), ",)" if len(arguments) == 1 else ")")


def listed(tree: Tree, nodes: Sequence[cst.CSTNode]) -> tuple[Piece, ...]:
    """Copies of some nodes, with commas between them."""
    pieces: list[Piece] = []
    for node in nodes:
        pieces += [", ", whole(tree, node)] if pieces else [whole(tree, node)]
    return tuple(pieces)


def _new_names(function: Function, site: Site, placed: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """The names that the variables of a function have at a site: their own, or else new ones."""
    own = local_names(function)
    outside = names_outside(function, site.scope) | set(taken)
    new: dict[str, str] = {}
    for name in sorted(own - set(placed)):
        wanted = name if function.owner is None or name != self_of(function) else function.owner.name.value.lower()
        used = outside | set(new.values()) | (own - {name})
        new[name] = wanted if wanted not in used or _shared(function, site, name) else numbered(wanted, used | own)
    return new


def numbered(name: str, taken: Collection[str]) -> str:
    """The name with the first number behind it that makes it one that is not taken."""
    return next(fresh for i in itertools.count(1) if (fresh := f"{name}_{i}") not in taken)


def names_outside(function: Function, scope: cst.CSTNode) -> set[str]:
    """The names in `scope` outside the function."""
    tree, found = function.tree, names(function.tree)
    around, inside = tree.span(scope), tree.span(function.node)
    return {
        name
        for uses in (found.read, found.bound)
        for name, nodes in uses.items()
        if any(tree.span(node) in around and tree.span(node) not in inside for node in nodes)
    }


def _shared(function: Function, site: Site, name: str) -> bool:
    """Whether a parameter and the variable passed for it have the same name and may be the same variable.

    They may when the function does not assign it, or the caller assigns it right then.
    """
    tree = function.tree
    passed = [binding.value for binding in site.passed.bindings if binding.names == (name,)]
    if [dotted(value) for value in passed] != [name]:
        return False
    changed = within(tree, names(tree).bound.get(name, ()), function.node.body)
    return not changed or any(within(tree, names(tree).bound.get(name, ()), site.statement.node))
