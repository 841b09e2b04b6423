"""What is rejected without a run, and what must not be."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from strategies import programs

from shrinkrepro.program.check import invalid, unbound_names
from shrinkrepro.program.source import Program, SourceFile


@pytest.mark.parametrize(
    "text",
    ["x = = 1\n", "return 1\n", "def f():\npass\n", "x = '\0'\n", "break\n", "f(" * 300 + ")" * 300 + "\n"],
    ids=["syntax", "return outside", "no block", "null byte", "break outside", "nested too deep"],
)
def test_text_that_does_not_compile_is_invalid(text: str) -> None:
    assert invalid(Program.of(text)) is not None


def test_the_reason_names_what_is_missing_and_where() -> None:
    reason = invalid(Program.of("print(missing, other)\n", "train.py"))
    assert reason == "train.py: missing, other bound nowhere"


@pytest.mark.parametrize(
    "text",
    [
        "import a.b as c, d.e\nc, d\n",
        "from m import *\nanything\n",
        "for i in (): pass\ni\n",
        "with open('f') as f: f\n",
        "try: pass\nexcept ValueError as e: e\n",
        "def f(a, *b, c=1, **d): return a, b, c, d, f\n",
        "def f():\n    global z\n    z = 1\nz\n",
        "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = x + 1\n    return g\n",
        "[y := i for i in ()]\ny\n",
        "[(i, j) for i in () for j in i]\n",
        "class A:\n    x = 1\n    y = x\n    def f(self): return super().f(), __class__\n",
        "match 1:\n    case [a, *b]: a, b\n    case {'k': c, **d}: c, d\n    case int() as e: e\n",
        "x: int\nx = 1\n",
        "print(__file__, __name__, __doc__, __builtins__)\n",
        "def early(): return late()\ndef late(): return 1\n",
        "lambda a: a\n",
        "del k\n",
    ],
)
def test_a_name_that_is_bound_somehow_is_not_missing(text: str) -> None:
    assert unbound_names(text) == frozenset()


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("x\n", {"x"}),
        ("x += 1\n", set()),
        ("def f(): return x\n", {"x"}),
        ("def f(x): pass\nx\n", {"x"}),
        ("class A:\n    def f(self): return y\n    y = 1\n", {"y"}),
        ("[i for i in ()]\ni\n", {"i"}),
        ("def f(a: T) -> R: return a\n", {"T", "R"}),
        ("from __future__ import annotations\ndef f(a: T) -> R: return a\n", set()),
        ("def f():\n    global z\nz\n", {"z"}),
        ("@d\ndef f(x=e): pass\n", {"d", "e"}),
    ],
)
def test_names_read_and_bound_nowhere_are_missing(text: str, missing: set[str]) -> None:
    assert unbound_names(text) == missing


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_type_parameters_are_bound() -> None:
    assert unbound_names("def f[T](a: T) -> T: return a\nclass C[U]:\n    x: U\ntype V[W] = list[W]\n") == frozenset()


def test_a_name_that_the_original_did_not_bind_either_is_allowed() -> None:
    original = Program.of("exec('set_by_exec = 1')\nprint(set_by_exec)\n")
    assert invalid(Program.of("print(set_by_exec)\n"), original) is None


def test_every_file_is_checked() -> None:
    program = Program.of("import other\n")
    broken = SourceFile.original("other.py", "x = \n")
    assert invalid(Program((*program.files, broken), program.invocation)) is not None


@given(programs())
def test_what_compiles_and_misses_no_name_is_not_rejected(text: str) -> None:
    assert invalid(Program.of(text), Program.of(text)) is None
