from __future__ import annotations

import pytest
from passes.pass_testing import observed, patches_of, together

from shrinkrepro.passes.blocks import (
    drop_clauses,
    drop_conditions,
    drop_with_items,
    return_early,
    shorten_ranges,
    unwrap_blocks,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if a:\n    x\nelse:\n    y\n", ["if a:\n    x\n"]),
        ("if a:\n    x\nelif b:\n    y\nelse:\n    z\n",
         ["if a:\n    x\nelif b:\n    y\n", "if a:\n    x\nelse:\n    z\n"]),
        ("for a in b:\n    x\nelse:\n    y\n", ["for a in b:\n    x\n"]),
        ("while a:\n    x\nelse: y\n", ["while a:\n    x\n"]),
        ("try:\n    x\nexcept A:\n    y\nfinally:\n    z\n",
         ["try:\n    x\nexcept A:\n    y\n", "try:\n    x\nfinally:\n    z\n"]),
        ("match a:\n    case 1:\n        x\n    case 2:\n        y\n",
         ["match a:\n    case 1:\n        x\n", "match a:\n    case 2:\n        y\n"]),
    ],
)  # fmt: skip
def test_each_clause_goes_with_its_block(before: str, after: list[str]) -> None:
    assert patches_of(drop_clauses, before) == after


@pytest.mark.parametrize(
    "text",
    [
        "if a:\n    x\n",
        "for a in b:\n    x\n",
        "with a:\n    x\n",
        "def f():\n    x\n",
        "try:\n    x\nexcept A:\n    y\n",
        "try:\n    x\nfinally:\n    y\n",
        "match a:\n    case 1:\n        x\n",
    ],
)
def test_what_has_no_clause_to_spare_keeps_what_it_has(text: str) -> None:
    assert patches_of(drop_clauses, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if a:\n    x\n    y\n", "x\ny\n"),
        ("if a: x\n", "x\n"),
        ("if a: x; y\nz\n", "x; y\nz\n"),
        ("if a:\n    if b:\n        x\n", "if b:\n    x\n"),
        ("if a:\n    # why\n    x\n\n    y\n", "x\n\ny\n"),
        ("if a:\n    @d\n    def f():\n        x\n", "@d\ndef f():\n    x\n"),
        ("if a:\n    x = '''\n    kept\n    '''\n    y\n", "x = '''\n    kept\n    '''\ny\n"),
        ("if a:\n    f(1,\n      2)\n", "f(1,\n  2)\n"),
        ("if a:\n\tx\n\ty\n", "x\ny\n"),
        ("def f():\n    with a as b, c:\n        x\n    y\n", "def f():\n    x\n    y\n"),
        ("try:\n    x\nexcept A:\n    y\nelse:\n    z\nfinally:\n    w\n", "x\n"),
        ("while a:\n    x\n    break\n", "x\npass\n"),
        ("while a:\n    while b:\n        break\n    if c: continue\n", "while b:\n    break\nif c: pass\n"),
        ("for a in b:\n    x\nelse:\n    y\n", "x\n"),
    ],
)
def test_the_block_takes_the_place_of_its_statement(before: str, after: str) -> None:
    assert patches_of(unwrap_blocks, before)[0] == after


@pytest.mark.parametrize(
    ("before", "headings"),
    [
        ("for a in b:\n    f(a)\n", ["a = b", "a = b[0]", "a = next(iter(b))"]),
        ("for a in b or c:\n    f(a)\n", ["a = b or c", "a = (b or c)[0]", "a = next(iter(b or c))"]),
        ("for a, b in zip(c, d):\n    f(a, b)\n", ["a, b = c, d", "a, b = c[0], d[0]", "a, b = next(iter(zip(c, d)))"]),
        ("for a in range(3):\n    f(a)\n", ["a = 0", "a = next(iter(range(3)))"]),
        ("for a in range(b, 3):\n    f(a)\n", ["a = b", "a = next(iter(range(b, 3)))"]),
        ("for a in (b, c):\n    f(a)\n", ["a = c", "a = b", "a = next(iter((b, c)))"]),
        ("for a, b in enumerate(c):\n    f(a, b)\n",
         ["a, b = 0, c", "a, b = 0, c[0]", "b = next(iter(c))", "a, b = 0, next(iter(c))",
          "a, b = next(iter(enumerate(c)))"]),
        ("for a, (b, d) in enumerate(c):\n    f(a, b)\n",
         ["a, (b, d) = 0, c", "a, (b, d) = 0, c[0]", "(b, d) = next(iter(c))", "a, (b, d) = 0, next(iter(c))",
          "a, (b, d) = next(iter(enumerate(c)))"]),
    ],
)  # fmt: skip
def test_the_first_turn_binds_the_variables_of_its_loop(before: str, headings: list[str]) -> None:
    body = before.partition("\n")[2].strip()
    assert patches_of(unwrap_blocks, before) == [f"{heading}\n{body}\n" for heading in headings]


