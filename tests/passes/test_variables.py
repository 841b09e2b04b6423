from __future__ import annotations

import pytest
from passes.pass_testing import observed, patches_of

from shrinkrepro.passes.variables import (
    compute_once,
    drop_results,
    index_once,
    inline_next,
    inline_variables,
    merge_names,
    reuse_names,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = f()\ny = g(x)\n", ["y = g(f())\n"]),
        ("x = a + b\ny = x * x\n", ["y = (a + b) * (a + b)\n"]),
        ("x = f()\nx = g()\ny = x\n", []),
        ("x = f()\n", []),
        ("x += 1\ny = x\n", []),
    ],
)
def test_a_variable_assigned_once_is_inlined(before: str, after: list[str]) -> None:
    assert patches_of(inline_variables, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = f()\nx = g(x)\nh(x)\n", ["x = g(f())\nh(x)\n"]),
        ("x = f()\ny = g(x)\nh(x)\n", []),
        ("x = f()\nx = g(x, x)\n", []),
    ],
)
def test_a_value_goes_into_the_statement_that_rebinds_its_name(before: str, after: list[str]) -> None:
    assert patches_of(inline_next, before) == after


def test_a_second_name_gives_way_to_the_first() -> None:
    assert patches_of(merge_names, "y = x\ny += 1\nf(y)\n") == ["x += 1\nf(x)\n"]


def test_none_takes_the_place_of_no_name_that_is_assigned_again() -> None:
    assert patches_of(merge_names, "y = None\ny = f()\ng(y)\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = f(x)\ny[0].sum()\ng(y[0])\n", ["y = f(x)[0]\ny.sum()\ng(y)\n"]),
        ("y = f(x)\ny[0].sum()\ng(y[1])\n", []),
        ("y = f(x)\ny[0].sum()\ng(y)\n", []),
    ],
)
def test_an_item_that_every_use_asks_for_is_taken_once(before: str, after: list[str]) -> None:
    assert patches_of(index_once, before) == after


def test_results_lose_their_names_and_keep_their_values() -> None:
    assert patches_of(drop_results, "y = x.add_(1)\n") == ["x.add_(1)\n"]


def test_of_two_names_for_tensors_the_one_bound_first_is_used() -> None:
    before = "import torch\nx = torch.ones(1)\ny = torch.ones(1)\nz = abs(y)\n"
    assert before.replace("abs(y)", "abs(x)") in patches_of(reuse_names, before, observed)
    assert before.replace("abs(y)", "abs(x * 1)") not in patches_of(reuse_names, before.replace("y", "x"), observed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = g(f(x))\nb = f(x)\n", ["y = f(x)\na = g(y)\nb = y\n"]),
        ("a = f(x)\nb = f(x) + f(x)\n", ["a = f(x)\nb = a + a\n"]),
        ("y = 1\nfor i in f(x):\n    g(f(x))\n", ["y = 1\ny_1 = f(x)\nfor i in y_1:\n    g(y_1)\n"]),
        ("a = f(x) + f(x)\n", []),
        ("a = f()\nb = f()\n", []),
        ("a = f(x)\nb = f(y)\n", []),
        ("a = f(x)\ndef g():\n    return f(x)\n", []),
        ("a = [f(x) for x in b]\nc = [f(x) for x in b]\n", []),
    ],
)
def test_what_is_computed_twice_in_one_scope_is_computed_once(before: str, after: list[str]) -> None:
    assert patches_of(compute_once, before) == after
