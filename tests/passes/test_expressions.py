from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.expressions import (
    drop_elements,
    drop_parentheses,
    expression_to_one,
    expression_to_part,
    slices_to_items,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = a + b\n", ["y = a\n", "y = b\n"]),
        ("y = not a\n", ["y = a\n"]),
        ("y = a if b else c\n", ["y = a\n", "y = c\n"]),
        ("y = x[0]\n", ["y = x\n"]),
        ("y = [a][0]\n", ["y = [a]\n", "y = a\n", "y = a[0]\n"]),
        ("y = f(a)\n", ["y = a\n"]),
        ("y = x.f(a)\n", ["y = a\n", "y = x\n"]),
        ("y = x\n", []),
    ],
)
def test_an_expression_is_replaced_by_each_of_its_parts(before: str, after: list[str]) -> None:
    assert patches_of(expression_to_part, before) == after


def test_parts_are_put_in_parentheses_where_they_need_them() -> None:
    assert "y = (a + b) * c\n" in patches_of(expression_to_part, "y = f(a + b) * c\n")


@pytest.mark.parametrize(
    "before", ["x, y = a\n", "for i, j in a:\n    pass\n", "import a.b\n", "def f(a: int):\n    pass\n"]
)
def test_targets_imports_and_annotations_are_no_values(before: str) -> None:
    assert patches_of(expression_to_part, before) == []
    assert patches_of(expression_to_one, before) == []


def test_what_is_called_or_asked_for_an_attribute_is_not_made_a_number() -> None:
    assert patches_of(expression_to_one, "y = (a + b).c()\n") == ["y = 1\n"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = [a, b]\n", ["y = [a]\n", "y = [b]\n"]),
        ("y = x[:, 0]\n", ["y = x[:]\n", "y = x[0]\n"]),
        ("x, y = a\n", []),
        ("y = x[0]\n", []),
    ],
)
def test_elements_and_dimensions_of_an_index_are_dropped(before: str, after: list[str]) -> None:
    assert patches_of(drop_elements, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x[1:] = 0\n", ["x[0] = 0\n"]),
        ("y = x[:2, ::3]\n", ["y = x[:2, 0]\n", "y = x[0, ::3]\n"]),
        ("y = x[:]\n", []),
        ("y = x[1]\n", []),
    ],
)
def test_a_slice_gives_way_to_its_first_item(before: str, after: list[str]) -> None:
    assert patches_of(slices_to_items, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f((1))\n", ["f(1)\n"]),
        ("(x.t()).add_(1)\n", ["x.t().add_(1)\n"]),
        ("y = ((a))\n", ["y = a\n"]),
        ("y = (a + b)\n", ["y = a + b\n"]),
        ("y = (a + b) * c\n", []),
        ("(1).real\n", []),
        ("f((1, 2))\n", []),
        ("y = (a\n     .b)\n", []),
        ("y = (a if b else c)\n", ["y = a if b else c\n"]),
    ],
)
def test_parentheses_that_change_nothing_go(before: str, after: list[str]) -> None:
    assert patches_of(drop_parentheses, before) == after


def test_a_write_to_a_part_becomes_one_to_the_whole() -> None:
    assert "x.y += 1\n" in patches_of(expression_to_part, "x.y[0] += 1\n")


def test_a_write_to_what_a_list_holds_becomes_one_to_that() -> None:
    assert "x += 1\n" in patches_of(expression_to_part, "[x][0] += 1\n")
