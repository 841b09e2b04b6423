from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Program, SourceFile
from shrinkrepro.report.patch import Change, apply, changes, patch, source_diff, write_patch

BEFORE = "import torch\n\nx += 1  # keep\ny = 2\n"
AFTER = BEFORE.replace("x += 1", "x = x + 1")


def edited(program: Program, old: str, new: str) -> Program:
    files = tuple(SourceFile.original(file.path, file.text.replace(old, new)) for file in program)
    return Program(files, program.invocation)


def made(script: Path, old: str = "x += 1", new: str = "x = x + 1") -> list[Change]:
    """The changes on disk that replace one text by another."""
    program = load_script(str(script))
    return changes(program, edited(program, old, new))


Tool = Callable[[Path, bytes], bytes]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(BEFORE, encoding="utf-8")
    return path


def patched(script: Path, diff: bytes) -> bytes:
    """The script after `patch -p1` in its folder."""
    subprocess.run(["patch", "-p1", "--binary", "--quiet"], input=diff, cwd=script.parent, check=True)
    return script.read_bytes()


def patched_by_git(script: Path, diff: bytes) -> bytes:
    """The script after `git apply` in its folder."""
    subprocess.run(["git", "apply", "-"], input=diff, cwd=script.parent, check=True)
    return script.read_bytes()


needs_patch = pytest.mark.skipif(shutil.which("patch") is None, reason="the command patch is not here")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="the command git is not here")
each_tool = pytest.mark.parametrize(
    "tool", [pytest.param(patched, marks=needs_patch), pytest.param(patched_by_git, marks=needs_git)]
)

# ---- the diff


def test_the_diff_touches_only_the_lines_that_it_must(script: Path) -> None:
    diff = patch(made(script)).decode()
    assert [line for line in diff.splitlines() if line[0] in "+-"] == [
        "--- a/train.py",
        "+++ b/train.py",
        "-x += 1  # keep",
        "+x = x + 1  # keep",
    ]


