from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.classes import classes_to_bases, dissolve_classes, objects_to_functions, objects_to_parts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A:\n    def __init__(self):\n        self.x = 1\na = A()\nb = a.x + a.x\n", "x = 1\nb = x + x\n"),
        (("class A(B):\n    def __init__(self, n):\n        super(A, self).__init__()\n        self.x = n\n"
         "        self.y = self.x\na = A(n)\na.y\n"), "x = n\ny = x\ny\n"),
        (("class A:\n    def __init__(self):\n        super().__init__()\n"
         "        self.register_buffer('x', f(1), persistent=False)\na = A()\na.x\n"), "x = f(1)\nx\n"),
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
        "class A:\n    def __init__(self):\n        self.x = 1\na = A()\nf(A())\n",
        "class A:\n    def __init__(self):\n        self.x = 1\nf(A())\n",
        "class A:\n    def __init__(self):\n        f(self)\na = A()\n",
        "class A:\n    def __init__(self):\n        self.x = self.y\na = A()\n",
    ],
)
def test_a_class_that_is_more_than_its_attributes_stays(text: str) -> None:
    assert patches_of(dissolve_classes, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A:\n    def __init__(self, n):\n        self.x = n\na = A(1)\nb = A(2)\na.x + b.x\n",
         "a_x = 1\nb_x = 2\na_x + b_x\n"),
        ("class A:\n    def __init__(self, n):\n        self.x, self.y = n\ny = A(z).x + 1\n",
         "x, a_y = z\ny = x + 1\n"),
        ("class A:\n    def __init__(self):\n        self.x: int = 1\na = A()\na.x\n", "x: int = 1\nx\n"),
        ("class A:\n    def __init__(self):\n        self.x = 1\na = A()\na.x\nx = 2\n", "a_x = 1\na_x\nx = 2\n"),
        ("import x\nclass A:\n    def __init__(self):\n        self.x = 1\na = A()\na.x\n", "import x\na_x = 1\na_x\n"),
        ("class A:\n    def __init__(self):\n        self.sum = 1\na = A()\na.sum\n", "a_sum = 1\na_sum\n"),
        ("class A:\n    def __init__(self, x):\n        self.x = x + 1\na = A(2)\na.x\n", "a_x = 2 + 1\na_x\n"),
    ],
)  # fmt: skip
def test_each_object_gets_variables_of_its_own(before: str, after: str) -> None:
    assert patches_of(dissolve_classes, before) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A:\n    x = 1\n    y: int = 2\na = A()\nb = a.x\n", "x = 1\nb = x\n"),
        ("@dataclass\nclass A:\n    x: int\n    y: int = 2\na = A(3)\nb = a.x + a.y\n",
         "x = 3\ny = 2\nb = x + y\n"),
        ("class A:\n    x = 1\nb = A.x\nA.x = 3\n", "x = 1\nb = x\nx = 3\n"),
        ("class A(B): pass\na = A()\na.x = 1\nb = a.x\n", "x = 1\nb = x\n"),
    ],
)  # fmt: skip
def test_fields_that_are_read_become_variables(before: str, after: str) -> None:
    assert patches_of(dissolve_classes, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    x = 1\na = A()\nb = A()\na.x\n",
        "class A:\n    x = 1\na = A(2, 3)\na.x\n",
        "class A:\n    x = 1\nf(A)\nA().x\n",
        "class A:\n    x = 1\na = A()\na.y\n",
        "class A:\n    x = 1\n    def f(self): pass\na = A()\na.x\n",
    ],
)
def test_fields_of_what_may_be_more_than_one_object_or_a_record_stay(text: str) -> None:
    assert patches_of(dissolve_classes, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A(B): pass\na = A()\nc = isinstance(a, A)\n", "a = B()\nc = isinstance(a, B)\n"),
        ("class A(b.C):\n    def __init__(self, n):\n        m = n + 1\n        super().__init__(m, key=n)\na = A(2)\n",
         "m = 2 + 1\na = b.C(m, key=2)\n"),
        ("class A(B):\n    def __init__(self):\n        super().__init__()\nx = A()(y)\nz = A()\n",
         "x = B()(y)\nz = B()\n"),
    ],
)  # fmt: skip
def test_a_class_that_adds_nothing_gives_way_to_its_base(before: str, after: str) -> None:
    assert patches_of(classes_to_bases, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "class A: pass\na = A()\n",
        "class A(B, C): pass\na = A()\n",
        "class A(B):\n    x = 1\na = A()\n",
        "class A(B):\n    def __init__(self):\n        super().__init__()\n        self.x = 1\na = A()\n",
        "class A(B):\n    def __init__(self):\n        f(self)\n        super().__init__()\na = A()\n",
        "@d\nclass A(B): pass\na = A()\n",
    ],
)
def test_a_class_that_adds_something_to_its_base_stays(text: str) -> None:
    assert patches_of(classes_to_bases, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A(B):\n    def forward(self, x):\n        return f(x)\ng(A())\nA()(1)\n",
         "def A(x):\n    return f(x)\ng(A)\nA(1)\n"),
        ("class A:\n    def __call__(self): f()\ng(A())\n", "def A(): f()\ng(A)\n"),
        (("class A(B):\n    def __init__(self, n):\n        super().__init__()\n        self.p = f(n)\n"
          "    def forward(self, x, y):\n        return self.p(x, y)\ng(A(2), A(a + b))\n"),
         "n = a + b\ng(f(2), f(n))\n"),
    ],
)  # fmt: skip
def test_an_object_that_is_only_called_is_a_function_or_the_part_that_it_calls(before: str, after: str) -> None:
    assert patches_of(objects_to_functions, before) == [after]


DELEGATES = (
    "class A:\n    def __init__(self):\n        self.p = f()\n    def forward(self, x):\n        return self.p(x)\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def forward(self, x):\n        return self.f(x)\ng(A())\n",
        "class A:\n    def forward(self, x):\n        return f(x)\ng(A(1))\n",
        "class A:\n    def forward(self, x):\n        return f(x)\ng(A)\n",
        "class A:\n    def forward(self, x):\n        return f(x)\n    z = 1\ng(A())\n",
        "class A:\n    def go(self, x):\n        return f(x)\ng(A())\n",
        DELEGATES.replace("p(x)", "p(x, 1)") + "g(A())\n",
        DELEGATES.replace("p(x)", "q(x)") + "g(A())\n",
        DELEGATES.replace("f()", "f(self)") + "g(A())\n",
        DELEGATES,
    ],
)
def test_an_object_that_does_more_than_being_called_stays(text: str) -> None:
    assert patches_of(objects_to_functions, text) == []


HOLDS = "class A(B):\n    def __init__(self, n):\n        super().__init__()\n        self.p = f(n)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HOLDS + "a = A(1)\ng(a, a.p, b.p)\n", ["a = f(1)\ng(a, a, b.p)\n"]),
        (HOLDS + "a = A(1)\nc.d = A(2)\nc.d.p.e\n", ["a = f(1)\nc.d = f(2)\nc.d.e\n"]),
        (HOLDS + "        self.q = 1\na = A(1)\n", []),
        (HOLDS + "        g(self)\na = A(1)\n", []),
        (HOLDS + "    def h(self): pass\na = A(1)\n", []),
    ],
)
def test_an_object_with_one_part_is_that_part(before: str, after: list[str]) -> None:
    assert patches_of(objects_to_parts, before) == after
