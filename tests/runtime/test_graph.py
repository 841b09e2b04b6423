"""What is known of graph nodes by their names alone."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from shrinkrepro.runtime import graph


@pytest.mark.parametrize(
    ("node", "counts"),
    [
        ("SigmoidBackward0", (1,)),
        ("MulBackward0", (2,)),
        ("AddmmBackward0", (3,)),
        ("MaxBackward1", (1, 2)),
    ],
)
def test_a_node_named_after_a_method_tells_how_many_tensors_that_takes(node: str, counts: tuple[int, ...]) -> None:
    assert graph.operands(node) == counts


@pytest.mark.parametrize("node", ["NllLossBackward0", "ConvolutionBackward0", "torch::autograd::CopySlices"])
def test_a_node_named_after_no_method_takes_nothing(node: str) -> None:
    assert graph.operands(node) == ()


def test_a_method_that_needs_more_than_tensors_takes_nothing() -> None:
    assert graph.operands("SoftmaxBackward0") == ()
