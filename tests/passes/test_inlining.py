from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.inlining import dissolve_classes, inline_functions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n    a()\nf()\n", "a()\n"),
        ("def f():\n    return a()\nf()\n", "a()\n"),
        ("def f(x):\n    return x\ny = f(a)\n", "x = a\ny = x\n"),
        ("def f(x):\n    return x\ny = f(x=a + 1)\n", "x = a + 1\ny = x\n"),
        ("def f(x=1):\n    return x\ny = f()\n", "x = 1\ny = x\n"),
        ("def f(x):\n    return x + 1\ny = f(x) * 2\n", "y = (x + 1) * 2\n"),
        ("def f():\n    a()\ny = f()\n", "a()\ny = None\n"),
        ("def f():\n    a()\n    return\nf()\n", "a()\n"),
        ("def f():\n    a()\n    return b\nf()\n", "a()\n"),
        ("def f():\n    if a:\n        b\n    return c\nif d:\n    while e:\n        x = f()\n",
         "if d:\n    while e:\n        if a:\n            b\n        x = c\n"),
        ("if a:\n    def f():\n        '''b\n        '''\n        c()\nf()\n",
         "if a:\n    pass\n'''b\n        '''\nc()\n"),
        ("class A:\n    @staticmethod\n    def f(x):\n        return x\n    z = 1\ny = A.f(x)\n",
         "class A:\n    z = 1\ny = x\n"),
    ],
)  # fmt: skip
def test_the_body_goes_where_the_call_is(before: str, after: str) -> None:
    assert patches_of(inline_functions, before) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(a):\n    y = a\n    return y\ny = 1\nz = f(y)\n", "y = 1\na = y\ny_1 = a\nz = y_1\n"),
        ("def f(x):\n    x = g(x)\n    return x\nx = 1\ny = f(x)\n", "x = 1\nx_1 = x\nx_1 = g(x_1)\ny = x_1\n"),
        ("def f(x):\n    x = g(x)\n    return x\nx = 1\nx = f(x)\n", "x = 1\nx = g(x)\nx = x\n"),
        ("def f(x):\n    return [y for y in x]\ny = y_1 = 2\nz = f(x)\n", "y = y_1 = 2\nz = [y_2 for y_2 in x]\n"),
    ],
)
def test_variables_of_the_body_do_not_meet_those_of_the_caller(before: str, after: str) -> None:
    assert patches_of(inline_functions, before) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A:\n    def m(self, x):\n        return self.k * x\n    z = 1\ny = a.b.m(x)\n",
         "class A:\n    z = 1\ny = a.b.k * x\n"),
        ("class A:\n    def forward(self, x):\n        h = self.k(x)\n        return h\nnet = A()\ny = net(x)\n",
         "class A:\n    pass\nnet = A()\nh = net.k(x)\ny = h\n"),
        (("class A:\n    def forward(self, x):\n        return self.k(x)\nclass B:\n    def __init__(self):\n"
         "        self.a = A()\n    def go(self, x):\n        return self.a(x)\n"),
         ("class A:\n    pass\nclass B:\n    def __init__(self):\n        self.a = A()\n    def go(self, x):\n"
         "        return self.a.k(x)\n")),
    ],
)  # fmt: skip
def test_the_object_of_a_method_is_written_as_the_caller_writes_it(before: str, after: str) -> None:
    assert patches_of(inline_functions, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    a()\nf()\nf()\n",
        "def f():\n    if a:\n        return 1\n    return 2\nf()\n",
        "def f():\n    yield 1\nf()\n",
        "async def f():\n    a()\nf()\n",
        "@d\ndef f():\n    a()\nf()\n",
        "def f(*x):\n    a()\nf()\n",
        "def f(x):\n    a()\nf()\n",
        "def f(x):\n    a()\nf(*b)\n",
        "def f(x):\n    a()\nf(1, 2)\n",
        "def f():\n    global a\n    a = 1\nf()\n",
        "def f(n):\n    return f(n - 1)\n",
        "def f(x):\n    return x\n[f(y) for y in z]\n",
        "def f():\n    return 1\nwhile f():\n    a()\n",
        "def f():\n    return k\ndef g(k):\n    return f()\n",
        "class A:\n    def m(self):\n        return self.k\nb().m()\n",
        "def f():\n    a()\n",
    ],
)
def test_a_body_that_could_mean_something_else_there_stays(text: str) -> None:
    assert patches_of(inline_functions, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A:\n    def __init__(self):\n        self.x = 1\na = A()\nb = a.x + a.x\n", "a_x = 1\nb = a_x + a_x\n"),
        (("class A(B):\n    def __init__(self, n):\n        super(A, self).__init__()\n        self.x = n\n"
         "        self.y = self.x\na = A(n)\na.y\n"), "a_x = n\na_y = a_x\na_y\n"),
        (("class A:\n    def __init__(self):\n        super().__init__()\n"
         "        self.register_buffer('x', f(1), persistent=False)\na = A()\na.x\n"), "a_x = f(1)\na_x\n"),
        (("class A:\n    def __init__(self):\n        self.x = 1\nclass B:\n    def __init__(self):\n"
         "        self.a = A()\n        self.z = self.a.x\n    def f(self): return self.a.x\n"),
         ("class B:\n    def __init__(self):\n        self.a_x = 1\n        self.z = self.a_x\n"
         "    def f(self): return self.a_x\n")),
    ],
)  # fmt: skip
def test_attributes_become_variables(before: str, after: str) -> None:
    assert patches_of(dissolve_classes, before)[0] == after


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def __init__(self):\n        self.x = 1\n    def m(self): pass\na = A()\n",
        "class A:\n    def __init__(self):\n        self.x = 1\na = A()\nb = A()\n",
        "class A:\n    def __init__(self):\n        self.x = 1\nf(A())\n",
        "class A:\n    def __init__(self):\n        f(self)\na = A()\n",
        "class A:\n    def __init__(self):\n        self.x = self.y\na = A()\n",
    ],
)
def test_a_class_that_is_more_than_its_attributes_stays(text: str) -> None:
    assert patches_of(dissolve_classes, text) == []
