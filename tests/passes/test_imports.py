from __future__ import annotations

import pytest
from passes.pass_testing import patches_of, unobserved

from shrinkrepro.passes.imports import canonical_imports, drop_unused_imports
from shrinkrepro.program.source import Invocation, Program, SourceFile


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import a\nx = 1\n", ["x = 1\n"]),
        ("import a as b, c\nc\n", ["import c\nc\n"]),
        ("from a import b, c\n", ["from a import b\n", "from a import c\n"]),
        ("from a import (b, c)\nb\n", ["from a import (b)\nb\n"]),
        ("import a\nimport a\na.x\n", ["import a\na.x\n"]),
        ("from __future__ import annotations\nx = 1\n", ["x = 1\n"]),
        ("def f():\n    import a\n", ["def f():\n    pass\n"]),
    ],
)
def test_names_that_nobody_reads_are_not_imported(before: str, after: list[str]) -> None:
    assert patches_of(drop_unused_imports, before) == after


@pytest.mark.parametrize("text", ["import a.b\na.b.c\n", "from a import *\n", "import a as b\nb\n", "x = 1\n"])
def test_names_that_somebody_reads_stay(text: str) -> None:
    assert patches_of(drop_unused_imports, text) == []


def test_a_name_that_another_file_imports_stays() -> None:
    program = Program(
        (
            SourceFile.original("main.py", "from tools import b\nb\n"),
            SourceFile.original("tools.py", "from a import b\n"),
        ),
        Invocation(root="/", entry="main.py", cwd="/"),
    )
    assert list(drop_unused_imports(program, unobserved(program))) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import a\nimport a.b as c\nc.x(c)\n", "import a\na.b.x(a.b)\n"),
        ("import a\nfrom a import b\nb.x\n", "import a\na.b.x\n"),
        ("import a\nfrom a.b import c, d\nc, d\n", "import a\nfrom a.b import c\nc, a.b.d\n"),
        ("import a.b as c\nc.x\n", "import a\na.b.x\n"),
        ("def f():\n    from a import b as c\n    c.x\n", "def f():\n    import a\n    a.b.x\n"),
    ],
)
def test_an_imported_name_is_written_in_full(before: str, after: str) -> None:
    assert after in patches_of(canonical_imports, before)


@pytest.mark.parametrize(
    "text",
    [
        "import a\na.b\n",
        "import a.b\na.b\n",
        "import a as b\nb.x\n",
        "from . import b\nb.x\n",
        "from a import b\nb = b or 1\n",
        "from a import b, c\nb, c\n",
        "from a import b\n",
    ],
)
def test_what_is_written_in_full_or_cannot_be_stays(text: str) -> None:
    assert patches_of(canonical_imports, text) == []
