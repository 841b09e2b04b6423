"""What an in-place operation on a view saved is told by making it again on stand-ins."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from shrinkrepro.runtime.hidden import Call, Hidden, hidden

Method = Callable[..., Any]


def written(method: Method, *arguments: Any, needed_grad: bool = True) -> Hidden:
    """What is known of `method` called on a view; as tensors it was given that view, then those in `arguments`."""
    return known(method, (torch.ones(2, 3, requires_grad=needed_grad) * 1)[0], *arguments, needed_grad=needed_grad)


def known(method: Method, *arguments: Any, needed_grad: bool = True) -> Hidden:
    """What is known of `method` called with `arguments`."""
    given = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    before = [tensor._version for tensor in given]
    method(*arguments)
    written = [(t, was, t._version) for t, was in zip(given, before, strict=True) if t._version != was]
    return hidden(Call(method, arguments, {}, given, written), needed_grad)


def roles(found: Hidden) -> set[tuple[int, str]]:
    """Which of the given tensors were saved, and as they were when."""
    saved = found.saved()
    assert saved is not None
    moments = {"before": found.befores, "after": found.afters}
    return {
        (index, moment)
        for moment, states in moments.items()
        for index, state in enumerate(states)
        if any(state is one for one in saved)
    }


@pytest.mark.parametrize("method", [torch.Tensor.exp_, torch.Tensor.sigmoid_, torch.Tensor.tanh_])
def test_a_result_that_is_saved_is_what_the_view_became(method: Method) -> None:
    assert roles(written(method)) == {(0, "after")}


def test_a_view_that_the_call_is_given_twice_is_saved_as_it_was() -> None:
    def square_(view: torch.Tensor) -> None:
        view.mul_(view)

    assert roles(written(square_)) == {(0, "before")}


def test_another_view_of_the_same_items_is_saved_as_it_was() -> None:
    base = torch.ones(2, 3, requires_grad=True) * 1
    assert roles(known(torch.Tensor.mul_, base[0], base[0])) == {(1, "before")}


def test_a_factor_is_saved() -> None:
    assert {index for index, _ in roles(written(torch.Tensor.mul_, torch.ones(3, requires_grad=True)))} == {1}


def test_a_factor_of_a_view_that_needed_no_gradient_is_not_saved() -> None:
    factor = torch.ones(3, requires_grad=True)
    assert roles(written(torch.Tensor.mul_, factor, needed_grad=False)) == set()


@pytest.mark.parametrize("arguments", [(1,), (torch.ones(3),)])
def test_what_an_addition_is_given_is_not_saved(arguments: tuple[Any, ...]) -> None:
    assert written(torch.Tensor.add_, *arguments).saved() == ()


def test_a_call_that_torch_refuses_for_stand_ins_tells_nothing() -> None:
    def only_cpu(view: torch.Tensor) -> None:
        view.mul_(float(view.sum()))

    assert written(only_cpu).saved() is None


def test_no_argument_is_kept_alive() -> None:
    class Unused:
        pass

    def ignoring(view: torch.Tensor, unused: Unused) -> None:
        view.neg_()

    unused = Unused()
    gone = weakref.ref(unused)
    found = written(ignoring, unused)
    del unused
    gc.collect()
    assert (found.saved(), gone()) == ((), None)
