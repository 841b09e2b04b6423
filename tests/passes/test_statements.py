from __future__ import annotations

import pytest
from passes.pass_testing import observed, patches_of, together

from shrinkrepro.passes.statements import (
    delete_statements,
    keep_what_ran,
    split_lines,
    strip_annotations,
    strip_layout,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # one\n", "x = 1\n"),
        ("#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nx = 1\n", "x = 1\n"),
        ("x = 1\n\n\ny = 2\n", "x = 1\ny = 2\n"),
        ("x = 1   \n", "x = 1\n"),
        ("def f():\n    # first\n    x = 1\n    # last\n", "def f():\n    x = 1\n"),
        ("f(\n    1,\n    2,\n)\n", "f(1, 2)\n"),
        ("x = [  # why\n    1,\n]\n", "x = [1]\n"),
        ("x = (a +\n     b)\n", "x = (a + b)\n"),
        ("x = (a\n     .b())\n", "x = (a.b())\n"),
        ("x = a + \\\n    b\n", "x = a + b\n"),
        ("from a import (\n    b,\n    c,\n)\n", "from a import (b, c)\n"),
        ("def f(a, *, b,): pass\n", "def f(a, *, b): pass\n"),
        ("x = {\n    'a': 1,\n}\n", "x = {'a': 1}\n"),
        ("x = 'Größe'  # ä\n", "x = 'Größe'\n"),
    ],
)
def test_layout_goes_and_the_code_stays(before: str, after: str) -> None:
    assert patches_of(strip_layout, before) == [after]


@pytest.mark.parametrize(
    "text",
    [
        "x = '# no comment'\n",
        'x = f(1)\ny = """\n\n# no comment\n"""\n',
        "x = (1,)\n",
        "x[1,]\n",
        "for x in (a,): pass\n",
    ],
)
def test_what_only_looks_like_layout_stays(text: str) -> None:
    assert patches_of(strip_layout, text) == []


def test_a_docstring_that_is_all_a_block_has_leaves_pass() -> None:
    before = 'class A:\n    """Nothing."""\n'
    assert patches_of(strip_layout, before) == ["class A:\n    pass\n"]


def test_comments_can_go_without_the_docstrings() -> None:
    before = '"""Usage."""\nprint(__doc__)  # shown\n'
    assert patches_of(strip_layout, before) == ["print(__doc__)\n", '"""Usage."""\nprint(__doc__)\n']


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x: int = 3\n", "x = 3\n"),
        ("x: int = (1, 2)\n", "x = (1, 2)\n"),
        ("x: int = (\n    3)\n", "x = (\n    3)\n"),
        ("class A:\n    x: int\n    y = 1\n", "class A:\n    y = 1\n"),
        ("class A:\n    x: int\n", "class A:\n    pass\n"),
        ("def f(a: int = 2, *b: str, c: float, **d: int): pass\n", "def f(a = 2, *b, c, **d): pass\n"),
        ("def f() -> int: pass\n", "def f(): pass\n"),
        ("def f(a: 'x -> y') -> 'z': pass\n", "def f(a): pass\n"),
    ],
)
def test_annotations_go(before: str, after: str) -> None:
    assert together(strip_annotations, before) == after


def test_each_annotation_goes_on_its_own() -> None:
    assert patches_of(strip_annotations, "def f(a: int) -> str: pass\n") == [
        "def f(a: int): pass\n",
        "def f(a) -> str: pass\n",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a; b; c\n", "a\nb\nc\n"),
        ("a;\n", "a\n"),
        ("if x:\n    a; b;  # c\n", "if x:\n    a\n    b  # c\n"),
        ("for x in y: a; b\n", "for x in y:\n    a\n    b\n"),
        ("if x:\n  while y: a\nelse: b\n", "if x:\n  while y:\n      a\nelse:\n    b\n"),
    ],
)
def test_statements_get_lines_of_their_own(before: str, after: str) -> None:
    assert together(split_lines, before) == after


def test_lines_with_one_statement_are_not_split() -> None:
    assert patches_of(split_lines, "x = ';'\nif x:\n    y\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1\nraise SystemExit\nx = 2\n", "x = 1\nraise SystemExit\n"),
        ("def f():\n    return 1\nx = 1\n", "x = 1\n"),
        ("def f():\n    return 1\nx = [f]\n", "def f():\n    pass\nx = [f]\n"),
        ("def f():\n    return 1\n    f()\nf()\n", "def f():\n    return 1\nf()\n"),
        ("if 1 > 2:\n    a\nelif 3 > 2:\n    x = 1\nelse:\n    b\n", "if 1 > 2:\n    pass\nelif 3 > 2:\n    x = 1\n"),
        ("try:\n    x = 1\nexcept ValueError:\n    x = 2\n", "x = 1\n"),
        ("try:\n    x = int('a')\n    y = 2\nexcept ValueError:\n    x = 2\nexcept KeyError:\n    x = 3\n",
         "try:\n    x = int('a')\nexcept ValueError:\n    x = 2\n"),
        ("def f():\n    global x\n    x = 1\nf()\n", None),
        ("x = 1\nif x:\n    pass\n", None),
        ("for i in []:\n    x = 1\n    y = 2\nelse:\n    z = 3\n", "for i in []:\n    pass\nelse:\n    z = 3\n"),
    ],
)  # fmt: skip
def test_what_never_ran_goes_at_once(before: str, after: str | None) -> None:
    patches = patches_of(keep_what_ran, before, observed)
    assert patches[:1] == ([] if after is None else [after])


def test_the_parts_that_never_ran_go_one_by_one_as_well() -> None:
    before = "def f():\n    return 1\ndef g():\n    return f()\nx = 1\n"
    assert patches_of(keep_what_ran, before, observed)[1:] == [
        "def f():\n    return 1\nx = 1\n",
        "def g():\n    return f()\nx = 1\n",
    ]


def test_functions_that_look_uncalled_may_stay_while_the_rest_goes() -> None:
    before = "def f():\n    return 1\nif 1 > 2:\n    a\n    b\nraise SystemExit\nc\n"
    after = "def f():\n    return 1\nif 1 > 2:\n    pass\nraise SystemExit\n"
    assert patches_of(keep_what_ran, before, observed)[1] == after


def test_nothing_goes_when_nobody_knows_what_ran() -> None:
    assert patches_of(keep_what_ran, "def f():\n    return 1\n") == []


def test_large_statements_go_first_then_each_from_the_end() -> None:
    before = "a\ndef f():\n    b\n    c\nd\nfor e in f:\n    g\n"
    assert patches_of(delete_statements, before) == [
        "a\nd\nfor e in f:\n    g\n",
        "a\ndef f():\n    b\n    c\nd\n",
        "a\ndef f():\n    b\n    c\nd\nfor e in f:\n    pass\n",
        "a\ndef f():\n    b\n    c\nfor e in f:\n    g\n",
        "a\ndef f():\n    b\nd\nfor e in f:\n    g\n",
        "a\ndef f():\n    c\nd\nfor e in f:\n    g\n",
        "def f():\n    b\n    c\nd\nfor e in f:\n    g\n",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if x: y\n", "if x: pass\n"),
        ("a; b\n", "b\n"),
        ("@d\ndef f():\n    pass\n", ""),
        ("try:\n    x\nexcept E:\n    y\n", "try:\n    x\nexcept E:\n    pass\n"),
        ("if a:\n    x\nelif b:\n    y\n", "if a:\n    pass\nelif b:\n    y\n"),
    ],
)
def test_a_statement_goes_whole_and_its_block_stays_a_block(before: str, after: str) -> None:
    assert after in patches_of(delete_statements, before)
