"""Which custom Functions visibly return a wrong number of gradients."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from shrinkrepro.program.check import invalid
from shrinkrepro.program.gradients import miscounted
from shrinkrepro.program.source import Program


def function(
    backward: str, forward: str = "ctx, a, b", saves: str = "a, b", base: str = "torch.autograd.Function"
) -> str:
    return (
        f"class Gate({base}):\n"
        f"    @staticmethod\n    def forward({forward}):\n        ctx.save_for_backward({saves})\n        return a\n"
        f"    @staticmethod\n    def backward(ctx, grad):\n{indent(dedent(backward), ' ' * 8)}\n"
    )


@pytest.mark.parametrize(
    "backward",
    [
        "ctx.saved_tensors",
        "return None",
        "return grad",
        "return grad * 2",
        "return grad,",
        "return grad, grad, grad",
        "return 1, 1",
        "return 0",
        "a, b = ctx.saved_tensors\nreturn b",
        "if grad.any():\n    return grad\nreturn grad, grad",
    ],
)
def test_a_backward_that_cannot_give_each_of_two_inputs_its_gradient_is_found(backward: str) -> None:
    assert miscounted(function(backward)) == {"Gate"}


@pytest.mark.parametrize(
    "backward",
    [
        "return grad, grad",
        "return None, None",
        "return grad, None, None",
        "return ctx.saved_tensors",
        "return helper(grad)",
        "return (grad,) * 2",
        "return (grad,) + (None,)",
        "return *ctx.saved_tensors,",
        "both = grad, grad\nreturn both",
        "def inner():\n    return 1\nreturn grad, inner()",
    ],
)
def test_a_backward_that_may_give_each_of_two_inputs_its_gradient_is_not_found(backward: str) -> None:
    assert miscounted(function(backward)) == frozenset()


@pytest.mark.parametrize("backward", ["pass", "return None", "return grad", "return grad, None", "return grad * 2"])
def test_one_input_needs_no_more_than_none(backward: str) -> None:
    assert miscounted(function(backward, "ctx, a", "a")) == frozenset()


@pytest.mark.parametrize("backward", ["return grad, grad", "return 1"])
def test_one_input_has_one_gradient(backward: str) -> None:
    assert miscounted(function(backward, "ctx, a", "a")) == {"Gate"}


def test_what_is_saved_are_as_many_gradients_as_were_saved() -> None:
    assert miscounted(function("return ctx.saved_tensors", saves="a")) == {"Gate"}


@pytest.mark.parametrize("forward", ["ctx, *args", "ctx, a, b=1", "ctx, a, *, b"])
def test_a_forward_that_may_take_any_number_of_inputs_is_in_doubt(forward: str) -> None:
    assert miscounted(function("pass", forward)) == frozenset()


def test_with_a_context_of_its_own_every_parameter_is_an_input() -> None:
    text = """\
        class Gate(Function):
            def forward(a, b): return a * b
            def setup_context(ctx, inputs, output): ctx.save_for_backward(*inputs)
            def backward(ctx, grad): return RESULT
        """
    counts = {result: miscounted(dedent(text.replace("RESULT", result))) for result in ("grad", "(grad, grad)")}
    assert counts == {"grad": {"Gate"}, "(grad, grad)": frozenset()}


def test_another_class_may_return_what_it_likes() -> None:
    assert miscounted(function("pass", base="Function.Other")) == frozenset()


def test_a_candidate_may_not_begin_to_miscount() -> None:
    original = Program.of(f"import torch\n{function('return grad, grad')}")
    candidate = Program.of(f"import torch\n{function('return grad')}")
    assert invalid(candidate, original) == (
        "program.py: Gate needs another number of gradients than its backward returns"
    )


def test_a_program_that_miscounts_from_the_start_may_go_on() -> None:
    original = Program.of(f"import torch\n{function('return grad')}")
    assert invalid(original, original) is None
