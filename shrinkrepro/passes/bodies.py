"""The bodies of functions as blocks of statements that may stand elsewhere."""

from __future__ import annotations

import libcst as cst

from shrinkrepro.passes.common import simple
from shrinkrepro.passes.functions import Function
from shrinkrepro.passes.syntax import canonical, dotted, last_name
from shrinkrepro.program.tree import Node, Statement, Tree

_INNER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_GRAD_MODES = frozenset(
    {"torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.set_grad_enabled", "torch.autograd.no_grad"}
)


def own(tree: Tree, block: cst.CSTNode, kind: type[Node]) -> list[Node]:
    """Every node of a kind inside a block that is not part of a function or class inside it, in order."""
    around = tree.span(block)
    return [node for node in tree.walk(kind) if tree.span(node) in around and _belongs(tree, node, block)]


def _belongs(tree: Tree, node: cst.CSTNode, block: cst.CSTNode) -> bool:
    """Whether a block is around a node, and no function or class in between."""
    for outer in tree.ancestors(node):
        if outer is block or isinstance(outer, _INNER):
            return outer is block
    return False


def supers(tree: Tree, block: cst.CSTNode) -> list[cst.Call]:
    """Every call of `super` in a block."""
    return [call for call in own(tree, block, cst.Call) if is_super(call)]


def is_super(node: cst.CSTNode) -> bool:
    """Whether an expression is `super()`."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


def members(tree: Tree, suite: cst.BaseSuite) -> tuple[Statement, ...] | None:
    """The statements of a block; None when some of them share a line."""
    found = tree.block_of(suite)
    return found if all(on_own_lines(statement) for statement in found) else None


def on_own_lines(statement: Statement) -> bool:
    """Whether nothing else stands on the lines of a statement."""
    return statement.span.start + len(statement.indent) == statement.code.start


def movable(function: Function) -> bool:
    """Whether the body of a function may stand elsewhere: nothing wraps it or depends on where it stands."""
    return portable(function) and all(map(_wraps_nothing, function.node.decorators))


def movable_with_mode(function: Function) -> bool:
    """Whether the body of a function may stand elsewhere, in a `with` that switches gradients if a decorator does."""
    mode = grad_mode(function)
    return portable(function) and all(d.decorator is mode or _wraps_nothing(d) for d in function.node.decorators)


def grad_mode(function: Function) -> cst.Call | None:
    """What a decorator of a function like `@torch.no_grad()` calls to switch gradients; None without one."""
    called = [decorator.decorator for decorator in function.node.decorators]
    modes = [
        call for call in called if isinstance(call, cst.Call) and canonical(function.tree, call.func) in _GRAD_MODES
    ]
    return modes[0] if modes else None


def _wraps_nothing(decorator: cst.Decorator) -> bool:
    return last_name(decorator.decorator) in ("staticmethod", "classmethod")


def portable(function: Function) -> bool:
    """Whether nothing in the body of a function depends on being the body of a function.

    Every `return` must end the function or a branch of an `if`, or be the last statement of a `with`.
    """
    node = function.node
    if node.asynchronous is not None or not isinstance(node.body, cst.IndentedBlock):
        return False
    if members(function.tree, node.body) is None:
        return False
    tree, body = function.tree, node.body
    if any(own(tree, body, kind) for kind in (cst.Yield, cst.Await)) or (not function.bound and supers(tree, body)):
        return False
    return all(_ends_branch(function, found) for found in own(tree, body, cst.Return))


def _ends_branch(function: Function, result: cst.Return) -> bool:
    """Whether nothing but branches of `if`, and blocks of `with` that it ends, are around a `return`."""
    tree = function.tree
    for around in tree.ancestors(result):
        if around is function.node:
            return True
        if isinstance(around, cst.IndentedBlock):
            if members(tree, around) is None:
                return False
        elif isinstance(around, cst.With):
            if tree.statement_around(result) is not tree.block_of(around.body)[-1]:
                return False
        elif not isinstance(around, (cst.SimpleStatementLine, cst.If, cst.Else)):
            return False
    return False


def returns(tree: Tree, block: cst.CSTNode) -> bool:
    """Whether a block returns from its function."""
    return bool(own(tree, block, cst.Return))


def result_of(function: Function) -> cst.Return | None:
    """The `return` at the end of a function, when it is the only one."""
    body = function.node.body
    ends = own(function.tree, body, cst.Return)
    match body.body[-1]:
        case cst.SimpleStatementLine(body=[cst.Return() as result]) if len(ends) == 1:
            return result
    return None


def idle(value: cst.BaseExpression | None) -> bool:
    """Whether an expression does nothing where its value is not used."""
    return value is None or simple(value) or dotted(value) is not None


def runs_through(function: Function) -> bool:
    """Whether the body of a function may stand elsewhere and runs from top to bottom."""
    return movable(function) and (result_of(function) is not None or not returns(function.tree, function.node.body))
