"""Expressions as text: when they need parentheses, which names they stand for, what they are called with."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

import libcst as cst

from shrinkrepro.passes.common import whole
from shrinkrepro.program.edit import Edit, Piece
from shrinkrepro.program.source import Span
from shrinkrepro.program.tree import Tree

# the operators that methods of tensors stand for
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "mm": "@", "pow": "**"}
# stand anywhere without parentheses
ATOMS = (
    cst.Attribute,
    cst.Call,
    cst.Dict,
    cst.DictComp,
    cst.Ellipsis,
    cst.FormattedString,
    cst.List,
    cst.ListComp,
    cst.Name,
    cst.Set,
    cst.SetComp,
    cst.SimpleString,
    cst.Subscript,
)
# Methods and properties that give a view of a tensor.
# fmt: off
VIEWS = frozenset({
    "H", "T", "as_strided", "diagonal", "expand", "expand_as", "flatten", "imag", "mH", "mT", "movedim", "narrow",
    "permute", "ravel", "real", "reshape", "select", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unflatten",
    "unsqueeze", "view",
})
# fmt: on
_NUMBERS = (cst.Float, cst.Imaginary, cst.Integer)
_OPERATIONS = (cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.IfExp, cst.Lambda, cst.UnaryOperation)
# hold an expression between delimiters of their own, so that operators in it need no parentheses
_DELIMITED = (
    cst.AnnAssign,
    cst.Arg,
    cst.Assign,
    cst.AugAssign,
    cst.DictElement,
    cst.Element,
    cst.Expr,
    cst.If,
    cst.Index,
    cst.Return,
    cst.Slice,
    cst.While,
)
SCOPES = (cst.Lambda, cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp)


def standalone(tree: Tree, part: cst.BaseExpression, place: cst.CSTNode) -> tuple[Piece, ...]:
    """The pieces that put a copy of `part` where `place` stands, in parentheses if it needs any there."""
    if not _stands_alone(tree, part, tree.parents.get(place)):
        return parenthesised(whole(tree, part), not part.lpar)
    return (tree.span(part),)


def parenthesised(piece: Piece, needed: bool) -> tuple[Piece, ...]:
    """The piece, in parentheses when they are needed."""
    return ("(", piece, ")") if needed else (piece,)


def needs_parentheses(tree: Tree, part: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
    """Whether `part` must be put in parentheses, or in more than it has, to become a child of `parent`."""
    return not part.lpar and not _stands_alone(tree, part, parent)


def _stands_alone(tree: Tree, part: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
    """Whether `part` means the same without any parentheses as a child of `parent`."""
    if isinstance(part, _OPERATIONS):
        fits = isinstance(parent, _DELIMITED)
    elif isinstance(part, _NUMBERS):
        fits = not isinstance(parent, cst.Attribute)
    else:
        fits = isinstance(part, ATOMS)
    return fits and not _breaks_line(tree.text(part))


def _breaks_line(text: str) -> bool:
    """Whether an expression has a line break outside every bracket, which only outer brackets make valid."""
    if "\n" not in text:
        return False
    try:
        ast.parse(text)
    except SyntaxError:
        return True
    return False


def replaced(tree: Tree, place: cst.BaseExpression, part: cst.BaseExpression) -> Edit:
    """The edit that puts a copy of `part` in the place of `place`."""
    return Edit(whole(tree, place), standalone(tree, part, place))


def without_link(tree: Tree, call: cst.Call) -> Edit:
    """The edit that takes the last link out of a chain: `x.f(1).g(2)` becomes `x.f(1)`."""
    assert isinstance(call.func, cst.Attribute)
    return Edit(Span(tree.file.path, whole(tree, call.func.value).end, tree.span(call).end))


def dotted(node: cst.CSTNode) -> str | None:
    """The dotted name that an expression consists of; None when it is anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr.value}"
    return None


@lru_cache(maxsize=64)
def imported(tree: Tree) -> Mapping[str, str]:
    """The full dotted name of what each name that an import statement binds stands for."""
    names: dict[str, str] = {}
    for statement in tree.walk(cst.Import):
        for alias in statement.names:
            full = dotted(alias.name) or ""
            name = alias.evaluated_alias
            names[name or full.partition(".")[0]] = full if name else full.partition(".")[0]
    for source in tree.walk(cst.ImportFrom):
        base = "." * len(source.relative) + ((dotted(source.module) or "") if source.module else "")
        if not isinstance(source.names, cst.ImportStar):
            for alias in source.names:
                names[alias.evaluated_alias or alias.evaluated_name] = f"{base}.{alias.evaluated_name}"
    return names


def canonical(tree: Tree, node: cst.CSTNode) -> str | None:
    """The full dotted name of an expression whose first part is imported (`F.relu`: "torch.nn.functional.relu").

    None when it is no dotted name or its first part is not imported.
    """
    name = dotted(node)
    if name is None:
        return None
    first, dot, rest = name.partition(".")
    base = imported(tree).get(first)
    return None if base is None else f"{base}{dot}{rest}"


def last_name(node: cst.CSTNode) -> str:
    """The last part of a name: "relu" for `F.relu`, `relu` and `x.f().relu`; "" for expressions that have none."""
    if isinstance(node, cst.Name):
        return node.value
    return node.attr.value if isinstance(node, cst.Attribute) else ""


def argument(call: cst.Call, keyword: str, position: int | None = None) -> cst.Arg | None:
    """The argument passed as `keyword`, or as number `position` when it is passed by position."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == keyword:
            return arg
    if position is not None and position < len(call.args):
        plain = call.args[: position + 1]
        if all(arg.keyword is None and not arg.star for arg in plain):
            return plain[-1]
    return None


def plain_arguments(call: cst.Call) -> tuple[cst.Arg, ...]:
    """The arguments passed by position, up to the first `*`."""
    found = []
    for arg in call.args:
        if arg.keyword is not None or arg.star:
            break
        found.append(arg)
    return tuple(found)


def own_scope(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a name in an expression is its statement's: not that of a lambda or comprehension around it."""
    return not tree.inside(node, *SCOPES) if node in tree.parents else True


def is_true(node: cst.CSTNode) -> bool:
    """Whether the expression is the word `True`."""
    return isinstance(node, cst.Name) and node.value == "True"


def delimited(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether an operation can stand in the place of `node` without parentheses."""
    return isinstance(tree.parents[node], (cst.Arg, cst.Assign, cst.Element, cst.AugAssign))
