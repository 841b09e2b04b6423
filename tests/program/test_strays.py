"""Modules that a run imported from elsewhere become files of the program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shrinkrepro.program.load import from_above, load_module, load_script, with_strays
from shrinkrepro.program.source import Program


def made(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def completed(folder: Path, *, cwd: str = ".") -> Program:
    """The program `scripts/train.py` once `lib`, in `src`, is known to have been imported."""
    made(folder, {"scripts/train.py": "import lib\n", "src/lib.py": "import more\n", "src/more.py": "x = 1\n"})
    program = load_script(str(folder / "scripts" / "train.py"), cwd=str(folder / cwd))
    return with_strays(program, {"lib": str(folder / "src" / "lib.py")})


def test_the_root_becomes_the_folder_around_all_files(tmp_path: Path) -> None:
    call = completed(tmp_path).invocation
    assert (call.root, call.entry, call.folders) == (str(tmp_path), "scripts/train.py", ("scripts", "src"))


def test_what_the_module_imports_comes_with_it(tmp_path: Path) -> None:
    assert [file.path for file in completed(tmp_path)] == ["scripts/train.py", "src/lib.py", "src/more.py"]


def test_a_script_that_is_started_in_its_own_folder_finds_them_too(tmp_path: Path) -> None:
    assert completed(tmp_path, cwd="scripts").invocation.root == str(tmp_path)


def test_files_far_from_the_script_stay_libraries(tmp_path: Path) -> None:
    made(tmp_path, {"a/b/train.py": "import lib\n", "c/lib.py": "x = 1\n"})
    program = load_script("train.py", cwd=str(tmp_path / "a" / "b"))
    assert with_strays(program, {"lib": str(tmp_path / "c" / "lib.py")}) is program


def test_nothing_changes_where_nothing_was_found(tmp_path: Path) -> None:
    made(tmp_path, {"train.py": "x = 1\n"})
    program = load_script("train.py", cwd=str(tmp_path))
    assert with_strays(program, {}) is program


def test_a_module_imported_under_a_name_made_up_at_run_time_keeps_its_place(tmp_path: Path) -> None:
    made(tmp_path, {"train.py": "__import__('plug' + 'ins.one')\n", "plugins/one.py": "x = 1\n"})
    program = with_strays(
        load_script("train.py", cwd=str(tmp_path)), {"plugins.one": str(tmp_path / "plugins" / "one.py")}
    )
    assert [file.path for file in program] == ["plugins/one.py", "train.py"]
    assert program.invocation.folders == ("",)


def test_a_module_is_started_as_python_m_starts_it(tmp_path: Path) -> None:
    made(tmp_path, {"a/__init__.py": "", "a/train.py": "from . import nets\n", "a/nets.py": "x = 1\n"})
    program = load_module("a.train", ["--n", "1"], cwd=str(tmp_path))
    call = program.invocation
    assert (call.entry, call.module, call.argv, call.root) == ("a/train.py", "a.train", ("--n", "1"), str(tmp_path))
    assert [file.path for file in program] == ["a/__init__.py", "a/nets.py", "a/train.py"]


# ---- the folder above


def test_a_script_started_in_its_folder_can_be_seen_from_above(tmp_path: Path) -> None:
    made(tmp_path, {"scripts/train.py": "import nets\n", "scripts/nets.py": "x = 1\n"})
    program = from_above(load_script("train.py", cwd=str(tmp_path / "scripts")))
    call = program.invocation
    assert (call.root, call.entry, call.folders) == (str(tmp_path), "scripts/train.py", ("scripts",))
    assert [file.path for file in program] == ["scripts/nets.py", "scripts/train.py"]
    assert call.cwd == str(tmp_path / "scripts")


def test_a_script_that_is_started_from_above_is_seen_from_there_already(tmp_path: Path) -> None:
    made(tmp_path, {"scripts/train.py": "x = 1\n"})
    program = load_script("scripts/train.py", cwd=str(tmp_path))
    assert from_above(program) is program


def test_a_script_that_is_started_from_elsewhere_can_be_seen_from_above(tmp_path: Path) -> None:
    made(tmp_path, {"project/scripts/train.py": "x = 1\n", "elsewhere/notes.txt": ""})
    program = from_above(load_script("../project/scripts/train.py", cwd=str(tmp_path / "elsewhere")))
    assert program.invocation.root == str(tmp_path / "project")


def test_no_more_than_one_folder_is_added(tmp_path: Path) -> None:
    made(tmp_path, {"a/b/train.py": "x = 1\n"})
    program = from_above(load_script("train.py", cwd=str(tmp_path / "a" / "b")))
    assert from_above(program) is program
