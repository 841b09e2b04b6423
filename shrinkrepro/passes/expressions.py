"""Passes that replace an expression by a simpler one: one of its own parts, or a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, whole, without
from shrinkrepro.passes.syntax import replaced, standalone
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import Tree

# What an expression may be replaced by: its own parts that are expressions of the same kind of value.
_PARTS: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.BinaryOperation: ("left", "right"),
    cst.BooleanOperation: ("left", "right"),
    cst.Comparison: ("left",),
    cst.UnaryOperation: ("expression",),
    cst.IfExp: ("body", "orelse"),
    cst.Subscript: ("value",),
    cst.Await: ("expression",),
    cst.NamedExpr: ("value",),
    cst.Attribute: ("value",),
}


def expression_to_part(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put one of its own parts in the place of an expression: an operand, a branch, what is indexed, called or asked.

    Before:
        y = (a + b)[0]
    After:
        y = a + b

    Before:
        y = a * b
    After:
        y = a

    Before:
        x[0] += 1
    After:
        x += 1
    """
    for tree in reversed(facts.trees):
        for written in _latest_first(tree, (cst.AugAssign,)):
            if isinstance(written, cst.AugAssign) and isinstance(written.target, cst.Subscript):
                for part in _parts(written.target):
                    yield patch("write to all of it", replaced(tree, written.target, part))
        for node in largest_first(tree):
            if isinstance(node, cst.Attribute) and _is_called_or_asked(tree, node):
                continue
            for part in _parts(node):
                yield patch("replace an expression by a part of it", replaced(tree, node, part))


def expression_to_one(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the number 1 in the place of an expression.

    Before:
        x += scale * other[:, 0]
    After:
        x += 1

    Before:
        value += value
    After:
        value += 1
    """
    for tree in reversed(facts.trees):
        for node in largest_first(tree):
            simple = (cst.Integer, cst.Float) if _is_written(tree, node) else (cst.Integer, cst.Float, cst.Name)
            if not isinstance(node, simple) and not _is_called_or_asked(tree, node):
                yield patch("replace an expression by 1", Edit(whole(tree, node), ("1",)))


def drop_elements(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take elements out of lists, tuples, sets and dictionaries, and dimensions out of an index.

    Before:
        y = [a, b]
    After:
        y = [a]

    Before:
        y = x[:, 0]
    After:
        y = x[0]
    """
    for tree in reversed(facts.trees):
        for node in _latest_first(tree, (cst.List, cst.Tuple, cst.Set, cst.Dict)):
            elements: Sequence[cst.CSTNode] = node.elements  # type: ignore[attr-defined]
            least = 2 if isinstance(node, cst.Tuple) else 1
            if len(elements) >= least and not _is_target(tree, node):
                for position in reversed(range(len(elements))):
                    yield patch("drop an element", *without(tree, elements, [position]))
        for node in _latest_first(tree, (cst.Subscript,)):
            assert isinstance(node, cst.Subscript)
            if len(node.slice) > 1:
                for position in reversed(range(len(node.slice))):
                    yield patch("drop a dimension of an index", *without(tree, node.slice, [position]))


def drop_parentheses(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take away parentheses that change nothing.

    Before:
        y = f((1), (x.t()))
    After:
        y = f(1, (x.t()))
    """
    for tree in reversed(facts.trees):
        for node in _latest_first(tree, (cst.BaseExpression,)):
            assert isinstance(node, cst.BaseExpression)
            if node.lpar and (bare := standalone(tree, node, node)) == (tree.span(node),):
                yield patch("drop parentheses", Edit(whole(tree, node), bare))


def slices_to_items(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take the first item where a slice takes several.

    Before:
        x[1:] = 0
    After:
        x[0] = 0
    """
    for tree in reversed(facts.trees):
        for node in _latest_first(tree, (cst.Slice,)):
            if m.matches(node, m.Slice(lower=None, upper=None, step=None)):
                continue  # an item is no shorter
            yield patch("take the first item", Edit(tree.span(node), ("0",)))


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    for name in _PARTS.get(type(node), ()):
        yield getattr(node, name)
    if isinstance(node, cst.Subscript):
        yield from _parts_of_display(node.value)
    if isinstance(node, cst.Comparison):
        yield node.comparisons[-1].comparator
    yield from _parts_of_display(node)
    if isinstance(node, cst.Call):
        for argument in node.args:
            if not argument.star:
                yield argument.value
        if isinstance(node.func, cst.Attribute):
            yield node.func.value


def _parts_of_display(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        yield from (element.value for element in node.elements if isinstance(element, cst.Element))


def largest_first(tree: Tree) -> list[cst.BaseExpression]:
    """The expressions that are read, those with the most text first; of equals, later ones first."""
    found = [node for node in tree.expressions if _is_read(tree, node)]
    return sorted(found, key=lambda n: (tree.span(n).start - tree.span(n).end, -tree.span(n).start))


def _latest_first(tree: Tree, kinds: tuple[type[cst.CSTNode], ...]) -> list[cst.CSTNode]:
    found = [node for node in tree.spans if isinstance(node, kinds)]
    return sorted(found, key=lambda node: -tree.span(node).start)


def _is_read(tree: Tree, node: cst.BaseExpression) -> bool:
    """Whether a whole expression stands here whose value is used: no target, no name of an attribute or an argument."""
    parent = tree.parents[node]
    match parent:
        case cst.Attribute() if parent.attr is node:
            return False
        case cst.Arg() if parent.keyword is node:
            return False
        case cst.AssignTarget() | cst.AnnAssign() if getattr(parent, "target", None) is node:
            return False
        case cst.AugAssign() | cst.For() | cst.CompFor() | cst.AsName() if node in (
            getattr(parent, "target", None),
            getattr(parent, "name", None),
        ):
            return False
        case cst.Annotation() | cst.Param() | cst.FunctionDef() | cst.ClassDef() | cst.ImportAlias() | cst.Del():
            return isinstance(parent, cst.Param) and parent.default is node
        case cst.ImportFrom() | cst.Import() | cst.Global() | cst.NameItem() | cst.ConcatenatedString():
            return False
    return not _is_target(tree, node)


def _is_called_or_asked(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether what counts of an expression is what can be called or looked up on it: `f` in `f()`, `x` in `x.y`."""
    parent = tree.parents[node]
    return (isinstance(parent, cst.Call) and parent.func is node) or isinstance(parent, cst.Attribute)


def _is_written(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether the value of an expression is what a statement writes into an object that is there: `y` in `x += y`."""
    parent = tree.parents[node]
    if isinstance(parent, cst.Assign):
        return isinstance(parent.targets[0].target, cst.Subscript) and parent.value is node
    return isinstance(parent, cst.AugAssign) and parent.value is node


def _is_target(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a tuple, list or its element is what an assignment or a loop binds."""
    inner: cst.CSTNode = node
    for outer in tree.ancestors(node):
        if isinstance(outer, (cst.AssignTarget, cst.For, cst.CompFor)) and outer.target is inner:
            return True
        if not isinstance(outer, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
            return False
        inner = outer
    return False
