"""A run that writes down what its backward passes computed, so that two versions of a program can be compared.

The reference is the program itself, run as if every write that PyTorch notices left alone what backward still needs:
each tensor that is saved is copied at that moment, and backward reads the copy once the tensor's version has changed.
(PyTorch's `allow_mutation_on_saved_tensors` promises the same, but misses writes through views that start elsewhere in
memory than the saved tensor.) What is written past the version counter, through `.data` say, backward reads as it does
in any run of the program.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import hashlib
import math
import signal
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.autograd import Variable

from shrinkrepro.runtime import graph
from shrinkrepro.runtime.engine import Engine
from shrinkrepro.runtime.messages import Numbers, Pass
from shrinkrepro.runtime.tracer import engine_arguments

# Elements of all gradients of one pass that travel in full; what is beyond is thinned out evenly.
_MOST_ELEMENTS = 1 << 16


class Prover:
    """Watches the backward passes of one run.

    `hint`: "first" and "last" are the numbers of the passes to write down, counted from 1 as they finish; "reference"
    says whether saved tensors are copied; after "seconds" the run is ended with `exhausted`.
    """

    def __init__(self, hint: Mapping[str, Any], exhausted: Callable[[], None]) -> None:
        self._first, self._last = int(hint["first"]), int(hint["last"])
        self._reference, self._seconds = bool(hint["reference"]), float(hint["seconds"])
        self._exhausted = exhausted
        self._stack = ExitStack()
        self._finished = 0
        self._done: list[Pass] = []
        self._under_way = False
        self._failing: tuple[Numbers, ...] | None = None  # the losses of a pass that has not finished
        self._contributions: _Contributions | None = None

    def __enter__(self) -> Prover:
        engine = Variable._execution_engine
        Variable._execution_engine = Engine(engine, self._backward)  # type: ignore[assignment]
        self._stack.callback(setattr, Variable, "_execution_engine", engine)
        signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        if self._reference:
            self._stack.enter_context(_without_checkpoints())
            self._stack.enter_context(_hooks_inside_transforms())
            self._stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_pack, _unpack))
        return self

    def __exit__(self, *exception: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._stack.close()

    def passes(self) -> tuple[Pass, ...]:
        """The passes written down; one that has not finished, because it failed, comes last. Ends the watch on time."""
        signal.setitimer(signal.ITIMER_REAL, 0)  # a report is under way: no second one must cut in
        failing = [] if self._failing is None else [Pass(self._finished + 1, self._failing, (), finished=False)]
        return (*self._done, *failing)

    def _late(self, number: int, frame: FrameType | None) -> None:
        self._exhausted()

    def _backward(self, engine: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        wanted = engine_arguments(arguments, keywords)
        if self._under_way:  # a pass within another, as a checkpoint runs it, is part of that one
            if self._contributions is not None and wanted["accumulate_grad"]:
                self._contributions.add(wanted["tensors"], inner=True)
            return engine.run_backward(*arguments, **keywords)
        self._under_way = True
        try:
            if self._first <= self._finished + 1 <= self._last:
                return self._written_down(engine, arguments, keywords, wanted)
            result = engine.run_backward(*arguments, **keywords)
            self._finished += 1
            return result
        finally:
            self._under_way = False

    def _written_down(
        self, engine: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], wanted: Mapping[str, Any]
    ) -> Any:
        losses = _all_numbers([tensor for tensor in wanted["tensors"] if isinstance(tensor, torch.Tensor)])
        self._failing = losses
        with _Contributions() as self._contributions:
            self._contributions.add(wanted["tensors"])
            result = engine.run_backward(*arguments, **keywords)
        self._failing = None
        self._finished += 1
        gradients = self._contributions.came() if wanted["accumulate_grad"] else graph.tensors_in((result,))
        self._done.append(Pass(self._finished, losses, _all_numbers(gradients)))
        self._contributions = None
        return result


def numbers(tensor: torch.Tensor, most: int = _MOST_ELEMENTS) -> Numbers:
    """What identifies the elements of `tensor`: a digest of all, their norm, up to `most` of them, evenly spaced.

    Of a tensor that transforms of torch.func have wrapped, what is inside counts.
    """
    with torch._C._DisableFuncTorch():
        return _numbers(graph.with_inner([tensor])[-1].detach(), most)


def _numbers(plain: torch.Tensor, most: int) -> Numbers:
    shape, dtype = tuple(plain.shape), str(plain.dtype)
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    flat = plain.cpu().contiguous().reshape(-1)
    digest = hashlib.sha256(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())).hexdigest()
    every = max(1, math.ceil(flat.numel() / max(1, most)))
    sample = array("d", flat[::every].double().tolist())
    norm = float(flat.double().norm())
    return Numbers(shape, dtype, digest, norm, base64.b64encode(sample.tobytes()).decode())


def _all_numbers(tensors: Sequence[torch.Tensor]) -> tuple[Numbers, ...]:
    total = sum(tensor.numel() for tensor in tensors)
    share = min(1.0, _MOST_ELEMENTS / max(1, total))
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return tuple(numbers(tensor, math.ceil(tensor.numel() * share)) for tensor in tensors)


class _Contributions:
    """What backward passes add to the gradients of leaves, one tensor a leaf, watched between enter and exit."""

    def __init__(self) -> None:
        self._leaves: dict[graph.Node, weakref.ref[torch.Tensor] | None] = {}
        self._handles: list[Any] = []
        self._came: dict[graph.Node, torch.Tensor] = {}

    def __enter__(self) -> _Contributions:
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()

    def add(self, roots: Sequence[Any], inner: bool = False) -> None:
        """Watch the leaves below `roots` as well; `inner`: those of a pass that runs within another."""
        with torch._C.DisableTorchFunction():
            nodes = [graph.node_of(root) if isinstance(root, torch.Tensor) else root.node for root in roots]
            for node in graph.reachable(nodes):
                leaf = getattr(node, "variable", None)
                if leaf is not None and node not in self._leaves:
                    self._leaves[node] = weakref.ref(leaf) if inner else None
                    self._handles.append(node.register_prehook(functools.partial(self._remember, node)))

    def came(self) -> list[torch.Tensor]:
        """What came, leaf by leaf. Leaves that an inner pass had made for itself are gone by now, and left out."""
        came = [(alive, self._came[node]) for node, alive in self._leaves.items() if node in self._came]
        self._leaves.clear()
        self._handles.clear()
        self._came.clear()
        return [gradient for alive, gradient in came if alive is None or alive() is not None]

    def _remember(self, node: graph.Node, gradients: tuple[torch.Tensor | None, ...]) -> None:
        for gradient in gradients:
            if gradient is not None:
                before = self._came.get(node)
                self._came[node] = gradient.detach().clone() if before is None else before + gradient.detach()


@dataclass(frozen=True, slots=True)
class _Saved:
    """A tensor that a node saved: an alias of its memory, its version then, and a copy of what it held.

    There is no copy of a tensor that a transform of torch.func has wrapped: it would not belong to the outer graph.
    """

    alias: torch.Tensor
    version: int | None
    copy: torch.Tensor | None


def _pack(tensor: torch.Tensor) -> _Saved:
    if graph.is_wrapped(tensor):
        return _Saved(tensor, graph.version(tensor), None)
    with torch.no_grad():
        # a leaf may be kept as it is, and shows what is assigned to its `.data`; others would hold their own node
        return _Saved(tensor if tensor.is_leaf else tensor.detach(), graph.version(tensor), tensor.detach().clone())


def _unpack(saved: _Saved) -> torch.Tensor:
    if graph.version(saved.alias) == saved.version:
        return saved.alias
    if saved.copy is None:
        raise RuntimeError("what a transform of torch.func has saved was written to")
    return saved.copy


@contextmanager
def _hooks_inside_transforms() -> Iterator[None]:
    """Let saved-tensor hooks be: the transforms of torch.func refuse to run where there are any, for fear of copies."""
    module = torch.autograd.graph
    original = module.disable_saved_tensors_hooks
    module.disable_saved_tensors_hooks = nullcontext  # type: ignore[assignment]
    try:
        yield
    finally:
        module.disable_saved_tensors_hooks = original


@contextmanager
def _without_checkpoints() -> Iterator[None]:
    """Run checkpointed segments as they are: computed again later, they would read what has been written meanwhile."""
    import torch.utils.checkpoint as module

    original = module.checkpoint
    options = ("use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state", "early_stop")

    def checkpoint(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **{name: value for name, value in keywords.items() if name not in options})

    module.checkpoint = checkpoint
    try:
        yield
    finally:
        module.checkpoint = original
