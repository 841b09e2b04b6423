from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from json_schema import problems

from shrinkrepro.cli import main
from shrinkrepro.errors import Exit

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
SCRIPT = """\
import torch
x = torch.ones(2, requires_grad=True)
y = x.exp()
y += 1  # off by one
y.sum().backward()
"""
MENDED = SCRIPT.replace("y += 1", "y = y + 1")


def bisect(script: Path, *options: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command on the script, in the script's folder or another one above it."""
    place = folder or script.parent
    return subprocess.run(
        [sys.executable, "-m", "shrinkrepro", "bisect", str(script.relative_to(place)), *options],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_help_tells_of_the_patch_and_of_applying_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "--help"]) == Exit.DONE
    shown = capsys.readouterr().out
    assert "--patch FILE" in shown
    assert "--apply" in shown


@pytest.mark.parametrize("option", [["--output", "x.py"], ["--budget", "3"], ["--patch"]])
def test_what_makes_no_sense_here_is_refused(option: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "train.py", *option]) == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_a_script_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "missing.py"]) == Exit.NO_SUCH_FILE
    assert "missing.py does not exist" in capsys.readouterr().err


@pytest.mark.slow
def test_nothing_is_written_unless_asked_for(script: Path) -> None:
    done = bisect(script)
    assert done.returncode == Exit.DONE, done.stderr
    assert "+y = y + 1  # off by one" in done.stdout
    assert [path.name for path in script.parent.iterdir()] == ["train.py"]
    assert script.read_text(encoding="utf-8") == SCRIPT


@pytest.mark.slow
def test_a_proven_repair_is_applied_and_written(script: Path) -> None:
    done = bisect(script, "--apply", "--patch", "fix.patch", "--json", "--quiet")
    document = json.loads(done.stdout)
    assert (document["status"], document["repair"]["proven"]) == ("repaired", True)
    assert problems(document) == []
    assert script.read_text(encoding="utf-8") == MENDED
    assert script.with_name("train.py.orig").read_text(encoding="utf-8") == SCRIPT
    assert script.with_name("fix.patch").read_text(encoding="utf-8") == document["repair"]["diff"]
    assert bisect(script).returncode == Exit.NOT_REPRODUCED


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("patch") is None, reason="the command patch is not here")
def test_a_patch_of_a_library_beside_the_script_is_applied_by_the_command_that_is_told(tmp_path: Path) -> None:
    """The library is found when the script puts its folder on the path; the patch starts from the folder of both."""
    folder = tmp_path / "a case"
    shutil.copytree(CORPUS / "203-path-of-a-library", folder)
    done = bisect(folder / "scripts" / "train.py", "--patch", "fix.patch", folder=tmp_path)
    command = done.stdout.partition("patch written to fix.patch; apply it with: ")[2]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert "factor = factor.clamp(max=1.0)" in (folder / "src" / "wave_tools" / "model.py").read_text(encoding="utf-8")


@pytest.mark.slow
def test_where_the_patch_cannot_be_written_the_repair_is_told_all_the_same(script: Path) -> None:
    done = bisect(script, "--patch", "missing/fix.patch")
    assert done.returncode == Exit.OUTPUT_UNWRITABLE
    assert "+y = y + 1  # off by one" in done.stdout
    assert "missing/fix.patch cannot be written" in done.stdout


@pytest.mark.slow
def test_a_reduction_ends_with_the_repair_of_the_script(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shrinkrepro", script.name, "--json"],
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    document = json.loads(done.stdout)
    assert document["repair"]["proven"] is True
    assert "+y = y + 1  # off by one" in document["repair"]["diff"]
