from __future__ import annotations

import pytest
from passes.pass_testing import observed, patches_of

from shrinkrepro.passes.inlining import inline_functions, inline_properties


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n    a()\nf()\n", "a()\n"),
        ("def f():\n    return a()\nf()\n", "a()\n"),
        ("def f():\n    return a()\nf()\nb.f()\n", "a()\nb.f()\n"),
        ("def f(x):\n    return x\ny = f(a)\n", "y = a\n"),
        ("def f(x):\n    return x\ny = f(x=a + 1)\n", "x = a + 1\ny = x\n"),
        ("def f(x=1):\n    return x\ny = f()\n", "y = 1\n"),
        ("def f(x):\n    return x + 1\ny = f(x) * 2\n", "y = (x + 1) * 2\n"),
        ("def f(x):\n    return x.k\ny = f(-1)\n", "x = -1\ny = x.k\n"),
        ("def f(x):\n    return x.k\ny = f(1)\n", "y = (1).k\n"),
        ("def f(x):\n    x = x + 1\n    return x\ny = f(a)\n", "x = a\nx = x + 1\ny = x\n"),
        ("def f(x, y):\n    return x + y\nz = f(*a)\n", "x, y = a\nz = x + y\n"),
        ("def f(x, y):\n    return x + y\nz = f(1, *a)\n", "y, = a\nz = 1 + y\n"),
        ("def f(*x, **k):\n    return g(0, *x, **k)\nz = f(a, 1, b=2)\n", "z = g(0, a, 1, b=2)\n"),
        ("def f(*x, **k):\n    return g(*x, **k)\nz = f()\n", "z = g()\n"),
        ("def f(*x, **k):\n    return [x, k]\nz = f(1, b=2)\n", "z = [(1,), dict(b=2)]\n"),
        ("def f(*x):\n    return g(*x)\nz = f(1, *a)\n", "z = g(1, *a)\n"),
        ("def f(x):\n    def g(y):\n        return x + y\n    return g\nh = f(a)\n",
         "def g(y):\n    return a + y\nh = g\n"),
        ("def f():\n    a()\ny = f()\n", "a()\ny = None\n"),
        ("def f():\n    a()\n    return\nf()\n", "a()\n"),
        ("def f():\n    a()\n    return b\nf()\n", "a()\n"),
        ("def f():\n    global a\n    a = 1\na = 0\nf()\n", "a = 0\na = 1\n"),
        ("def g():\n    n = 0\n    def f():\n        nonlocal n\n        n = 1\n    f()\n",
         "def g():\n    n = 0\n    n = 1\n"),
        ("def g():\n    n = 0\n    def f():\n        nonlocal n\n        n = 1\n    return f\nh = g()\n",
         "n = 0\ndef f():\n    global n\n    n = 1\nh = f\n"),
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
        ("def f(a):\n    y = a\n    return y\ny = 1\nz = f(y)\n", "y = 1\ny_1 = y\nz = y_1\n"),
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
        ("class A:\n    def forward(self, x):\n        return self.k(x)\nclass B(A):\n    z = 1\nb = B()\ny = b(1)\n",
         "class A:\n    pass\nclass B(A):\n    z = 1\nb = B()\ny = b.k(1)\n"),
        (("class A(M):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n"
          "class B(A):\n    def __init__(this):\n        super().__init__(1)\n        this.k = 2\n"),
         ("class A(M):\n    pass\nclass B(A):\n    def __init__(this):\n        super().__init__()\n"
          "        this.n = 1\n        this.k = 2\n")),
        ("class A(B):\n    def m(self):\n        return super().m(self.k)\ny = a.b.m()\n",
         "class A(B):\n    pass\ny = a.b.m(a.b.k)\n"),
        ("class A(B):\n    def m(self):\n        super().m()\ny = A().m()\n",
         "class A(B):\n    pass\na = A()\na.m()\ny = None\n"),
        ("class A:\n    def m(self):\n        return self.k\ny = b().m()\n",
         "class A:\n    pass\na = b()\ny = a.k\n"),
        ("class A:\n    def forward(self, x):\n        return x + 1\ny = A()(z)\n",
         "class A:\n    pass\ny = z + 1\n"),
    ],
)  # fmt: skip
def test_the_object_of_a_method_is_written_as_the_caller_writes_it(before: str, after: str) -> None:
    assert patches_of(inline_functions, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    for x in a:\n        return x\ny = f()\n",
        "def f():\n    with a:\n        if b:\n            return 1\n    return 2\ny = f()\n",
        "def f():\n    if a:\n        return 1\n    return 2\nfor x in f(): b\n",
        "def f():\n    if a:\n        return 1\n    return 2\ny = f() + f()\n",
        "def f():\n    if a: return 1\n    return 2\nf()\n",
        "def m(self):\n    return super().m()\nm(a)\n",
        "class A:\n    def __init__(self):\n        b()\na = A()\n",
        "class A:\n    def __init__(s):\n        b()\nclass B(A):\n    def __init__(s): super().__init__()\nA()\n",
        "def f():\n    yield 1\nf()\n",
        "async def f():\n    a()\nf()\n",
        "@d\ndef f():\n    a()\nf()\n",
        "def f(x):\n    a()\nf()\n",
        "def f(x):\n    a()\nf(*b, c)\n",
        "def f(x):\n    a()\nf(**b)\n",
        "def f(x):\n    a()\nf(1, *b)\n",
        "def f(x):\n    a()\nf(1, 2)\n",
        "def f():\n    global a\n    a = 1\ndef g():\n    f()\n",
        "def f(n):\n    return f(n - 1)\n",
        "def f(x):\n    return x\n[f(y) for y in z]\n",
        "def f():\n    return 1\nwhile f():\n    a()\n",
        "def f():\n    return k\ndef g(k):\n    return f()\n",
        "def f():\n    a()\n",
    ],
)
def test_a_body_that_could_mean_something_else_there_stays(text: str) -> None:
    assert patches_of(inline_functions, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f():\n    a()\nf()\nf()\n", "a()\na()\n"),
        ("def f(x):\n    h = x + 1\n    return h\ny = f(1)\nz = f(y)\n", "h = 1 + 1\ny = h\nh = y + 1\nz = h\n"),
        ("def f(x):\n    h = x + 1\n    return h\ny = f(1) + f(2)\n", "h = 1 + 1\nh_1 = 2 + 1\ny = h + h_1\n"),
        ("def f(x):\n    h = x + 1\n    return h\ny = f(f(1))\n", "h = 1 + 1\nx = h\nh_1 = x + 1\ny = h_1\n"),
        ("def f(x):\n    return x + 1\ndef g(x):\n    return f(x)\ny = f(1)\n",
         "def g(x):\n    return x + 1\ny = 1 + 1\n"),
    ],
)  # fmt: skip
def test_a_function_goes_when_its_body_is_at_every_call(before: str, after: str) -> None:
    assert patches_of(inline_functions, before) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x):\n    if x:\n        return 1\n    return 2\ny = f(a)\n",
         "if a:\n    y = 1\nelse:\n    y = 2\n"),
        ("def f(x):\n    if x:\n        b()\n    elif c:\n        return 1\n    return 2\ny = f(a) + 1\n",
         "if a:\n    b()\n    y = 2 + 1\nelse:\n    if c:\n        y = 1 + 1\n    else:\n        y = 2 + 1\n"),
        ("def f(x):\n    if x:\n        return 1\n    b()\ny = f(a)\n",
         "if a:\n    y = 1\nelse:\n    b()\n    y = None\n"),
        ("def f():\n    with a:\n        return b\ny = f()\n", "with a:\n    y = b\n"),
        ("def f(x):\n    if x:\n        return 1\n    return b()\nf(a)\n",
         "if a:\n    pass\nelse:\n    b()\n"),
        ("def f(x):\n    if x:\n        return 1\n    return 2\ndef g(x):\n    return f(x)\n",
         "def g(x):\n    if x:\n        return 1\n    else:\n        return 2\n"),
    ],
)  # fmt: skip
def test_each_way_out_of_a_function_becomes_the_statement_that_called_it(before: str, after: str) -> None:
    assert patches_of(inline_functions, before)[-1] == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x):\n    if x:\n        return 1\n    return 2\ny = f(3)\nz = f(0)\n",
         ["y = 1\nz = 1\n", "y = 1\nz = 2\n", "y = 2\nz = 1\n", "y = 2\nz = 2\n"]),
        ("def f(x):\n    if x:\n        y = 1\n    else:\n        y = 2\n    return y\nfor x in 0, 1:\n    z = f(x)\n",
         ["for x in 0, 1:\n    y = 1\n    z = y\n", "for x in 0, 1:\n    y = 2\n    z = y\n"]),
        ("def f(x):\n    if x:\n        return 1\n    return 2\nf(1)\nf(0)\nf(2)\n", []),
        ("def f(x):\n    if x:\n        return 1\n    return 2\ny = f(1)\nz = f(2)\n", []),
    ],
)  # fmt: skip
def test_each_call_may_keep_one_of_the_branches_that_ran(before: str, after: list[str]) -> None:
    assert patches_of(inline_functions, before, observed)[:-1] == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x):\n    if x:\n        return 1\n    return 2\ny = f(3)\n", "y = 1\n"),
        ("def f(x):\n    if x:\n        return 1\n    return 2\ny = f(0)\n", "y = 2\n"),
        ("def f(x):\n    if x:\n        return 1\n    elif x == 0:\n        return 2\n    return 3\ny = f(0)\n",
         "y = 2\n"),
    ],
)  # fmt: skip
def test_branches_that_did_not_run_are_left_out(before: str, after: str) -> None:
    assert patches_of(inline_functions, before, observed) == [after]


