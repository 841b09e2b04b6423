"""A run that writes down what its backward passes computed, so that two versions of a program can be compared.

The reference is the program itself, run as if every write left alone what backward still needs: each tensor that is
saved is copied at that moment, so no later write can reach it. (PyTorch's `allow_mutation_on_saved_tensors` promises
the same, but misses writes through views that start elsewhere in memory than the saved tensor.)
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import math
import signal
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
        self._open: list[tuple[Numbers, ...]] = []

    def __enter__(self) -> Prover:
        engine = Variable._execution_engine
        Variable._execution_engine = Engine(engine, self._backward)  # type: ignore[assignment]
        self._stack.callback(setattr, Variable, "_execution_engine", engine)
        signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        if self._reference:
            self._stack.enter_context(_without_checkpoints())
            self._stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_copied, _unchanged))
        return self

    def __exit__(self, *exception: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._stack.close()

    def passes(self) -> tuple[Pass, ...]:
        """The passes written down; one that has not finished, because it failed, comes last. Ends the watch on time."""
        signal.setitimer(signal.ITIMER_REAL, 0)  # a report is under way: no second one must cut in
        failing = [Pass(self._finished + 1, self._open[-1], (), finished=False)] if self._open else []
        return (*self._done, *failing)

    def _late(self, number: int, frame: FrameType | None) -> None:
        self._exhausted()

    def _backward(self, engine: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        if not self._first <= self._finished + 1 <= self._last:
            result = engine.run_backward(*arguments, **keywords)
            self._finished += 1
            return result
        wanted = engine_arguments(arguments, keywords)
        self._open.append(_all_numbers([tensor for tensor in wanted["tensors"] if isinstance(tensor, torch.Tensor)]))
        with _contributions(wanted["tensors"]) as contributions:
            result = engine.run_backward(*arguments, **keywords)
        losses = self._open.pop()
        gradients = contributions if wanted["accumulate_grad"] else graph.tensors_in((result,))
        self._finished += 1
        self._done.append(Pass(self._finished, losses, _all_numbers(gradients)))
        return result


def numbers(tensor: torch.Tensor, most: int = _MOST_ELEMENTS) -> Numbers:
    """What identifies the elements of `tensor`: a digest of all, their norm, up to `most` of them, evenly spaced."""
    plain = tensor.detach()
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    flat = plain.cpu().contiguous().reshape(-1)
    digest = hashlib.sha256(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())).hexdigest()
    every = max(1, math.ceil(flat.numel() / max(1, most)))
    sample = array("d", flat[::every].double().tolist())
    norm = float(flat.double().norm())
    return Numbers(tuple(tensor.shape), str(tensor.dtype), digest, norm, base64.b64encode(sample.tobytes()).decode())


def _all_numbers(tensors: Sequence[torch.Tensor]) -> tuple[Numbers, ...]:
    total = sum(tensor.numel() for tensor in tensors)
    share = min(1.0, _MOST_ELEMENTS / max(1, total))
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return tuple(numbers(tensor, math.ceil(tensor.numel() * share)) for tensor in tensors)


@contextmanager
def _contributions(roots: Sequence[Any]) -> Iterator[list[torch.Tensor]]:
    """What a backward pass from `roots` adds to the leaves' gradients, one tensor a leaf; filled while it runs."""
    with torch._C.DisableTorchFunction():
        nodes = [graph.node_of(root) if isinstance(root, torch.Tensor) else root.node for root in roots]
        leaves = [node for node in graph.reachable(nodes) if getattr(node, "variable", None) is not None]
    came: dict[int, torch.Tensor] = {}
    contributions: list[torch.Tensor] = []

    def remember(index: int) -> Callable[[tuple[torch.Tensor | None, ...]], None]:
        def prehook(gradients: tuple[torch.Tensor | None, ...]) -> None:
            for gradient in gradients:
                if gradient is not None:
                    came[index] = gradient.detach().clone()

        return prehook

    handles = [node.register_prehook(remember(index)) for index, node in enumerate(leaves)]
    try:
        yield contributions
    finally:
        for handle in handles:
            handle.remove()
    contributions += [came[index] for index in sorted(came)]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return tensor.detach().clone()


def _unchanged(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


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
