"""Custom Functions whose backward visibly returns another number of gradients than PyTorch asks for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache


@lru_cache(maxsize=4096)
def miscounted(text: str) -> frozenset[str]:
    """The custom autograd Functions in `text` whose `backward` cannot give every input of `forward` its gradient.

    A stale saved tensor is found before that, so such a program fails as it should; but with the write gone it fails as
    well, which proves nothing about the write. In doubt a Function is not in the set: `forward(ctx, *args)`, or a
    backward that returns what another function made. Raises SyntaxError when `text` is not Python.
    """
    if "Function" not in text:
        return frozenset()
    classes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
    return frozenset(node.name for node in classes if _is_function(node) and _miscounts(node))


def _is_function(node: ast.ClassDef) -> bool:
    return any(
        (isinstance(base, ast.Name) and base.id == "Function")
        or (isinstance(base, ast.Attribute) and base.attr == "Function")
        for base in node.bases
    )


def _miscounts(node: ast.ClassDef) -> bool:
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None:
        return False
    taken = forward.args
    if taken.vararg or taken.kwarg or taken.kwonlyargs or taken.defaults:
        return False
    wanted = len(taken.posonlyargs) + len(taken.args) - ("setup_context" not in methods)
    saved = _saved(methods.get("setup_context", forward))
    results = [found.value for found in _own(backward) if isinstance(found, ast.Return)] or [None]
    possible = [_inputs(value, backward, saved) for value in results]
    return any(counts is not None and wanted not in counts for counts in possible)


def _inputs(value: ast.expr | None, backward: ast.FunctionDef, saved: int | None) -> range | None:
    """The numbers of inputs that a returned value can be the gradients of; None when that cannot be seen."""
    match value:
        case None | ast.Constant(value=None):
            return range(2)
        case ast.Constant():
            return range(0)
        case ast.Tuple() if any(isinstance(item, ast.Starred) for item in value.elts):
            return None
        case ast.Tuple():
            constants = [item.value if isinstance(item, ast.Constant) else ... for item in value.elts]
            if any(constant not in (None, ...) for constant in constants):
                return range(0)
            needed = max((place for place, constant in enumerate(constants, 1) if constant is ...), default=0)
            return range(needed, len(constants) + 1)  # PyTorch ignores each None too many at the end
        case ast.Name():
            return None if value.id in _bound_whole(backward) else range(1, 2)
        case ast.BinOp():
            joined = any(isinstance(part, (ast.Tuple, ast.List)) for part in ast.walk(value))
            return None if joined else range(1, 2)
        case ast.Attribute(attr="saved_tensors") if saved is not None:
            return range(saved, saved + 1)
    return None


def _bound_whole(function: ast.FunctionDef) -> frozenset[str]:
    """The names that a statement of the function binds as a whole: they may be tuples, and so may `*args`."""
    extra = (function.args.vararg, function.args.kwarg)
    names = {argument.arg for argument in extra if argument is not None}
    for node in _own(function):
        match node:
            case ast.Assign():
                names.update(target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.NamedExpr() | ast.For() | ast.With():
                names.update(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
    return frozenset(names)


def _saved(function: ast.FunctionDef) -> int | None:
    """How many tensors the only `save_for_backward` of a function saves."""
    calls = [
        node
        for node in _own(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "save_for_backward"
    ]
    if len(calls) != 1 or any(isinstance(argument, ast.Starred) for argument in calls[0].args):
        return None
    return len(calls[0].args)


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What stands in a function, without what stands in functions and classes inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