def test_of_the_write_that_is_responsible_one_copy_stays() -> None:
    text = """\
        import torch
        def f(x):
            t.add_(1)
            return x * t
        t = torch.ones(1)
        w = torch.ones(1, requires_grad=True)
        y = f(w)
        z = f(w)
        y.backward()
        """
    kept_last = "y = w * t\nt.add_(1)\nz = w * t\n"
    kept_first = "t.add_(1)\ny = w * t\nz = w * t\n"
    assert [
        kept in text for text in patches_of(inline_functions, text, observed) for kept in (kept_last, kept_first)
    ] == [True, False, False, True]


GETTER = "class A:\n    @property\n    def p(self):\n        return self.q + 1\n"
SETTER = "    @p.setter\n    def p(self, v):\n        self.q = v\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (GETTER + "a = A()\nb = a.p * 2\n", "class A:\n    pass\na = A()\nb = (a.q + 1) * 2\n"),
        (GETTER + SETTER + "a = A()\na.p = f()\n", "class A:\n    pass\na = A()\nv = f()\na.q = v\n"),
        (GETTER + SETTER + "    def m(self):\n        self.p = self.p\n",
         "class A:\n    def m(self):\n        v = self.q + 1\n        self.q = v\n"),
        (GETTER + "a.b.p\n", "class A:\n    pass\na.b.q + 1\n"),
        (GETTER + "A()\n", "class A:\n    pass\nA()\n"),
    ],
)  # fmt: skip
def test_a_property_goes_with_its_setter(before: str, after: str) -> None:
    assert patches_of(inline_properties, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        GETTER + "a.p = 1\n",
        GETTER + SETTER + "a.p += 1\n",
        GETTER + SETTER + "a.p = b.p = 1\n",
        GETTER + "[a.p for a in b]\n",
        GETTER.replace("q", "p"),
        GETTER.replace("@property", "@cached_property") + "a.p\n",
    ],
)
def test_a_property_that_is_used_in_other_ways_stays(text: str) -> None:
    assert patches_of(inline_properties, text) == []


NO_GRAD = "import torch\n@torch.no_grad()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NO_GRAD + "def f(x):\n    x.add_(1)\nf(a)\n", "import torch\nwith torch.no_grad():\n    a.add_(1)\n"),
        (NO_GRAD + "def f(x):\n    return x + 1\ny = f(a)\n", "import torch\nwith torch.no_grad():\n    y = a + 1\n"),
        (NO_GRAD + "def f(x):\n    return x\nf(a)\n", "import torch\nwith torch.no_grad():\n    pass\n"),
        ("class A:\n    @classmethod\n    def f(cls, x):\n        return cls.k + x\ny = A.f(1)\n",
         "class A:\n    pass\ny = A.k + 1\n"),
    ],
)  # fmt: skip
def test_the_decorators_of_torch_and_python_are_made_good(before: str, after: str) -> None:
    assert patches_of(inline_functions, before) == [after]
