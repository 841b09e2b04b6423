"""How PyTorch names graph nodes after the functions that make them."""

from __future__ import annotations

import re

__all__ = ["function_of", "snake"]


def snake(name: str) -> str:
    """An operator's name as a function: "MaskedFill" is "masked_fill"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def function_of(node: str) -> str:
    """The function that a graph node is named after: "MaskedFillBackward1" is made by "masked_fill"."""
    return snake(re.sub(r"Backward\d*$", "", node))
