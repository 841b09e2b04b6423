"""Passes over the heads of functions and classes, and what calls of a function look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import names, patch, simple, whole, within, without
from shrinkrepro.passes.syntax import argument, canonical, last_name, needs_parentheses, parenthesised
from shrinkrepro.program.edit import Edit, Patch, deletion
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Tree


def drop_decorators(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop the decorators of functions and classes.

    Before:
        @torch.no_grad()
        def update():
            step()
    After:
        def update():
            step()
    """
    for tree in reversed(facts.trees):
        nodes = [node for node in tree.spans if isinstance(node, (cst.FunctionDef, cst.ClassDef))]
        for node in reversed(nodes):
            for decorator in node.decorators:
                yield patch("drop a decorator", without_decorator(tree, node, decorator))


def drop_bases(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop the base classes and keywords of a class, all at once and one by one.

    Before:
        class Net(Module, Logged): pass
    After:
        class Net: pass

    Before:
        class Net(Module, Logged): pass
    After:
        class Net(Module): pass
    """
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.ClassDef))):
            if isinstance(node.lpar, cst.LeftParen) and isinstance(node.rpar, cst.RightParen):
                brackets = Span(tree.file.path, tree.span(node.lpar).start, tree.span(node.rpar).end)
                yield patch("drop all bases", deletion(brackets))
                bases = (*node.bases, *node.keywords)
                for position in reversed(range(len(bases) if len(bases) > 1 else 0)):
                    yield patch("drop a base", *without(tree, bases, {position}))


def drop_defaults(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop the default values of parameters: a parameter without one cannot follow one with it, so first ones first.

    Before:
        def scale(x, by=2): return x * by
    After:
        def scale(x, by): return x * by
    """
    for tree in reversed(facts.trees):
        for head in reversed(list(tree.walk(cst.Parameters))):
            for node in (*head.posonly_params, *head.params, *head.kwonly_params):
                if node.default is not None:
                    start = tree.span(node.name if node.annotation is None else node.annotation).end
                    default = whole(tree, node.default)
                    yield patch("drop a default", deletion(Span(default.path, start, default.end)))


def drop_parameters(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop a parameter that its function never reads, and what every call in sight passes for it.

    Before:
        def scale(x, by, name): return x * by
        scale(1, 2, name="a")
    After:
        def scale(x, by): return x * by
        scale(1, 2)
    """
    for function in functions(facts):
        for parameter in reversed(parameters(function)):
            if not within(function.tree, names(function.tree).read.get(parameter.name, ()), function.node.body):
                yield patch("drop a parameter", *_without_parameter(function, parameter, facts))


def parameters_to_values(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write the value of a parameter where the function reads it, when every call in sight passes the same literal.

    Before:
        def scale(x, by=2): return x * by
        scale(1)
        scale(3)
    After:
        def scale(x): return x * 2
        scale(1)
        scale(3)
    """
    for function in functions(facts):
        for parameter in reversed(parameters(function)):
            bound = within(function.tree, names(function.tree).bound.get(parameter.name, ()), function.node)
            reads = within(function.tree, names(function.tree).read.get(parameter.name, ()), function.node.body)
            value = _only_value(function, parameter, facts)
            if value is None or len(bound) != 1 or not reads:
                continue
            puts = [_put(value, function.tree, read) for read in reads]
            yield patch("write a parameter's value", *puts, *_without_parameter(function, parameter, facts))


@dataclass(frozen=True, eq=False)
class Function:
    """A function of the program, and the class whose method it is."""

    tree: Tree
    node: cst.FunctionDef
    owner: cst.ClassDef | None

    @property
    def bound(self) -> bool:
        """Whether a call passes its first parameter in front of the dot."""
        return self.owner is not None and "staticmethod" not in (last_name(d.decorator) for d in self.node.decorators)


@dataclass(frozen=True)
class Parameter:
    """A parameter: its place in the head of its function and among positional arguments (None: passed by name only)."""

    name: str
    node: cst.Param
    place: int
    position: int | None


@dataclass(frozen=True, eq=False)
class _Value:
    """An expression in one of the program's files."""

    tree: Tree
    node: cst.BaseExpression

    @property
    def text(self) -> str:
        return self.tree.text(self.node)


def functions(facts: Facts) -> Iterator[Function]:
    """Every function, later ones first."""
    for tree in reversed(facts.trees):
        for node in reversed(list(tree.walk(cst.FunctionDef))):
            scopes = (around for around in tree.ancestors(node) if isinstance(around, (cst.ClassDef, cst.FunctionDef)))
            owner = next(scopes, None)
            yield Function(tree, node, owner if isinstance(owner, cst.ClassDef) else None)


def without_decorator(tree: Tree, node: cst.FunctionDef | cst.ClassDef, decorator: cst.Decorator) -> Edit:
    """The edit that takes a decorator off a function or class."""
    later = [tree.span(other).start for other in node.decorators if tree.span(other).start > tree.span(decorator).start]
    return deletion(replace(tree.span(decorator), end=min(later, default=_head(tree, node))))


def _head(tree: Tree, node: cst.FunctionDef | cst.ClassDef) -> int:
    """The offset of the `def`, `async def` or `class` of a node, behind its decorators."""
    text = tree.file.text
    line = text.rfind("\n", 0, tree.span(node.name).start) + 1
    return line + len(text[line:]) - len(text[line:].lstrip(" \t"))


def listed_parameters(node: cst.FunctionDef) -> Sequence[cst.CSTNode]:
    """All that the head of a function lists between commas."""
    head = node.params
    slash, star = head.posonly_ind, head.star_arg
    return [
        *head.posonly_params,
        *([slash] if isinstance(slash, cst.ParamSlash) else []),
        *head.params,
        *([star] if isinstance(star, (cst.Param, cst.ParamStar)) else []),
        *head.kwonly_params,
        *([head.star_kwarg] if head.star_kwarg is not None else []),
    ]


def parameters(function: Function) -> list[Parameter]:
    """The parameters that a call fills, in their order; not the object that a method belongs to."""
    listed = listed_parameters(function.node)
    positional = (*function.node.params.posonly_params, *function.node.params.params)
    found = []
    for place, node in enumerate(listed):
        if isinstance(node, cst.Param):
            position = positional.index(node) - function.bound if node in positional else None
            if position != -1:
                found.append(Parameter(node.name.value, node, place, position))
    return found


def _without_parameter(function: Function, parameter: Parameter, facts: Facts) -> list[Edit]:
    """The edits that take a parameter out of the head of its function and out of every call in sight."""
    listed = listed_parameters(function.node)
    gone = {parameter.place}
    by_name_only = function.node.params.kwonly_params
    if (
        parameter.node in by_name_only
        and len(by_name_only) == 1
        and isinstance(function.node.params.star_arg, cst.ParamStar)
    ):
        gone.add(parameter.place - 1)  # a star with nothing behind it is an error
    edits = list(without(function.tree, listed, gone))
    if parameter.node.star == "":
        for tree, call in calls(function, facts):
            passed = argument(call, parameter.name, parameter.position)
            if passed is not None:
                edits += without(tree, call.args, {call.args.index(passed)})
    return edits


def calls(function: Function, facts: Facts) -> list[tuple[Tree, cst.Call]]:
    """The calls that look like calls of `function`.

    By its name; a constructor by the name of its class and by `super().__init__` of classes derived from it;
    `forward` and `__call__` also as `Net()(x)` and by the names of what is assigned from calls of the class. A class
    that inherits a method counts as its class. What a class calls of its base is no method of its own.
    """
    name = function.node.name.value
    made = set() if function.owner is None else {function.owner.name.value, *_heirs(function.owner, name, facts)}
    constructors = made if name == "__init__" else set()
    called = made if name in ("forward", "__call__") else set()
    wanted = constructors or {name} | set().union(*(instances(one, facts) for one in called))
    found = []
    for tree in facts.trees:
        for call in tree.walk(cst.Call):
            derived = constructors and last_name(call.func) == "__init__" and _bases(tree, call) & constructors
            new = isinstance(call.func, cst.Call) and last_name(call.func.func) in called
            named = last_name(call.func) in wanted and not _of_another(tree, call, function)
            if named or derived or new:
                found.append((tree, call))
    return found


def _heirs(owner: cst.ClassDef, method: str, facts: Facts) -> set[str]:
    """The names of the classes derived from a class, at any distance, that do not define a method anew."""
    classes = [node for tree in facts.trees for node in tree.walk(cst.ClassDef)]
    known = {owner.name.value}
    for node in classes:  # a base stands before what is derived from it
        own = {member.name.value for member in node.body.body if isinstance(member, cst.FunctionDef)}
        if method not in own and known & {last_name(base.value) for base in node.bases}:
            known.add(node.name.value)
    return known - {owner.name.value}


def _of_another(tree: Tree, call: cst.Call, function: Function) -> bool:
    """Whether a call of that name goes to something else.

    To another base, as `super().forward(x)` in a class without that base; to a method, when the function is none.
    """
    if function.owner is None:
        return isinstance(call.func, cst.Attribute) and canonical(tree, call.func) is None
    through_base = m.matches(call.func, m.Attribute(value=m.Call(func=m.Name("super"))))
    return through_base and function.owner.name.value not in _bases(tree, call)


def instances(name: str, facts: Facts) -> set[str]:
    """The last names of what the program assigns from a call of `name`: "encoder" for `self.encoder = Net()`."""
    return {
        last_name(target.target)
        for tree in facts.trees
        for assignment in tree.walk(cst.Assign)
        if isinstance(assignment.value, cst.Call) and last_name(assignment.value.func) == name
        for target in assignment.targets
    } - {""}


def _bases(tree: Tree, node: cst.CSTNode) -> set[str]:
    """The last names of the bases of the class around `node`."""
    classes = (around for around in tree.ancestors(node) if isinstance(around, cst.ClassDef))
    return {last_name(base.value) for owner in classes for base in owner.bases}


def _only_value(function: Function, parameter: Parameter, facts: Facts) -> _Value | None:
    """The literal that every call in sight passes for a parameter, or its default where one passes nothing."""
    default = None if parameter.node.default is None else _Value(function.tree, parameter.node.default)
    passed: list[_Value | None] = [default]
    sites = calls(function, facts)
    if sites:
        arguments = [(tree, call, argument(call, parameter.name, parameter.position)) for tree, call in sites]
        if any(arg is None and any(other.star for other in call.args) for _, call, arg in arguments):
            return None
        passed = [default if arg is None else _Value(tree, arg.value) for tree, _, arg in arguments]
    first = passed[0]
    if first is None or not _literal(first.node):
        return None
    return first if all(value is not None and value.text == first.text for value in passed) else None


def _literal(node: cst.BaseExpression) -> bool:
    return simple(node) or m.matches(node, m.UnaryOperation(operator=m.Minus(), expression=m.Integer() | m.Float()))


def _put(value: _Value, tree: Tree, read: cst.Name) -> Edit:
    """The edit that puts a value where a name is read."""
    needed = needs_parentheses(value.tree, value.node, tree.parents[read])
    text = value.tree.text(value.node)  # no copy: the argument that it would be copied from goes in the same patch
    return Edit(whole(tree, read), parenthesised(text, needed))