def test_the_first_turn_may_bind_the_literals_that_its_variables_were() -> None:
    text = "b = {'k': 2}\nfor k, v in b.items():\n    print(k, v)\n"
    assert "b = {'k': 2}\nk, v = 'k', 2\nprint(k, v)\n" in patches_of(unwrap_blocks, text, observed)


def test_a_variable_read_after_its_loop_may_stay() -> None:
    assert patches_of(unwrap_blocks, "for a in range(3):\n    f()\ng(a)\n") == [
        "f()\ng(a)\n",
        "a = 0\nf()\ng(a)\n",
        "a = next(iter(range(3)))\nf()\ng(a)\n",
    ]


def test_the_names_of_a_with_can_stay() -> None:
    assert patches_of(unwrap_blocks, "if x:\n    with a as b, c as (d, e):\n        f(b)\n")[1:] == [
        "if x:\n    f(b)\n",
        "if x:\n    b = a\n    (d, e) = c\n    f(b)\n",
    ]


def test_each_branch_can_be_the_one_that_stays() -> None:
    before = "if a:\n    x\nelif b:\n    y\nelse:\n    z\n"
    assert patches_of(unwrap_blocks, before) == ["x\n", "y\n", "z\n"]


def test_the_branch_that_ran_comes_first() -> None:
    before = "if 1 > 2:\n    x = 1\nelse:\n    x = 2\n"
    assert patches_of(unwrap_blocks, before, observed) == ["x = 2\n", "x = 1\n"]


def test_outer_blocks_come_before_inner_ones_and_both_combine() -> None:
    before = "while a:\n    while b:\n        x\n        y\n"
    assert patches_of(unwrap_blocks, before) == ["while b:\n    x\n    y\n", "while a:\n    x\n    y\n"]
    assert together(unwrap_blocks, before) == "x\ny\n"


@pytest.mark.parametrize(
    "text",
    [
        "async def f():\n    async for a in b:\n        x\n    async with a:\n        x\n",
        "class A:\n    x = 1\n",
        "match a:\n    case 1:\n        x\n",
    ],
)
def test_other_blocks_stay(text: str) -> None:
    assert patches_of(unwrap_blocks, text) == []


def test_each_item_of_a_with_goes_but_the_last_one_left() -> None:
    assert patches_of(drop_with_items, "with a as b, c, d: x\n") == [
        "with a as b, c: x\n",
        "with a as b, d: x\n",
        "with c, d: x\n",
    ]
    assert patches_of(drop_with_items, "with a as b: x\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for a in range(n): x\n", ["for a in range(1): x\n", "for a in range(2): x\n"]),
        ("[0 for a in range(1, n, k)]\n", ["[0 for a in range(1)]\n", "[0 for a in range(2)]\n"]),
        ("range(2)\n", ["range(1)\n"]),
        ("range(1)\n", []),
        ("torch.range(5)\n", []),
    ],
)
def test_ranges_count_to_one_or_two(before: str, after: list[str]) -> None:
    assert patches_of(shorten_ranges, before) == after


def test_each_condition_of_a_comprehension_goes() -> None:
    assert patches_of(drop_conditions, "[a for a in b if a if not c]\n") == [
        "[a for a in b if a]\n",
        "[a for a in b if not c]\n",
    ]


def test_a_function_can_return_each_value_on_the_way_the_earliest_first() -> None:
    before = "def f(a):\n    b = g(a)\n    b += 1\n    c = (h(b))\n    return c\n"
    assert patches_of(return_early, before) == [
        "def f(a):\n    return g(a)\n",
        "def f(a):\n    b = g(a)\n    b += 1\n    return (h(b))\n",
    ]


@pytest.mark.parametrize("text", ["def f():\n    a = 1\n    g(a)\n", "def f():\n    a = 1\n    return\n", "a = 1\nb\n"])
def test_where_no_value_is_returned_none_is_returned_early(text: str) -> None:
    assert patches_of(return_early, text) == []
