from __future__ import annotations

import pytest
from passes.pass_testing import patches_of, together

from shrinkrepro.passes.functions import (
    drop_bases,
    drop_decorators,
    drop_defaults,
    drop_parameters,
    parameters_to_values,
)


def test_each_decorator_goes_with_its_line() -> None:
    before = "class A:\n    @b(\n        1)\n    # why\n    @c\n    async def f(): pass\n@d\nclass B: pass\n"
    assert patches_of(drop_decorators, before) == [
        "class A:\n    @b(\n        1)\n    # why\n    @c\n    async def f(): pass\nclass B: pass\n",
        "class A:\n    @c\n    async def f(): pass\n@d\nclass B: pass\n",
        "class A:\n    @b(\n        1)\n    # why\n    async def f(): pass\n@d\nclass B: pass\n",
    ]
    assert together(drop_decorators, before) == "class A:\n    async def f(): pass\nclass B: pass\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A(B): pass\n", ["class A: pass\n"]),
        ("class A(): pass\n", ["class A: pass\n"]),
        ("class A(B, m=C): pass\n", ["class A: pass\n", "class A(B): pass\n", "class A(m=C): pass\n"]),
        ("class A: pass\n", []),
    ],
)
def test_bases_go_all_at_once_or_one_by_one(before: str, after: list[str]) -> None:
    assert patches_of(drop_bases, before) == after


def test_defaults_go_the_first_ones_first() -> None:
    assert patches_of(drop_defaults, "def f(a, b: int = (1), *, c=2): pass\nlambda d=3: d\n") == [
        "def f(a, b: int = (1), *, c=2): pass\nlambda d: d\n",
        "def f(a, b: int, *, c=2): pass\nlambda d=3: d\n",
        "def f(a, b: int = (1), *, c): pass\nlambda d=3: d\n",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(a, b): return a\nf(1, 2)\nf(3, b=4)\n", "def f(a): return a\nf(1)\nf(3)\n"),
        ("def f(a, b): return b\nf(1, 2)\nf(b=3, a=4)\n", "def f(b): return b\nf(2)\nf(b=3)\n"),
        ("def f(a: int = 1): pass\nf(2)\n", "def f(): pass\nf()\n"),
        ("def f(a, *, b): return a\nf(1, b=2)\n", "def f(a): return a\nf(1)\n"),
        ("def f(*a, **b): return a\nf(1)\n", "def f(*a): return a\nf(1)\n"),
        ("class A:\n    def m(self, a): pass\nx.m(1)\n", "class A:\n    def m(self): pass\nx.m()\n"),
        ("class A:\n    @staticmethod\n    def m(a): pass\nA.m(1)\n",
         "class A:\n    @staticmethod\n    def m(): pass\nA.m()\n"),
        ("class A:\n    def __init__(self, a): pass\nA(1)\n", "class A:\n    def __init__(self): pass\nA()\n"),
        ("class A:\n    def __init__(self, a): pass\nclass B(A):\n    def f(self): super().__init__(1)\n",
         "class A:\n    def __init__(self): pass\nclass B(A):\n    def f(self): super().__init__()\n"),
        ("class A:\n    def forward(self, a): pass\nn.net = A()\nn.net(1)\nother(2)\n",
         "class A:\n    def forward(self): pass\nn.net = A()\nn.net()\nother(2)\n"),
    ],
)  # fmt: skip
def test_an_unread_parameter_goes_with_its_arguments(before: str, after: str) -> None:
    assert patches_of(drop_parameters, before) == [after]


def test_several_unread_parameters_can_go_together() -> None:
    before = "def f(a, b, c): return b\nf(1, 2, 3)\n"
    assert patches_of(drop_parameters, before) == [
        "def f(a, b): return b\nf(1, 2)\n",
        "def f(b, c): return b\nf(2, 3)\n",
    ]
    assert together(drop_parameters, before) == "def f(b): return b\nf(2)\n"


@pytest.mark.parametrize("text", ["def f(a): return a\n", "class A:\n    def m(self): pass\n", "def f(): pass\n"])
def test_parameters_that_are_read_or_stand_for_the_object_stay(text: str) -> None:
    assert patches_of(drop_parameters, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(a): return a * a\nf(2)\nf(a=2)\n", "def f(): return 2 * 2\nf()\nf()\n"),
        ("def f(a=None): return a\nf()\n", "def f(): return None\nf()\n"),
        ("def f(a=3): return a\n", "def f(): return 3\n"),
        ("def f(a, b): return a ** b\nf(-1, x)\n", "def f(b): return (-1) ** b\nf(x)\n"),
        ("class A:\n    def __init__(self, a):\n        self.a = g(a)\nA(8)\n",
         "class A:\n    def __init__(self):\n        self.a = g(8)\nA()\n"),
    ],
)  # fmt: skip
def test_a_parameter_that_is_always_the_same_literal_becomes_it(before: str, after: str) -> None:
    assert after in patches_of(parameters_to_values, before)


@pytest.mark.parametrize(
    "text",
    [
        "def f(a): return a\nf(1)\nf(2)\n",
        "def f(a): return a\nf(x)\n",
        "def f(a=1): return a\nf(*x)\n",
        "def f(a=1):\n    a += 1\n    return a\nf()\n",
        "def f(a=1): return lambda a: a\nf()\n",
        "def f(a): return a\n",
    ],
)
def test_a_parameter_that_may_differ_stays(text: str) -> None:
    assert patches_of(parameters_to_values, text) == []
