from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import SCRIPT
from json_schema import problems

import shrinkrepro
from shrinkrepro.cli import Request, main
from shrinkrepro.errors import Exit
from shrinkrepro.journal import Journal, journals
from shrinkrepro.program.source import Invocation, Program, Size, SourceFile
from shrinkrepro.runtime import guard


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with nothing in it but a script that fails."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def empty(folder: Path) -> None:
    (folder / "bad.py").write_text("# nothing yet\n", encoding="utf-8")


def latin(folder: Path) -> None:
    (folder / "bad.py").write_bytes(b"name = '\xe9'\n")


def broken(folder: Path) -> None:
    (folder / "bad.py").write_text("x = 1\nif x\n", encoding="utf-8")


def folder_named_bad(folder: Path) -> None:
    (folder / "bad.py").mkdir()


def occupied(folder: Path) -> None:
    (folder / "train_repro.py").write_text("precious", encoding="utf-8")


def nothing(folder: Path) -> None:
    pass


BAD_INPUT = [
    (nothing, ["bad.py"], Exit.NO_SUCH_FILE, ["bad.py", "does not exist"]),
    (folder_named_bad, ["bad.py"], Exit.IS_A_FOLDER, ["bad.py is a folder"]),
    (broken, ["bad.py"], Exit.SYNTAX, ["bad.py:2", "not valid Python"]),
    (empty, ["bad.py"], Exit.EMPTY, ["bad.py", "no statement"]),
    (latin, ["bad.py"], Exit.ENCODING, ["bad.py", "UTF-8"]),
    (occupied, ["train.py"], Exit.OUTPUT_EXISTS, ["train_repro.py", "--output"]),
    (nothing, ["train.py", "-o", "train.py"], Exit.OUTPUT_EXISTS, ["train.py exists"]),
    (nothing, ["train.py", "-o", "missing/out.py"], Exit.OUTPUT_UNWRITABLE, ["missing/out.py cannot be written"]),
    (nothing, ["train.py", "--markdown", "train.py"], Exit.OUTPUT_EXISTS, ["train.py", "--markdown"]),
    (nothing, ["explain", "train.py", "--sarif", "missing/r"], Exit.OUTPUT_UNWRITABLE, ["missing/r", "--sarif"]),
    (nothing, [], Exit.USAGE, ["SCRIPT"]),
    (nothing, ["explain"], Exit.USAGE, ["SCRIPT"]),
    (nothing, ["explain", "bad.py"], Exit.NO_SUCH_FILE, ["bad.py"]),
    (nothing, ["train.py", "--epochs", "3"], Exit.USAGE, ["--epochs", "go after --"]),
    (nothing, ["train.py", "--timeout", "0"], Exit.USAGE, ["--timeout"]),
    (nothing, ["train.py", "--jobs", "none"], Exit.USAGE, ["--jobs"]),
    (nothing, ["train.py", "--env", "=x"], Exit.USAGE, ["'=x'", "NAME=VALUE"]),
    (nothing, ["train.py", "--env", "NO_SUCH_NAME"], Exit.USAGE, ["NO_SUCH_NAME is not set", "=VALUE"]),
    (nothing, ["train.py", "--guard", "strong"], Exit.USAGE, ["--guard"]),
    (nothing, ["train.py", "--same", "nothing"], Exit.USAGE, ["--same"]),
]


@pytest.mark.parametrize(("prepare", "arguments", "status", "words"), BAD_INPUT)
def test_bad_input_gets_its_exit_status_and_one_sentence_and_changes_nothing(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Path], None],
    arguments: Sequence[str],
    status: Exit,
    words: Sequence[str],
) -> None:
    prepare(folder)
    before = content(folder)
    assert main(arguments) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("shrinkrepro: ")
    assert output.err.count("\n") == 1
    assert [word for word in words if word not in output.err] == []
    assert content(folder) == before


