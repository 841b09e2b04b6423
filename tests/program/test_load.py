"""From a path to a Program: encodings, local imports, and one clear sentence for whatever cannot be loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Program


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def load(folder: Path, files: Mapping[str, str | bytes], entry: str = "train.py") -> Program:
    write(folder, files)
    return load_script(entry, cwd=str(folder))


def paths(program: Program) -> list[str]:
    return [file.path for file in program]


def refused(folder: Path, files: Mapping[str, str | bytes], entry: str = "train.py") -> ShrinkReproError:
    with pytest.raises(ShrinkReproError) as caught:
        load(folder, files, entry)
    return caught.value


# ---- text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("x = 'é'\n".encode(), "x = 'é'\n"),
        ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
        ("x = 1\ry = 2\r", "x = 1\ny = 2\n"),
        ("\N{BYTE ORDER MARK}x = 1\n".encode(), "x = 1\n"),
        ("# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"), "# -*- coding: latin-1 -*-\nx = 'é'\n"),
        ("x = '''a\r\nb'''", "x = '''a\nb'''"),
    ],
    ids=["UTF-8", "CRLF", "CR", "byte order mark", "declared Latin-1", "CRLF in a string"],
)
def test_text_is_decoded_as_python_would(tmp_path: Path, data: str | bytes, text: str) -> None:
    assert load(tmp_path, {"train.py": data}).entry.text == text


def test_provenance_starts_with_every_character_its_own_origin(tmp_path: Path) -> None:
    (run,) = load(tmp_path, {"train.py": "x = 1\n"}).entry.runs
    assert (run.start, run.length, run.path, run.offset) == (0, 6, "train.py", 0)


# ---- invocation ------------------------------------------------------------------------------------------------


def test_the_invocation_says_how_python_would_be_started(tmp_path: Path) -> None:
    write(tmp_path, {"sub/train.py": "x = 1\n"})
    call = load_script("sub/train.py", ["--epochs", "3"], cwd=str(tmp_path), environment=[("A", "1")]).invocation
    assert (call.root, call.entry, call.cwd) == (str(tmp_path / "sub"), "train.py", str(tmp_path))
    assert (call.argv, call.environment, call.module) == (("--epochs", "3"), (("A", "1"),), None)


def test_a_link_to_a_script_leads_to_the_folder_of_the_script(tmp_path: Path) -> None:
    write(tmp_path, {"real/train.py": "import helper\n", "real/helper.py": "x = 1\n"})
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "train.py")
    program = load_script("link.py", cwd=str(tmp_path))
    assert program.invocation.root == str(tmp_path / "real")
    assert paths(program) == ["helper.py", "train.py"]


# ---- local modules ---------------------------------------------------------------------------------------------

PROJECT = {
    "pkg/__init__.py": "",
    "pkg/a.py": "x = 1\n",
    "pkg/b.py": "x = 1\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/c.py": "x = 1\n",
    "space/d.py": "x = 1\n",
    "other.py": "x = 1\n",
}


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import other", ["other.py"]),
        ("import torch, sys", []),
        ("import pkg", ["pkg/__init__.py"]),
        ("import pkg.a as b", ["pkg/__init__.py", "pkg/a.py"]),
        ("from pkg import a, missing", ["pkg/__init__.py", "pkg/a.py"]),
        ("from pkg.a import x", ["pkg/__init__.py", "pkg/a.py"]),
        ("from pkg.deep import c", ["pkg/__init__.py", "pkg/deep/__init__.py", "pkg/deep/c.py"]),
        ("import space.d", ["space/d.py"]),
        ("def f():\n    import other", ["other.py"]),
        ("try:\n    import other\nexcept ImportError: pass", ["other.py"]),
        ("from other import *", ["other.py"]),
    ],
)
def test_modules_that_import_statements_reach_are_part_of_the_program(
    tmp_path: Path, statement: str, found: list[str]
) -> None:
    assert paths(load(tmp_path, {**PROJECT, "train.py": f"{statement}\n"})) == sorted([*found, "train.py"])


@pytest.mark.parametrize(
    ("importer", "statement", "found"),
    [
        ("pkg/__init__.py", "from . import a", "pkg/a.py"),
        ("pkg/__init__.py", "from .a import x", "pkg/a.py"),
        ("pkg/a.py", "from . import b", "pkg/b.py"),
        ("pkg/a.py", "from .deep.c import x", "pkg/deep/c.py"),
        ("pkg/deep/__init__.py", "from .. import b", "pkg/b.py"),
        ("pkg/deep/__init__.py", "from ..b import x", "pkg/b.py"),
    ],
)
def test_relative_imports_are_followed(tmp_path: Path, importer: str, statement: str, found: str) -> None:
    files = {**PROJECT, "train.py": "import pkg.a, pkg.deep\n", importer: f"{statement}\n"}
    assert found in paths(load(tmp_path, files))


def test_modules_that_import_each_other_are_each_loaded_once(tmp_path: Path) -> None:
    files = {"train.py": "import a\n", "a.py": "import b\n", "b.py": "import a, train\n"}
    assert paths(load(tmp_path, files)) == ["a.py", "b.py", "train.py"]


def test_a_package_hides_a_module_of_the_same_name(tmp_path: Path) -> None:
    program = load(tmp_path, {"train.py": "import both\n", "both.py": "x = 1\n", "both/__init__.py": "x = 2\n"})
    assert paths(program) == ["both/__init__.py", "train.py"]


def test_files_that_nothing_imports_stay_out(tmp_path: Path) -> None:
    assert paths(load(tmp_path, {**PROJECT, "train.py": "x = 1\n"})) == ["train.py"]


def test_nothing_outside_the_scripts_folder_is_loaded(tmp_path: Path) -> None:
    write(tmp_path, {"above.py": "x = 1\n"})
    assert paths(load(tmp_path / "sub", {"train.py": "from .. import above\nimport above\n"})) == ["train.py"]


# ---- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        ("", Exit.EMPTY, "holds no statement"),
        ("# nothing but a comment\n", Exit.EMPTY, "holds no statement"),
        ("x = 1\ny = = 2\n", Exit.SYNTAX, "train.py:2: not valid Python"),
        ("x = '\0'\n", Exit.SYNTAX, "not valid Python"),
        (b"x = '\xff'\n", Exit.ENCODING, "not UTF-8 text"),
        (b"x = 1\ny = 2\nz = '\xff'\n", Exit.ENCODING, "not UTF-8 text (byte 17)"),
        (b"# coding: no-such-thing\nx = 1\n", Exit.ENCODING, "no-such-thing"),
    ],
    ids=["empty", "only a comment", "syntax", "null byte", "not UTF-8", "not UTF-8 further down", "unknown encoding"],
)
def test_content_that_is_no_program_is_refused(tmp_path: Path, content: str | bytes, status: Exit, text: str) -> None:
    problem = refused(tmp_path, {"train.py": content})
    assert problem.exit is status
    assert text in str(problem)
    assert "train.py" in str(problem)


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, {}).exit is Exit.NO_SUCH_FILE


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, {"project/train.py": "x = 1\n"}, "project").exit is Exit.IS_A_FOLDER


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "x = 1\n"})
    (tmp_path / "train.py").chmod(0)
    assert refused(tmp_path, {}).exit is Exit.NO_SUCH_FILE


def test_a_local_module_that_is_not_python_is_named(tmp_path: Path) -> None:
    problem = refused(tmp_path, {"train.py": "import pkg.broken\n", "pkg/broken.py": "x = 1\nx = = 1\n"})
    assert problem.exit is Exit.SYNTAX
    assert str(problem).startswith("pkg/broken.py:2:")


def test_nesting_too_deep_for_python_is_refused_in_one_sentence(tmp_path: Path) -> None:
    problem = refused(tmp_path, {"train.py": "x = " + "(" * 5000 + ")" * 5000 + "\n"})
    assert problem.exit is Exit.SYNTAX
