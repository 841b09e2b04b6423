"""Calls that are named after the stale node."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from passes.pass_testing import observed, patches_of

from shrinkrepro.passes.nodes import call_named_by_node

LINEAR = """\
import torch
w = torch.ones(1, 1, requires_grad=True) * 1
b = torch.ones(1)
y = torch.nn.functional.linear(w, w, b)
w += 1
y.sum().backward()
"""
LOSS = """\
import torch
weight = torch.ones(1)
y = torch.nn.functional.cross_entropy(torch.ones(1, 1, requires_grad=True), torch.tensor([0]), weight)
weight *= 2
y.backward()
"""


def test_a_method_is_called_on_as_many_tensors_as_it_takes() -> None:
    calls = {line for text in patches_of(call_named_by_node, LINEAR, observed) for line in text.splitlines()[3:4]}
    assert {call.count(",") for call in calls} == {1}
    assert "y = b.addmm(w, w)" in calls


def test_nothing_is_tried_where_tensors_have_no_such_method() -> None:
    assert patches_of(call_named_by_node, LOSS, observed) == []
