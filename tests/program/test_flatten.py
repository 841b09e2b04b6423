"""Several files become one: what is written, what must be renamed, and what has to stay a file."""

from __future__ import annotations

import contextlib
import io
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from shrinkrepro.program.flatten import flattened, importers, unreached
from shrinkrepro.program.source import Invocation, Program, SourceFile, Span, original_lines

Files = Mapping[str, str]


def project(files: Files, **invocation: object) -> Program:
    """The program of these files; the last is the script."""
    call = replace(Invocation(root="/", entry=list(files)[-1], cwd="/"), **invocation)  # type: ignore[arg-type]
    return Program(tuple(SourceFile.original(path, textwrap.dedent(text)) for path, text in files.items()), call)


def flat(files: Files, **invocation: object) -> Program:
    program = project(files, **invocation)
    patch = flattened(program)
    assert patch is not None
    return patch.apply(program)


def printed(files: Files, folder: Path) -> str:
    """What the script prints when Python runs the files as they are."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        entry = list(files)[-1]
        return printed_by((folder / entry).read_text(encoding="utf-8"))
    finally:
        sys.path.pop(0)
        for name in set(sys.modules) - before:
            del sys.modules[name]


def printed_by(text: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, "script.py", "exec"), {"__name__": "__main__"})
    return output.getvalue()


KINDS: dict[str, Files] = {
    "from import": {"nets.py": "def f():\n    return 1\n", "main.py": "from nets import f\nprint(f())\n"},
    "alias": {"nets.py": "def f():\n    return 1\n", "main.py": "from nets import f as g\nprint(g())\n"},
    "attribute": {"nets.py": "def f():\n    return 1\n", "main.py": "import nets\nprint(nets.f())\n"},
    "aliased module": {
        "a/__init__.py": "",
        "a/nets.py": "def f():\n    return 1\n",
        "main.py": "import a.nets as n\nprint(n.f())\n",
    },
    "dotted module": {
        "a/__init__.py": "",
        "a/nets.py": "def f():\n    return 1\n",
        "main.py": "import a.nets\nprint(a.nets.f())\n",
    },
    "package without __init__": {"a/nets.py": "x = 1\n", "main.py": "from a import nets\nprint(nets.x)\n"},
    "star": {"nets.py": "x = 1\n_y = 2\n", "main.py": "from nets import *\nprint(x)\n"},
    "star with __all__": {"nets.py": "__all__ = ['_y']\n_y = 2\n", "main.py": "from nets import *\nprint(_y)\n"},
    "re-export": {
        "a/__init__.py": "from .nets import f\n",
        "a/nets.py": "def f():\n    return 1\n",
        "main.py": "from a import f\nprint(f())\n",
    },
    "relative imports": {
        "a/__init__.py": "",
        "a/b/__init__.py": "",
        "a/base.py": "x = 1\n",
        "a/b/nets.py": "from .. import base\nfrom ..base import x\ny = base.x + x\n",
        "main.py": "from a.b.nets import y\nprint(y)\n",
    },
    "same name in two modules": {
        "one.py": "def f():\n    return 1\n",
        "two.py": "def f():\n    return 2\n",
        "main.py": "import one\nimport two\nprint(one.f(), two.f())\n",
    },
    "name of the script's own": {
        "one.py": "x = 1\ndef f():\n    return x\n",
        "main.py": "from one import f\nx = 2\nprint(f(), x)\n",
    },
    "local variable of the same name": {
        "one.py": "def f():\n    return 1\n",
        "main.py": "import one\ndef g():\n    f = one.f()\n    return f\nprint(g())\n",
    },
    "global statement": {
        "one.py": "n = 0\ndef f():\n    global n\n    n += 1\n    return n\n",
        "main.py": "from one import f\nn = 5\nprint(f(), f(), n)\n",
    },
    "same alias for different libraries": {
        "one.py": "import math as m\nx = m.pi\n",
        "main.py": "import one\nimport cmath as m\nprint(one.x, m.sqrt(-1))\n",
    },
    "import in a function": {
        "one.py": "x = 1\n",
        "main.py": "def f():\n    from one import x as y\n    return y\nprint(f())\n",
    },
    "fallback import": {
        "one.py": "x = 1\n",
        "main.py": "try:\n    from one import x\nexcept ImportError:\n    x = 2\nprint(x)\n",
    },
    "import on a line with others": {
        "one.py": "x = 1\n",
        "main.py": "import math, one; print(math.floor(one.x))\n",
    },
    "only statement of a block": {"one.py": "x = 1\n", "main.py": "if True: import one\nprint(2)\n"},
    "main guard": {
        "one.py": "x = 1\nif __name__ == '__main__':\n    print('no')\n",
        "main.py": "from one import x\nif __name__ == '__main__':\n    print(x)\n",
    },
    "cycle": {
        "a.py": "import b\ndef f():\n    return b.g()\n",
        "b.py": "import a\ndef g():\n    return 1\ndef h():\n    return a.f()\n",
        "main.py": "from a import f\nfrom b import h\nprint(f(), h())\n",
    },
    "future": {
        "one.py": "from __future__ import annotations\ndef f(x: Unknown):\n    return x\n",
        "main.py": "import one\nprint(one.f(1))\n",
    },
    "no newline at the end": {"one.py": "x = 1", "main.py": "from one import x\nprint(x)"},
    "module that shadows a builtin": {
        "one.py": "def max(a, b):\n    return a\n",
        "main.py": "import one\nprint(one.max(1, 2), max(1, 2))\n",
    },
}


@pytest.mark.parametrize("files", KINDS.values(), ids=KINDS)
def test_one_file_does_what_several_did(files: Files, tmp_path: Path) -> None:
    program = flat(files)
    assert len(program.files) == 1
    assert printed_by(program.entry.text) == printed(files, tmp_path)


USED_AS_VALUES: dict[str, Files] = {
    "passed on": {"one.py": "x = 1\n", "main.py": "import one\nprint(vars(one)['x'])\n"},
    "assigned to": {"one.py": "x = 1\n", "main.py": "import one\none.x = 2\n"},
    "name made at run time": {"one.py": "globals()['x'] = 1\n", "main.py": "import one\nprint(one.x)\n"},
    "imports the script": {"one.py": "import main\n", "main.py": "import one\n"},
}


@pytest.mark.parametrize("files", USED_AS_VALUES.values(), ids=USED_AS_VALUES)
def test_a_module_that_is_more_than_names_stays_a_file(files: Files) -> None:
    assert flattened(project(files)) is None


def test_what_can_be_moved_is_moved_though_another_module_must_stay() -> None:
    program = flat({
        "config.py": "lr = 1\n",
        "nets.py": "from config import lr\nx = lr\n",
        "main.py": "import config\nfrom nets import x\nprint(x, vars(config))\n",
    })  # fmt: skip
    assert [file.path for file in program] == ["config.py", "main.py"]
    assert program.entry.text == "from config import lr\nx = lr\nimport config\nprint(x, vars(config))\n"


def test_what_a_module_that_stays_imports_stays_too() -> None:
    files = {
        "base.py": "y = 1\n",
        "one.py": "from base import y\nx = y\n",
        "main.py": "import one\nfrom base import y\nprint(vars(one), y)\n",
    }
    assert flattened(project(files)) is None


def test_relative_imports_of_what_stays_become_absolute() -> None:
    program = flat({
        "a/__init__.py": "",
        "a/config.py": "lr = 1\n",
        "a/nets.py": "from . import config\nfrom .config import lr as r\nx = vars(config), r\n",
        "main.py": "from a.nets import x\nprint(x)\n",
    })  # fmt: skip
    assert program.entry.text.startswith("from a import config\nfrom a.config import lr as r\n")


def test_modules_come_in_the_order_in_which_python_runs_them() -> None:
    program = flat({
        "a.py": "import b\nprint('a')\n",
        "b.py": "print('b')\n",
        "main.py": "import a\nimport b\nprint('main')\n",
    })  # fmt: skip
    assert printed_by(program.entry.text) == "b\na\nmain\n"


def test_every_moved_character_knows_its_line_in_the_users_file() -> None:
    files = {"nets.py": "import torch\ndef f(h):\n    h += 1\n", "main.py": "from nets import f\nf(0)\n"}
    program, original = flat(files), project(files)
    assert original_lines(program, span_of(program, "h += 1"), original) == {("nets.py", 3)}


def test_a_folder_on_the_path_of_modules_does_not_show_in_their_names() -> None:
    files = {"src/nets.py": "x = 1\n", "scripts/main.py": "import nets\nprint(nets.x)\n"}
    assert flat(files, folders=("scripts", "src")).entry.text == "x = 1\nprint(x)\n"


def test_a_module_run_with_m_becomes_a_script() -> None:
    files = {"a/__init__.py": "", "a/nets.py": "x = 1\n", "a/train.py": "from .nets import x\nprint(x)\n"}
    program = flat(files, module="a.train")
    assert (program.entry.text, program.invocation.module) == ("x = 1\nprint(x)\n", None)


def test_only_the_modules_wanted_are_moved() -> None:
    files = {"one.py": "x = 1\n", "two.py": "y = 2\n", "main.py": "from one import x\nfrom two import y\n"}
    patch = flattened(project(files), ["two.py"])
    assert patch is not None
    assert [file.path for file in patch.apply(project(files))] == ["one.py", "main.py"]


def test_files_that_are_moved_are_hidden_from_the_runs_that_follow() -> None:
    assert flat(KINDS["from import"]).invocation.hidden == ("nets.py",)


def test_files_that_no_import_reaches_are_known() -> None:
    files = {"one.py": "import two\n", "two.py": "", "three.py": "import two\n", "main.py": "import one\n"}
    assert unreached(project(files)) == {"three.py"}


def test_who_imports_a_file_is_known() -> None:
    files = {"one.py": "import two\n", "two.py": "", "main.py": "import one\nimport two\n"}
    assert importers(project(files))["two.py"] == {"one.py", "main.py"}


def test_the_same_project_gives_the_same_patch() -> None:
    files = KINDS["relative imports"]
    assert flattened(project(files)) == flattened(project(files))


def span_of(program: Program, text: str) -> Span:
    start = program.entry.text.index(text)
    return Span(program.entry.path, start, start + len(text))
