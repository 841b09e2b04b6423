from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.yields import inline_generators, inline_managers, yields_to_returns


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def g():\n    yield 1\nfor x in g(): f(x)\n", "def g():\n    return 1\nx = g()\nf(x)\n"),
        ("def g():\n    for i in a:\n        if i:\n            yield\n    yield i\nx = next(g())\n",
         "def g():\n    for i in a:\n        if i:\n            return\n    return i\nx = g()\n"),
        ("def g():\n    yield 1\nx = next(iter(g())) + 1\nfor y in g():\n    break\n",
         "def g():\n    return 1\nx = g() + 1\ny = g()\npass\n"),
    ],
)  # fmt: skip
def test_the_first_value_is_returned_to_whoever_takes_values(before: str, after: str) -> None:
    assert patches_of(yields_to_returns, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "def g():\n    yield 1\nx = list(g())\n",
        "def g():\n    yield 1\nx = g()\nfor y in x: f(y)\n",
        "def g():\n    x = yield 1\nfor y in g(): f(y)\n",
        "def g():\n    yield from a\nfor y in g(): f(y)\n",
        "@d\ndef g():\n    yield 1\nfor y in g(): f(y)\n",
        "async def g():\n    yield 1\nfor y in g(): f(y)\n",
        "def g():\n    yield 1\nfor y in g(): f(y)\nelse: h()\n",
        "def g():\n    return 1\nfor y in g(): f(y)\n",
    ],
)
def test_a_generator_of_which_more_is_asked_stays(text: str) -> None:
    assert patches_of(yields_to_returns, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def g():\n    a()\n    yield 1\n    b()\nfor x in g():\n    f(x)\n", "a()\nx = 1\nf(x)\nb()\n"),
        (("def g(n):\n    for i in n:\n        if i:\n            yield i, 1\n            b()\n"
          "if c:\n    for x, y in g(2):\n        if x:\n            continue\n        f(y)\n"),
         ("if c:\n    for i in 2:\n        if i:\n            x, y = i, 1\n            if x:\n"
          "                continue\n            f(y)\n            b()\n")),
        ("def g():\n    yield 1\nfor x in g():\n    if x:\n        break\n", "x = 1\nif x:\n    pass\n"),
        ("def g():\n    yield\nfor x in g():\n    f(x)\n", "x = None\nf(x)\n"),
        ("def g():\n    for x in a:\n        yield x\nx = 0\nfor y in g():\n    f(x, y)\n",
         "x = 0\nfor x_1 in a:\n    y = x_1\n    f(x, y)\n"),
        ("def g():\n    while a:\n        yield b\nfor i, (x, y) in enumerate(g()):\n    f(i, x)\n",
         "i = 0\nwhile a:\n    (x, y) = b\n    f(i, x)\n"),
        (("class A:\n    def __iter__(self):\n        for i in self.r:\n            yield i\n"
          "d = A(2)\nfor x in d:\n    f(x)\n"),
         "class A:\n    pass\nd = A(2)\nfor i in d.r:\n    x = i\n    f(x)\n"),
        ("class A:\n    def g(self, n):\n        yield n\nfor x in a.g(1):\n    f(x)\n",
         "class A:\n    pass\nx = 1\nf(x)\n"),
    ],
)  # fmt: skip
def test_the_body_of_a_loop_goes_where_the_generator_yields(before: str, after: str) -> None:
    assert patches_of(inline_generators, before) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@contextmanager\ndef c(x):\n    a(x)\n    yield x + 1\n    b(x)\nwith c(2) as y:\n    f(y)\n",
         "a(2)\ny = 2 + 1\nf(y)\nb(2)\n"),
        (("@contextlib.contextmanager\ndef c():\n    try:\n        yield\n    finally:\n        b()\n"
          "with c():\n    f()\n    g()\n"),
         "try:\n    f()\n    g()\nfinally:\n    b()\n"),
        ("@contextmanager\ndef c():\n    with d:\n        yield a()\nwith c(): f()\n", "with d:\n    a()\n    f()\n"),
    ],
)  # fmt: skip
def test_the_block_of_a_with_goes_where_its_manager_yields(before: str, after: str) -> None:
    assert patches_of(inline_generators, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "def g():\n    yield 1\n    yield 2\nfor x in g():\n    f(x)\n",
        "def g():\n    yield 1\nfor x in g():\n    f(x)\nfor x in g():\n    f(x)\n",
        "def g():\n    yield 1\nwith g():\n    f(x)\n",
        "@contextmanager\ndef g():\n    yield 1\nfor x in g():\n    f(x)\n",
        "@contextmanager\ndef g():\n    yield 1\nwith g(), h():\n    f(x)\n",
        "def g():\n    yield 1\nfor x in zip(g(), y):\n    f(x)\n",
        "def g():\n    yield 1\nfor x in g():\n    f(x)\nelse:\n    h()\n",
        "def g():\n    if a:\n        return\n    yield 1\nfor x in g():\n    f(x)\n",
        "def g():\n    yield k\ndef f(k):\n    for x in g():\n        k(x)\n",
    ],
)
def test_a_generator_that_more_than_one_loop_runs_through_stays(text: str) -> None:
    assert patches_of(inline_generators, text) == []


ENTER = "class A:\n    def __enter__(self):\n        self.a()\n        return self\n"
LEAVE = "    def __exit__(self, *e):\n        self.b()\n"
GONE = "class A:\n    pass\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ENTER + LEAVE + "with A(1) as x:\n    f(x)\n", GONE + "x = A(1)\nx.a()\nf(x)\nx.b()\n"),
        (ENTER + LEAVE + "with A(1):\n    f(1)\n", GONE + "a = A(1)\na.a()\nf(1)\na.b()\n"),
        (ENTER + LEAVE + "x = A(1)\nwith x:\n    f(1)\n", GONE + "x = A(1)\nx.a()\nf(1)\nx.b()\n"),
        (ENTER + LEAVE + "x = A(1)\nwith x as y:\n    f(y)\n", GONE + "x = A(1)\nx.a()\ny = x\nf(y)\nx.b()\n"),
        (("class A:\n    def __enter__(self):\n        return self.c()\n    def __exit__(self, t, v, w):\n"
          "        pass\na = 1\nwith A() as x:\n    f(x)\n"), GONE + "a = 1\na_1 = A()\nx = a_1.c()\nf(x)\npass\n"),
        (("class A:\n    def __enter__(self):\n        d = self.d\n    def __exit__(self, *e):\n"
          "        return False\nwith A():\n    f()\n"), GONE + "a = A()\nd = a.d\nf()\n"),
    ],
)  # fmt: skip
def test_what_an_object_does_around_a_block_is_written_around_it(before: str, after: str) -> None:
    assert patches_of(inline_managers, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        ENTER + LEAVE + "with A():\n    f()\nwith A():\n    f()\n",
        ENTER + LEAVE + "with A(), b:\n    f()\n",
        ENTER + LEAVE + "with b:\n    f()\n",
        ENTER + LEAVE.replace("self.b()", "self.b(e)") + "with A():\n    f()\n",
        ENTER + "with A():\n    f()\n",
    ],
)
def test_an_object_that_has_to_be_asked_stays_a_manager(text: str) -> None:
    assert patches_of(inline_managers, text) == []