@pytest.mark.parametrize(("prepare", "arguments", "status", "words"), BAD_INPUT)
def test_bad_input_gives_one_json_document_when_json_is_asked_for(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Path], None],
    arguments: Sequence[str],
    status: Exit,
    words: Sequence[str],
) -> None:
    prepare(folder)
    main([*arguments, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    assert document["status"] == status.name.lower().replace("_", " ")
    assert [word for word in words if word not in document["error"]] == []


def test_json_among_the_scripts_own_arguments_is_the_scripts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bad.py", "--", "--json"]) == Exit.NO_SUCH_FILE
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["explain", "--help"], ["train.py", "--help"]])
def test_help_is_shown(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == Exit.DONE
    assert "[OPTIONS] SCRIPT [-- ARGUMENTS]" in capsys.readouterr().out


def test_help_on_reducing_tells_of_explain(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "shrinkrepro explain SCRIPT" in capsys.readouterr().out


def test_help_mentions_neither_output_nor_budget_where_nothing_is_reduced(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "--help"])
    help_text = capsys.readouterr().out
    assert "--output" not in help_text
    assert "--budget" not in help_text


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys; from shrinkrepro.cli import main; main(['--help'])\n"
        "print({'torch', 'libcst', 'rich', 'numpy'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == Exit.DONE
    assert shrinkrepro.__version__ in capsys.readouterr().out


def test_everything_that_the_package_promises_is_there() -> None:
    assert [name for name in shrinkrepro.__all__ if not hasattr(shrinkrepro, name)] == []


def test_what_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        shrinkrepro.no_such_name  # noqa: B018


@pytest.mark.parametrize("plain", [True, False])
def test_plain_output_has_no_colours_even_where_the_environment_asks_for_them(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    nothing: dict[str, Any] = dict.fromkeys(Request.__dataclass_fields__)
    out, err = Request(**{**nothing, "script": "train.py", "plain": plain}).consoles()
    assert (out.is_terminal, err.is_terminal) == (not plain, not plain)


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shrinkrepro", *arguments], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.slow
def test_explain_names_the_culprit_and_writes_nothing(folder: Path) -> None:
    before = content(folder)
    done = run(["explain", "train.py"])
    assert done.returncode == Exit.DONE, done.stderr
    assert "changed  train.py:5" in done.stdout
    assert content(folder) == before


def test_a_guard_by_the_kernel_that_has_none_is_refused_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard, "_landlock_version", lambda: 0)
    assert main(["explain", "train.py", "--guard", "kernel"]) == Exit.NO_KERNEL_GUARD
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "no Landlock" in said and "--guard audit" in said


@pytest.mark.slow
def test_that_nothing_guarded_the_runs_is_in_the_report(folder: Path) -> None:
    document = json.loads(run(["explain", "train.py", "--json", "--guard", "off"]).stdout)
    assert (document["guard"], [note for note in document["notes"] if "--guard off" in note]) != ("off", [])


@pytest.mark.slow
def test_reports_are_written_and_said_to_be(folder: Path) -> None:
    done = run(
        [
            "explain",
            "train.py",
            "--sarif",
            "r.sarif",
            "--markdown",
            "r.md",
            "--html",
            "r.html",
            "--annotations",
            "lines",
        ]
    )
    assert done.returncode == Exit.DONE, done.stderr
    assert json.loads((folder / "r.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert "PyTorch version: " in (folder / "r.md").read_text(encoding="utf-8")
    assert (folder / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>\n")
    assert "sarif report written to r.sarif\n" in done.stdout
    assert "\ntrain.py:5:1: error: changed here" in done.stdout


@pytest.mark.slow
def test_a_script_gets_its_arguments_and_its_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    wanted = "sys.argv[1:] == ['--epochs', '3'] and os.environ['MODE'] == 'fast' and os.environ['HF_TOKEN'] == 'secret'"
    (folder / "train.py").write_text(f"import os, sys\nassert {wanted}\n{SCRIPT}", encoding="utf-8")
    options = ["--env", "MODE=fast", "--env", "HF_TOKEN"]
    done = run(["explain", "train.py", "--json", *options, "--", "--epochs", "3"])
    document = json.loads(done.stdout)
    assert document["culprit"]["line"] == 7
    assert problems(document) == []


@pytest.mark.slow
def test_a_script_that_ends_well_is_not_reproduced(folder: Path) -> None:
    (folder / "train.py").write_text("import torch\n", encoding="utf-8")
    done = run(["train.py", "--json", "--quiet"])
    assert done.returncode == Exit.NOT_REPRODUCED
    assert json.loads(done.stdout)["status"] == "not reproduced"
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_reduction_writes_a_smaller_program_that_fails_in_plain_python(folder: Path) -> None:
    done = run(["train.py", "--json"])
    assert done.returncode == Exit.DONE, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "verified"
    assert problems(document) == []
    assert document["reduced"]["tokens"] < document["original"]["tokens"]
    written = subprocess.run(
        [sys.executable, document["reduced"]["path"]], capture_output=True, text=True, check=False, timeout=120
    )
    assert "modified by an inplace operation" in written.stderr
    assert (folder / "train.py").read_text(encoding="utf-8") == SCRIPT


@pytest.fixture
def cut_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """A reduction of train.py that was cut off once it had reached three tokens, and is in nobody's hands."""
    monkeypatch.setenv("SHRINKREPRO_STATE", str(folder / "state"))
    program = Program((SourceFile.original("train.py", ""),), Invocation(str(folder), "train.py", str(folder)))
    journal = Journal.begin(journals(), program, "identity", "train.py")
    journal.adopted(Size.of(Program.of("x = 1\n")))
    journal.close(done=False)
    return journal


def test_what_was_cut_off_is_listed(cut_off: Journal, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == Exit.DONE
    assert capsys.readouterr().out.startswith(f"{folder / 'train.py'}: cut off, 3 tokens so far, started ")


def test_what_was_cut_off_is_forgotten_on_request(cut_off: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean"]) == Exit.DONE
    assert main(["list"]) == Exit.DONE
    assert capsys.readouterr().out == "forgotten: 1\n"


def test_signals_mean_what_they_meant_before_once_the_command_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    main(["--version"])
    assert signal.getsignal(signal.SIGTERM) == before
