from __future__ import annotations

import re

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.shapes import equal_sizes, shorten_chains, shorten_sizes, shrink_numbers, simplest_view


def test_all_sizes_become_one_number_at_once_smallest_first() -> None:
    texts = patches_of(equal_sizes, "a = f(64, 10)\nb = f(64)\n")
    assert texts[:4] == [f"a = f({n}, {n})\nb = f({n})\n" for n in (1, 2, 4, 8)]


def test_sizes_that_are_equal_become_one_number_together() -> None:
    assert "a = f(2, 10)\nb = f(2)\n" in patches_of(equal_sizes, "a = f(64, 10)\nb = f(64)\n")


def test_large_sizes_become_one_number_while_kernels_and_strides_stay() -> None:
    assert "c = Conv2d(4, 4, 3, padding=2)\n" in patches_of(equal_sizes, "c = Conv2d(16, 32, 3, padding=2)\n")


@pytest.mark.parametrize(
    "number", ["x[2]", "x.sum(2)", "f(dim=2)", "x ** 2", "x.transpose(2, 3)", "x[..., 2]", "1", "0"]
)
def test_indices_dimensions_and_exponents_are_no_sizes(number: str) -> None:
    texts = patches_of(equal_sizes, f"a = f(64, 32)\ny = {number}\n")
    assert texts
    assert all(text.endswith(f"y = {number}\n") for text in texts)


def test_the_bounds_of_slices_are_sizes_at_first_and_left_alone_then() -> None:
    texts = patches_of(equal_sizes, "a = f(64, 32)[:16]\n")
    assert texts[0] == "a = f(1, 1)[:1]\n"
    assert "a = f(1, 1)[:16]\n" in texts


def test_the_largest_size_never_grows() -> None:
    before = "a = f(5, 3, 2)\n"
    largest = [max(map(int, re.findall(r"\d+", text))) for text in patches_of(equal_sizes, before)]
    assert largest
    assert max(largest) < 5


def test_equal_small_sizes_need_nothing_more() -> None:
    assert patches_of(equal_sizes, "a = f(1, 1)\n") == []


@pytest.mark.parametrize(
    ("before", "alternatives"),
    [
        ("f(16)", ["f(1)", "f(2)", "f(8)"]),
        ("f(2)", ["f(1)"]),
        ("f(1)", []),
        ("f(0)", []),
        ("f(-3)", ["f(1)"]),
        ("f(1e-6)", ["f(1)", "f(1.0)", "f(0.5)"]),
        ("f(0.0)", ["f(1)", "f(0)"]),
        ("f(0.5)", ["f(1)"]),
        ("x[5]", ["x[0]", "x[1]"]),
        ("x[1]", ["x[0]"]),
        ("x[-1]", ["x[0]", "x[1]"]),
        ("x.sum(-1)", ["x.sum(0)", "x.sum(1)"]),
        ("f(dim=1)", ["f(dim=0)"]),
        ("x[:3]", ["x[:1]", "x[:2]"]),
        ("x ** 3", ["x ** 1", "x ** 2"]),
        ("f('3', a)", []),
    ],
)
def test_a_number_becomes_small_but_nothing_becomes_zero_except_an_index(before: str, alternatives: list[str]) -> None:
    assert patches_of(shrink_numbers, before + "\n") == [text + "\n" for text in alternatives]


def test_long_loops_are_shortened_first_and_then_later_numbers_before_earlier_ones() -> None:
    before = "a = 3\nfor i in range(10): f()\nfor i in range(99): g()\nb = 3\n"
    changed = [
        next(new for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new)
        for after in patches_of(shrink_numbers, before)
    ]
    assert changed[:4] == ["for i in range(1): g()", "for i in range(1): f()", "b = 1", "a = 1"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.randn(16, 4, 8)", "torch.randn(1)"),
        ("torch.randn(16, 4, 8)", "torch.randn(4, 8)"),
        ("torch.randn(16, 4, 8)", "torch.randn(16, 4)"),
        ("torch.randn(n, d)", "torch.randn(1)"),
        ("torch.zeros((16, 4))", "torch.zeros((1,))"),
        ("torch.zeros((16, 4))", "torch.zeros((4,))"),
        ("torch.zeros((16, 4))", "torch.zeros(())"),
        ("torch.zeros([16, 4])", "torch.zeros([4])"),
        ("torch.full((16, 4), 0.5)", "torch.full((1,), 0.5)"),
        ("torch.randint(0, 9, (16, 4))", "torch.randint(0, 9, (4,))"),
        ("torch.ones(2, 3, requires_grad=True)", "torch.ones(1, requires_grad=True)"),
        ("x.view(-1, 4)", "x.view(4)"),
        ("x.permute(0, 2, 1)", "x.permute(0, 2)"),
    ],
)
def test_a_tensor_gets_fewer_dimensions(before: str, after: str) -> None:
    assert after + "\n" in patches_of(shorten_sizes, before + "\n")


def test_tensors_of_equal_shape_lose_the_same_dimension_together() -> None:
    before = "x = torch.randn(16, 4)\ny = torch.zeros(16, 4)\nz = torch.ones(3)\n"
    assert "x = torch.randn(4)\ny = torch.zeros(4)\nz = torch.ones(3)\n" in patches_of(shorten_sizes, before)


@pytest.mark.parametrize("text", ["torch.ones(1)", "torch.ones(())", "x.view(4)", "f(2, 3)", "torch.zeros(*s)"])
def test_what_has_no_dimension_to_lose_stays(text: str) -> None:
    assert patches_of(shorten_sizes, text + "\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = a.b(c).d()\n", ["y = a.b(c)\n", "y = a.d()\n"]),
        ("y = (a + b).float()\n", ["y = (a + b)\n"]),
        ("y = a.T.b()\n", ["y = a.T\n", "y = a.b()\n"]),
        ("a.b().c()\n", ["a.b()\n", "a.c()\n"]),
    ],
)
def test_each_link_of_a_chain_can_go(before: str, after: list[str]) -> None:
    assert patches_of(shorten_chains, before) == after


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ny = torch.relu(x)\n",
        "y = self.layer(x)\n",
        "y = Function.apply(x)\n",
        "x.backward()\n",
        "super().f()\n",
        "x.data = y\n",
        "self.data\n",
    ],
)
def test_functions_of_modules_classes_and_objects_are_no_links(text: str) -> None:
    assert patches_of(shorten_chains, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.view(2, 3).add_(1)\n", ["x[0].add_(1)\n", "x[:].add_(1)\n"]),
        ("y = f(x).as_strided((1,), (1,))\n", ["y = f(x)[0]\n", "y = f(x)[:]\n"]),
        ("y = x.clone()\n", []),
        ("y = view(x)\n", []),
    ],
)
def test_a_view_gives_way_to_a_simple_one(before: str, after: list[str]) -> None:
    assert patches_of(simplest_view, before) == after
