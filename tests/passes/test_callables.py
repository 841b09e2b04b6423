from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.callables import apply_decorators, apply_lambdas, apply_partials

WRAPS = "def d(f):\n    def w(*a):\n        return f(*a)\n    return w\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WRAPS + "@d\ndef g(x):\n    return x\ng(1)\n",
         "def f(x):\n    return x\ndef g(*a):\n    return f(*a)\ng(1)\n"),
        (WRAPS + "f = 1\n@d\ndef g(x): return x\n", "f = 1\ndef f_1(x): return x\ndef g(*a):\n    return f_1(*a)\n"),
        (WRAPS + "@c\n@b(1)\n@d\ndef g(x):\n    return x\n",
         "def f(x):\n    return x\n@c\n@b(1)\ndef g(*a):\n    return f(*a)\n"),
        (WRAPS + "if c:\n    @d\n    def g(x):\n        return x\n",
         "if c:\n    def f(x):\n        return x\n    def g(*a):\n        return f(*a)\n"),
        (WRAPS + "@d\ndef g(x): pass\n@d\ndef h(x): pass",
         "def f(x): pass\ndef g(*a):\n    return f(*a)\ndef f(x): pass\ndef h(*a):\n    return f(*a)\n"),
        (WRAPS.replace("    def w", "    @wraps(f)\n    def w") + "@d\ndef g(x): pass\n",
         "def f(x): pass\n@wraps(f)\ndef g(*a):\n    return f(*a)\n"),
    ],
)  # fmt: skip
def test_what_a_decorator_makes_of_a_function_takes_its_name(before: str, after: str) -> None:
    assert patches_of(apply_decorators, before) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def d(f):\n    k[1] = f\n    return f\n@d\ndef g(): pass\ng()\n", "def g(): pass\nk[1] = g\ng()\n"),
        ("def d(f):\n    k[1] = f\n@d\n@e\ndef g(): pass\n", "@e\ndef g(): pass\nk[1] = g\n"),
        ("def d(f):\n    return f\nclass A:\n    @d\n    def g(): pass\n", "class A:\n    def g(): pass\n"),
    ],
)  # fmt: skip
def test_what_a_decorator_does_with_a_function_that_stays_follows_it(before: str, after: str) -> None:
    assert patches_of(apply_decorators, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        WRAPS + "@d\n@e\ndef g(x): pass\nd(h)\n",
        WRAPS + "@d\n@e\ndef g(x): pass\n",
        WRAPS + "class A:\n    @d\n    def g(self): pass\n",
        WRAPS + "@d\nclass A: pass\n",
        WRAPS + "@d(1)\ndef g(x): pass\n",
        "def d(f):\n    k[1] = f\n    return f\n@e\n@d\ndef g(): pass\n",
        "def d(f):\n    return h(f)\n@d\ndef g(): pass\n",
        "def d(f, x=1):\n    return f\n@d\ndef g(): pass\n",
        "def d(f):\n    if a:\n        return b\n    return f\n@d\ndef g(): pass\n",
    ],
)
def test_a_decorator_that_is_used_or_does_otherwise_stays(text: str) -> None:
    assert patches_of(apply_decorators, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = (lambda x: x + 1)(2)\n", "y = 2 + 1\n"),
        ("y = (lambda x, k=3: x * k)(a + 1).b\n", "y = ((a + 1) * 3).b\n"),
        ("f = lambda: a\ny = f() + f()\n", "y = a + a\n"),
        ("def g():\n    f = lambda x: x.k\n    return f(x=1)\n", "def g():\n    return (1).k\n"),
        ("y = (lambda x: x + x)(f())\n", "y = f() + f()\n"),
    ],
)
def test_a_lambda_goes_where_it_is_called(before: str, after: str) -> None:
    assert patches_of(apply_lambdas, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "f = lambda x: x\ng(f)\n",
        "f = lambda x: x\nf = h\nf(1)\n",
        "f = lambda x: x\n",
        "g(lambda x: x)\n",
        "(lambda x: x)(1, 2)\n",
        "(lambda x: x)(*a)\n",
        "(lambda x: x)()\n",
        "(lambda *x: x)(1)\n",
        "(lambda x, *, y=1: x)(1)\n",
    ],
)
def test_a_lambda_that_is_not_plainly_called_stays(text: str) -> None:
    assert patches_of(apply_lambdas, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = partial(f, 1, k=2)(3, j=4)\n", "y = f(1, 3, k=2, j=4)\n"),
        ("y = functools.partial(f, k=2)(*a, k=3, **b)\n", "y = f(*a, k=3, **b)\n"),
        ("g = partial(a.f)\ny = g() + g(1)\n", "y = a.f() + a.f(1)\n"),
        ("y = partial(lambda x: x, 1)()\n", "y = (lambda x: x)(1)\n"),
    ],
)
def test_the_function_of_a_partial_is_called_itself(before: str, after: str) -> None:
    assert patches_of(apply_partials, before) == [after]


@pytest.mark.parametrize("text", ["g = partial(f, 1)\nh(g)\n", "h(partial(f))\n", "partial(*a)()\n", "partial()\n"])
def test_a_partial_that_is_passed_on_stays(text: str) -> None:
    assert patches_of(apply_partials, text) == []
