from __future__ import annotations

import pytest
from passes.pass_testing import observed, patches_of

from shrinkrepro.passes.loops import flatten_comprehensions, last_in_turn, run_through_less


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = [f(x) for x in b]\n", ["a = [f(b)]\n", "a = [f(b[0])]\n"]),
        ("a = [f(x) for x in b + c]\n", ["a = [f(b + c)]\n", "a = [f((b + c)[0])]\n"]),
        ("a = [x.k for x in b + c]\n", ["a = [(b + c).k]\n", "a = [(b + c)[0].k]\n"]),
        ("a = (f() for _ in range(3))\n", ["a = [f()]\n"]),
        ("a = sum(f(i) for i in range(3))\n", ["a = sum([f(0)])\n"]),
        ("a = {i * i for i in range(n, 3)}\n", ["a = {n * n}\n"]),
        ("a = {k: v.w for k, v in zip(b, c)}\n", ["a = {b: c.w}\n", "a = {b[0]: c[0].w}\n"]),
        ("a = [f(i, x) for i, x in enumerate(b)]\n", ["a = [f(0, b)]\n", "a = [f(0, b[0])]\n"]),
        ("a = [f(x) for x in (b, c)]\n", ["a = [f(c)]\n", "a = [f(b)]\n"]),
        ("a = [f(k) for k in {b: c}]\n", ["a = [f(b)]\n"]),
        ("a = [f(v) for v in {b: c}.values()]\n", ["a = [f(c)]\n"]),
        ("a = [f(k, v) for k, v in {b: c}.items()]\n", ["a = [f(b, c)]\n"]),
        ("a = [f() for x, y in b]\n", []),
        ("a = [x for x in b if x]\n", []),
        ("a = [x for y in b for x in y]\n", []),
        ("a = [x for x in []]\n", []),
    ],
)
def test_a_comprehension_becomes_a_display_of_its_only_element(before: str, after: list[str]) -> None:
    assert patches_of(flatten_comprehensions, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("b = iter([2, 3])\na = [x + 1 for x in b]\n", "b = iter([2, 3])\na = [2 + 1]\n"),
        ("b = {'k': 2}\na = {k: -v for k, v in b.items()}\n", "b = {'k': 2}\na = {'k': -2}\n"),
    ],
)
def test_the_variables_of_a_comprehension_may_be_the_literals_that_they_were(before: str, after: str) -> None:
    assert patches_of(flatten_comprehensions, before, observed)[-1] == after


FAILS = """\
import torch
h = torch.ones(1, requires_grad=True).exp()
t = 0
LOOP
    if h is not None:
        h.mul_(2)
    t = t + h.exp()
    s = t
t.backward()
"""


@pytest.mark.parametrize("loop", ["for i in range(2):", "while t < 50:"])
def test_what_changes_the_tensor_goes_to_the_end_of_one_turn(loop: str) -> None:
    text = FAILS.replace("LOOP", loop)
    head, tail = FAILS.partition("LOOP\n")[0], "t.backward()\n"
    after = f"{head}t = t + h.exp()\ns = t\nif h is not None:\n    h.mul_(2)\n{tail}"
    assert patches_of(last_in_turn, text, observed) == [after]


def test_what_is_at_the_end_of_its_turn_or_in_no_loop_stays() -> None:
    at_end = """\
        import torch
        h = torch.ones(1, requires_grad=True).exp()
        for i in range(2):
            y = h.exp()
            h.mul_(2)
        y.backward()
        """
    assert patches_of(last_in_turn, at_end, observed) == []
    assert patches_of(last_in_turn, at_end.replace("            y", "            pass\n        y"), observed) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for x, y in zip(a, b):\n    f(x, y)\n",
         ["for x in a:\n    f(x, 1)\n", "for y in b:\n    f(1, y)\n"]),
        ("for i, (x, y) in enumerate(a):\n    f(i, x)\n", ["for x, y in a:\n    f(0, x)\n"]),
        ("c = [f(x, y) for x, y in zip(a, b)]\n", ["c = [f(x, 1) for x in a]\n", "c = [f(1, y) for y in b]\n"]),
        ("for x in zip(a, b):\n    f(x)\n", []),
        ("for x, y, z in zip(a, b, c):\n    f(x)\n", []),
        ("for x, y in a:\n    f(x)\n", []),
    ],
)  # fmt: skip
def test_a_loop_over_pairs_becomes_one_over_either_half(before: str, after: list[str]) -> None:
    assert patches_of(run_through_less, before) == after
