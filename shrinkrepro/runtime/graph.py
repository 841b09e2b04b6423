"""Reading autograd graphs without holding or disturbing them.

Three facts carry this module. A graph node owns a dictionary (`metadata`), so what is known about a node can be
kept in the node itself and dies with it. A tensor's version counter can be shared without sharing its memory. A
saved tensor that was written since raises PyTorch's own message when it is read.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from shrinkrepro.runtime.messages import PHRASE
from shrinkrepro.runtime.naming import function_of

COPY_SLICES = "torch::autograd::CopySlices"

Node = Any  # graph nodes share no Python base class

_EMPTY = torch.empty(0)


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor as a node saved it.

    `attribute` is None where the node hides it. `probe` shares the tensor's version counter; it is None, and
    `version` unknown, when the tensor had been written before anybody looked.
    """

    attribute: str | None
    version: int | None
    shape: tuple[int, ...] | None
    probe: torch.Tensor | None


def version(tensor: torch.Tensor) -> int | None:
    """The tensor's version, or None where it has no counter (inference tensors)."""
    try:
        return tensor._version
    except RuntimeError:
        return None


def probe(tensor: torch.Tensor) -> torch.Tensor | None:
    """An empty tensor that shares the version counter of `tensor`, none of its memory and none of its graph.

    None for layouts (sparse, nested) whose tensors cannot change places with a dense one.
    """
    try:
        # inside a torch.func transform, a tensor that is none of its own would come out wrapped
        with nullcontext() if is_wrapped(tensor) else torch._C._DisableFuncTorch():
            alias = tensor.detach()
            alias.data = _EMPTY
    except (RuntimeError, NotImplementedError, TypeError):
        return None
    return alias


def storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The memory behind `tensor`, or None for layouts that have none of their own."""
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None


def address(tensor: torch.Tensor) -> int:
    """What tensors that share their memory have in common."""
    memory = storage(tensor)
    return id(tensor) if memory is None else int(memory._cdata)


def node_of(tensor: torch.Tensor) -> Node | None:
    """The node that made `tensor`.

    Asking a view made under no_grad whose base was then written with gradients raises: such a view has none to show.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def tensors_in(values: Iterable[Any], depth: int = 6) -> list[torch.Tensor]:
    """The tensors among `values`, looked for inside lists, tuples and dictionaries down to `depth`, each once."""
    found: dict[int, torch.Tensor] = {}
    _collect(values, found, depth)
    return list(found.values())


def with_inner(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """`tensors`, and those which the transforms of torch.func have wrapped to make them: these have the outer graph."""
    found: list[torch.Tensor] = []
    for tensor in tensors:
        found.append(tensor)
        while is_wrapped(found[-1]):
            found.append(torch._C._functorch.get_unwrapped(found[-1]))
    return found


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a transform of torch.func has wrapped `tensor` for its time."""
    # torch 2.1 knows no one question for both
    return torch._C._functorch.is_batchedtensor(tensor) or torch._C._functorch.is_gradtrackingtensor(tensor)


def saved_by(node: Node) -> Iterator[Saved]:
    """The tensors that `node` saved and shows, as they are now."""
    for attribute, tensor in saved_tensors(node):
        yield Saved(attribute, None, None, None) if tensor is None else snapshot(attribute, tensor)


def saved_tensors(node: Node) -> Iterator[tuple[str, torch.Tensor | None]]:
    """The tensors that `node` saved and shows, by attribute; None for one that has been written since."""
    for attribute in attributes(node):
        try:
            value = getattr(node, attribute)
        except RuntimeError as problem:
            # Freed by a backward pass that used it up, or written already: only the latter can still fail.
            if PHRASE in str(problem):
                yield attribute, None
            continue
        for tensor in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield attribute, tensor


def snapshot(attribute: str | None, tensor: torch.Tensor) -> Saved:
    """A tensor saved under `attribute`, with the version that it has now."""
    return Saved(attribute, version(tensor), tuple(tensor.shape), probe(tensor))


def complaint(node: Node, attribute: str) -> str | None:
    """What PyTorch says when the saved tensor is read now, or None if it lets us."""
    try:
        getattr(node, attribute)
    except RuntimeError as problem:
        return str(problem)
    return None


def reachable(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node below `roots`, each once."""
    seen: set[Node] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        todo.extend(below for below, _ in node.next_functions)


def around(node: Node, roots: Iterable[Node], steps: int, most: int) -> list[Node]:
    """`node` and those up to `steps` edges from it in the graph below `roots`, the nearest first, `most` in all.

    Empty when `node` is not in that graph.
    """
    below = {one: [near for near, _ in one.next_functions if near is not None] for one in reachable(roots)}
    above: dict[Node, list[Node]] = {}
    for one, nearest in below.items():
        for near in nearest:
            above.setdefault(near, []).append(one)
    found = dict.fromkeys([node] if node in below else [])
    for neighbours in (above, below):
        edge = list(found)[:1]
        for _ in range(steps):
            edge = list(dict.fromkeys(near for one in edge for near in neighbours.get(one, ()) if near not in found))
            found.update(dict.fromkeys(edge[: most // 2]))
    return list(found)[:most]


def operands(node: str) -> tuple[int, ...]:
    """How many tensors, itself included, the method of a tensor takes that a node with this name is named after.

    Several numbers where it has several forms, empty where there is no such method, or none that needs tensors only.
    """
    function = function_of(node)
    if not hasattr(torch.Tensor, function):
        return ()
    counts = set()
    for form in torch._C._jit_get_schemas_for_operator(f"aten::{function}"):
        needed = [argument for argument in form.arguments if not argument.has_default_value()]
        if all(str(argument.type) == "Tensor" and not argument.kwarg_only for argument in needed):
            counts.add(len(needed))
    return tuple(sorted(counts - {0}))


def attributes(node: Node) -> tuple[str, ...]:
    """The attributes under which `node` shows saved tensors."""
    return _attributes(type(node))  # type: ignore[arg-type]  # a type is hashable


@functools.cache
def _attributes(kind: Hashable) -> tuple[str, ...]:  # listing a type's attributes is slow
    names = dir(kind)
    if "saved_tensors" in names:  # a custom Function
        return ("saved_tensors",)
    raw = "_raw_saved_"  # only saved tensors have this twin, saved numbers and sizes do not
    return tuple(f"_saved_{name[len(raw) :]}" for name in names if name.startswith(raw))


def _collect(values: Iterable[Any], found: dict[int, torch.Tensor], depth: int) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found[id(value)] = value
        elif depth and isinstance(value, (list, tuple)):
            _collect(value, found, depth - 1)
        elif depth and isinstance(value, dict):
            _collect(value.values(), found, depth - 1)