@each_tool
@pytest.mark.parametrize(
    "data",
    [
        BEFORE.encode(),
        BEFORE.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + BEFORE.encode(),
        BEFORE.rstrip("\n").encode(),
        ("# -*- coding: latin-1 -*-\n# caf\xe9\n" + BEFORE).encode("latin-1"),
        BEFORE.replace("import torch\n", "import torch\r\n").encode(),
        BEFORE.replace("# keep", "# a form feed \x0c in a comment").encode(),
    ],
    ids=["plain", "crlf", "mark", "no newline", "latin-1", "mixed", "form feed"],
)
def test_a_patched_file_differs_in_the_edited_bytes_only(tool: Tool, data: bytes, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(data)
    assert tool(script, patch(made(script))) == data.replace(b"x += 1", b"x = x + 1")


@each_tool
@pytest.mark.parametrize("name", ["my train.py", "entraîner.py", "train (copy).py"])
def test_the_names_of_files_are_understood(tool: Tool, name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    script.write_text(BEFORE, encoding="utf-8")
    assert tool(script, patch(made(script))) == AFTER.encode()


@needs_patch
def test_lines_that_come_in_end_as_the_others_do(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(BEFORE.replace("\n", "\r\n").encode())
    diff = patch(made(script, "x += 1", "x = x.clone()\nx += 1"))
    assert patched(script, diff) == BEFORE.replace("x += 1", "x = x.clone()\nx += 1").replace("\n", "\r\n").encode()


@needs_patch
def test_several_files_are_patched_at_once(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "net.py").write_text("x += 1\n", encoding="utf-8")
    script = tmp_path / "train.py"
    script.write_text("import package.net\nx += 1\n", encoding="utf-8")
    assert patched(script, patch(made(script))) == b"import package.net\nx = x + 1\n"
    assert (tmp_path / "package" / "net.py").read_text(encoding="utf-8") == "x = x + 1\n"


def test_a_file_that_has_changed_meanwhile_is_not_patched(script: Path) -> None:
    program = load_script(str(script))
    script.write_text(BEFORE + "z = 3\n", encoding="utf-8")
    with pytest.raises(ShrinkReproError, match=r"train\.py has changed since it was read"):
        changes(program, edited(program, "x += 1", "x = x + 1"))


def test_the_diff_of_two_programs_needs_no_files() -> None:
    program = Program.of(BEFORE, "train.py")
    assert "+x = x + 1  # keep\n" in source_diff(program, edited(program, "x += 1", "x = x + 1"))


def test_programs_that_do_not_differ_have_an_empty_diff() -> None:
    program = Program.of(BEFORE, "train.py")
    assert source_diff(program, program) == ""


# ---- notebooks


def notebook(*cells: str, indent: int = 1) -> str:
    code = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": cell.splitlines(True)}
        for cell in cells
    ]
    prose = {"cell_type": "markdown", "metadata": {}, "source": ["x += 1 \u00e9"]}
    content = {"cells": [prose, *code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=indent, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("indent", [1, 2])
def test_in_a_notebook_the_cells_line_changes_and_nothing_else(indent: int, tmp_path: Path) -> None:
    script = tmp_path / "train.ipynb"
    before = notebook("import torch\n%matplotlib inline", "y = 1\nx += 1", indent=indent)
    script.write_text(before, encoding="utf-8")
    (change,) = made(script)
    prose, code = before.rsplit('"x += 1"', 1)
    assert change.after == f'{prose}"x = x + 1"{code}'


def test_a_line_that_comes_into_a_cell_is_one_of_its_lines(tmp_path: Path) -> None:
    script = tmp_path / "train.ipynb"
    script.write_text(notebook("import torch", "x += 1\ny = 1"), encoding="utf-8")
    (change,) = made(script, "x += 1", "x = x.clone()\nx += 1")
    assert json.loads(change.after)["cells"][2]["source"] == ["x = x.clone()\n", "x += 1\n", "y = 1"]


# ---- writing


def test_what_is_applied_is_the_changed_file_and_the_backup_is_the_old_one(script: Path) -> None:
    (backup,) = apply(made(script))
    assert script.read_text(encoding="utf-8") == AFTER
    assert backup == script.with_name("train.py.orig")
    assert backup.read_text(encoding="utf-8") == BEFORE


def test_a_backup_is_never_overwritten(script: Path) -> None:
    older = script.with_name("train.py.orig")
    older.write_text("precious", encoding="utf-8")
    (backup,) = apply(made(script))
    assert older.read_text(encoding="utf-8") == "precious"
    assert backup == script.with_name("train.py.orig1")


def test_a_changed_file_keeps_its_permissions(script: Path) -> None:
    script.chmod(0o750)
    apply(made(script))
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_a_file_that_has_changed_since_the_changes_were_made_is_left_alone(script: Path) -> None:
    found = made(script)
    script.write_text("x = 9\n", encoding="utf-8")
    with pytest.raises(ShrinkReproError, match="has changed since it was read"):
        apply(found)
    assert [(path.name, path.read_text(encoding="utf-8")) for path in script.parent.iterdir()] == [
        ("train.py", "x = 9\n")
    ]


def test_when_one_of_several_files_cannot_be_written_none_is_changed(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.with_name("net.py").write_text("x += 1\n", encoding="utf-8")
    script.write_text("import net\nx += 1\n", encoding="utf-8")
    before = {path.name: path.read_text(encoding="utf-8") for path in script.parent.iterdir()}
    found = made(script)
    replace, wanted = Path.replace, found[1].place

    def full(path: Path, target: Path) -> Path:
        if target == wanted and not path.name.endswith(".orig"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ShrinkReproError, match="cannot be changed: No space left on device"):
        apply(found)
    assert {path.name: path.read_text(encoding="utf-8") for path in script.parent.iterdir()} == before


def test_a_link_stays_a_link_to_the_changed_file(script: Path) -> None:
    link = script.with_name("linked.py")
    link.symlink_to(script)
    apply(made(link))
    assert link.is_symlink()
    assert script.read_text(encoding="utf-8") == AFTER


def test_nothing_else_is_left_in_the_folder(script: Path) -> None:
    apply(made(script))
    assert sorted(path.name for path in script.parent.iterdir()) == ["train.py", "train.py.orig"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(script: Path) -> None:
    found = made(script)
    script.parent.chmod(0o500)
    try:
        with pytest.raises(ShrinkReproError, match="cannot be changed"):
            apply(found)
    finally:
        script.parent.chmod(0o700)


def test_a_patch_file_that_cannot_be_written_is_named(script: Path) -> None:
    with pytest.raises(ShrinkReproError, match="name another file with --patch") as problem:
        write_patch(made(script), script.parent / "missing" / "fix.patch")
    assert problem.value.exit is Exit.OUTPUT_UNWRITABLE


def test_a_patch_file_holds_the_diff(script: Path) -> None:
    path = script.parent / "fix.patch"
    write_patch(made(script), path)
    assert path.read_bytes() == patch(made(script))
