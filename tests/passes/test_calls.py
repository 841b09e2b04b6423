from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.calls import (
    drop_arguments,
    function_to_method,
    keywords_to_positions,
    map_to_calls,
    method_to_operator,
    module_to_method,
)


def test_all_arguments_go_first_then_half_of_them_then_each_of_them() -> None:
    assert patches_of(drop_arguments, "f(a, b, c)\n") == [
        "f()\n",
        "f(a)\n",
        "f(a, b)\n",
        "f(a, c)\n",
        "f(b, c)\n",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\ntorch.relu(x)\n", ["import torch\nx.relu()\n", "import torch\nx.relu(0)\n"]),
        (
            "import torch.nn.functional as F\nF.softmax(a + b, dim=1)\n",
            ["import torch.nn.functional as F\n(a + b).softmax(dim=1)\n"],
        ),
        ("import torch\ntorch.nn.init.zeros_(x)\n", []),
        ("import torch\ntorch.ones(*shape)\n", []),
        ("relu(x)\n", []),
    ],
)
def test_functions_of_torch_become_methods_of_their_first_argument(before: str, after: list[str]) -> None:
    assert patches_of(function_to_method, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\ntorch.nn.ReLU()(x)\n", ["import torch\nx.relu()\n"]),
        ("import torch\ntorch.nn.ReLU()(x, y)\n", []),
        ("import torch\nnet(x)\n", []),
    ],
)
def test_modules_made_on_the_spot_become_methods(before: str, after: list[str]) -> None:
    assert patches_of(module_to_method, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = x.mul(2)\n", ["y = x * 2\n"]),
        ("y = x.pow(4)\n", ["y = x ** 4\n"]),
        ("y = (a + b).matmul(c)\n", ["y = (a + b) @ c\n"]),
        ("y = -x.mul(2)\n", ["y = -(x * 2)\n"]),
        ("y = x.add(2, alpha=3)\n", []),
        ("y = x.add(other=2)\n", []),
        ("y = x.exp()\n", []),
    ],
)
def test_methods_that_stand_for_operators_become_operators(before: str, after: list[str]) -> None:
    assert patches_of(method_to_operator, before) == after


def test_keywords_are_dropped_all_at_once_and_then_the_first_alone() -> None:
    assert patches_of(keywords_to_positions, "f(a, b=1, c=2)\n") == ["f(a, 1, 2)\n", "f(a, 1, c=2)\n"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("map(f, [x])\n", "[f(x)]\n"),
        ("map(torch.Tensor.zero_, (x, y[0]))\n", "[torch.Tensor.zero_(x), torch.Tensor.zero_(y[0])]\n"),
        ("[*map(lambda t: t + 1, (x,))]\n", "[*[(lambda t: t + 1)(x)]]\n"),
    ],
)
def test_what_is_mapped_over_items_is_called_for_each(before: str, after: str) -> None:
    assert patches_of(map_to_calls, before) == [after]


@pytest.mark.parametrize("text", ["map(f, xs)\n", "map(f, [*xs])\n", "map(f, [x], [y])\n", "g(f, [x])\n"])
def test_a_mapping_over_what_is_not_listed_stays(text: str) -> None:
    assert patches_of(map_to_calls, text) == []
