"""Passes that put the value which an expression had in one run in the place of the expression."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, whole
from shrinkrepro.passes.expressions import largest_first
from shrinkrepro.passes.syntax import delimited
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, count_tokens
from shrinkrepro.program.tree import Tree
from shrinkrepro.runtime.messages import TensorValue, Value


def expression_to_value(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put the number, string, truth value or `None` that an expression came to in its place.

    Before:
        size = max(2, 3) * 4
    After:
        size = 12
    """
    for tree in reversed(facts.trees):
        known = facts.values(tree.file.path)
        for node in largest_first(tree):
            value = known.get(whole(tree, node))
            if value is None or value.kind != "literal" or isinstance(node, (cst.Integer, cst.Float)):
                continue
            if _saves_tokens(tree, node, value.text):
                text = f"({value.text})" if isinstance(tree.parents[node], cst.Attribute) else value.text
                yield patch("replace an expression by its value", Edit(whole(tree, node), (text,)))


def expression_to_tensor(program: Program, facts: Facts) -> Iterator[Patch]:
    """Put a new tensor of the same shape, type and need for gradients in the place of an expression: the cut.

    Before:
        import torch
        x = torch.nn.Linear(3, 2)(torch.rand(4, 3)).softmax(dim=1)
    After:
        import torch
        x = torch.ones(4, 2, requires_grad=True)
    """
    for tree in reversed(facts.trees):
        known = facts.values(tree.file.path)
        for node in largest_first(tree):
            value = known.get(whole(tree, node))
            if value is None or value.tensor is None:
                continue
            for text in stand_ins(value):
                put = text if delimited(tree, node) or "*" not in text else f"({text})"
                if _saves_tokens(tree, node, put):
                    yield patch("replace an expression by a new tensor", Edit(whole(tree, node), (put,)))


def stand_ins(value: Value) -> list[str]:
    """Expressions for a tensor like the one described, simplest first."""
    assert value.tensor is not None
    shape = _shape(value.tensor)
    if value.tensor.dtype == "torch.float32":
        if not value.tensor.requires_grad:
            return [f"torch.ones({shape})"]
        return [f"torch.ones({shape}, requires_grad=True)", f"torch.ones({shape}, requires_grad=True) * 1"]
    if value.tensor.shape == (1,) and value.tensor.dtype in ("torch.int64", "torch.bool"):
        return [f"torch.tensor([{0 if value.tensor.dtype == 'torch.int64' else False}])"]
    gradient = ", requires_grad=True" if value.tensor.requires_grad else ""
    return [f"torch.zeros({shape}, dtype={value.tensor.dtype}{gradient})"]


def _shape(tensor: TensorValue) -> str:
    return ", ".join(map(str, tensor.shape)) or "()"


def _saves_tokens(tree: Tree, node: cst.BaseExpression, text: str) -> bool:
    return count_tokens(text) < count_tokens(f"({tree.text(node)})") - 2
