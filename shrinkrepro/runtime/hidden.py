"""What an in-place operation on a view saved: its node hides that, so the operation is made again, on stand-ins.

The node that such an operation leaves (CopySlices) wraps the one that saves, and shows nothing of it. Whether `exp_`,
`mul_` or `add_` saves its result, what it was given or nothing, torch tells when the same call is made on tensors that
are no views: tensors of the same shapes on the meta device, which have no elements to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from shrinkrepro.runtime import graph
from shrinkrepro.runtime.graph import Node, Saved

_PLAIN = (bool, int, float, complex, str, slice, type(None), type(...), torch.dtype)


class Call(NamedTuple):
    """A call that has been made, the tensors that it was given, and those it wrote to with both versions."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    given: Sequence[torch.Tensor]
    written: Sequence[tuple[torch.Tensor, int, int]]


@dataclass(frozen=True, slots=True)
class _StandIn:
    """What there is to know of a tensor to make another one like it; `index` is its place among those given."""

    index: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool

    def make(self) -> torch.Tensor:
        """A tensor like it, neither a leaf nor a view."""
        tensor = torch.empty(self.shape, dtype=self.dtype, device="meta")
        return tensor.requires_grad_().clone() if self.requires_grad else tensor


@dataclass(frozen=True, slots=True)
class Hidden:
    """A call that wrote to a view. `befores` and `afters` are the tensors that it was given, before it and after it."""

    function: Callable[..., Any]
    arguments: Any
    keywords: Any
    befores: tuple[Saved, ...]
    afters: tuple[Saved, ...]

    @property
    def possible(self) -> tuple[Saved, ...]:
        """What the node may have saved."""
        return self.afters + tuple(
            before for before, after in zip(self.befores, self.afters, strict=True) if before is not after
        )

    def saved(self) -> tuple[Saved, ...] | None:
        """What it has saved of these; None where torch cannot be asked."""
        made: dict[int, torch.Tensor] = {}
        try:
            with torch.enable_grad():
                self.function(*_filled(self.arguments, made), **_filled(self.keywords, made))
        except Exception:  # whatever torch may have against stand-ins
            return None
        nodes = list(graph.reachable(map(graph.node_of, made.values())))
        if any(node.name() == graph.COPY_SLICES for node in nodes):
            return None
        return tuple(_saved(nodes, made, self.befores, self.afters))


def hidden(call: Call, needed_grad: bool) -> Hidden:
    """What to remember of a call that wrote to a view; `needed_grad`: its base needed a gradient before."""
    versions = {id(tensor): before for tensor, before, _ in call.written}
    stand_ins = {
        id(tensor): _StandIn(
            index,
            tuple(tensor.shape),
            tensor.dtype,
            needed_grad if id(tensor) in versions else tensor.requires_grad,
        )
        for index, tensor in enumerate(call.given)
    }
    afters = tuple(graph.snapshot(None, tensor) for tensor in call.given)
    befores = tuple(
        replace(after, version=versions[id(tensor)]) if id(tensor) in versions else after
        for tensor, after in zip(call.given, afters, strict=True)
    )
    return Hidden(
        call.function, _spelled(call.arguments, stand_ins), _spelled(call.keywords, stand_ins), befores, afters
    )


def _spelled(value: Any, stand_ins: Mapping[int, _StandIn]) -> Any:
    """`value` with stand-ins for its tensors, and with None for what the program could miss if it were held."""
    if isinstance(value, torch.Tensor):
        return stand_ins.get(id(value))
    if isinstance(value, (list, tuple)):
        return [_spelled(item, stand_ins) for item in value]
    if isinstance(value, dict):
        return {name: _spelled(item, stand_ins) for name, item in value.items()}
    return value if isinstance(value, _PLAIN) else None


def _filled(value: Any, made: dict[int, torch.Tensor]) -> Any:
    """`value` with new tensors for its stand-ins, which also go into `made`."""
    if isinstance(value, _StandIn):
        if value.index not in made:
            made[value.index] = value.make()
        return made[value.index]
    if isinstance(value, list):
        return [_filled(item, made) for item in value]
    if isinstance(value, dict):
        return {name: _filled(item, made) for name, item in value.items()}
    return value


def _saved(
    nodes: Iterable[Node], made: Mapping[int, torch.Tensor], befores: Sequence[Saved], afters: Sequence[Saved]
) -> Iterator[Saved]:
    """The states of the tensors given that `nodes`, made by the same call on the stand-ins `made`, have saved.

    In place of tensors which share their memory with the view, stand-ins are not written: they are as before the call.
    """
    places = {graph.address(tensor): index for index, tensor in made.items()}
    written = {index for index, tensor in made.items() if tensor._version}
    for _, found in (pair for node in nodes for pair in graph.saved_tensors(node)):
        if found is None:  # saved, and then written by the call
            yield from (befores[index] for index in written)
        elif graph.address(found) in places:
            index = places[graph.address(found)]
            yield (afters if index in written else befores)[index]
