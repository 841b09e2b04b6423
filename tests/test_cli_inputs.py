"""Modules, notebooks and projects on the command line: what is run, and one sentence for what cannot be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shrinkrepro.cli import main, standard_input
from shrinkrepro.errors import Exit

NETS = """\
import torch
def bump(h, by):
    h += by
    return h
"""
TRAIN = """\
import os
import sys
from . import nets
import torch
h = torch.ones(2, requires_grad=True).exp()
nets.bump(h, int(sys.argv[1]) * int(os.environ["TIMES"])).sum().backward()
"""


def notebook(*cells: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a package whose module `train` fails, and a notebook that does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "nets.py").write_text(NETS, encoding="utf-8")
    (tmp_path / "pkg" / "train.py").write_text(TRAIN, encoding="utf-8")
    cells = ["import torch", "%pylab\nh = torch.ones(2, requires_grad=True).exp()", "h += 1", "h.sum().backward()"]
    (tmp_path / "net.ipynb").write_text(notebook(*cells), encoding="utf-8")
    (tmp_path / "text.ipynb").write_text('{"cells": []}', encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_a_module_of_a_package_ends_in_one_file(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "pkg.train", "--json", "-q", "--env", "TIMES=3", "--", "2"]) == Exit.DONE
    document = json.loads(capfd.readouterr().out)
    culprit, reduced = document["culprit"], document["reduced"]
    assert (culprit["file"], culprit["line"], reduced["path"]) == ("pkg/nets.py", 3, "train_repro.py")
    assert "pkg" not in reduced["source"]


@pytest.mark.slow
def test_a_script_finds_modules_and_files_in_the_folder_above(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "scripts").mkdir()
    (folder / "by.txt").write_text("3", encoding="utf-8")
    text = "import sys\nsys.path.append('..')\nfrom pkg import nets\n" + TRAIN.partition("from . import nets\n")[2]
    (folder / "scripts" / "train.py").write_text(
        text.replace('int(sys.argv[1]) * int(os.environ["TIMES"])', "int(open('../by.txt').read())"), encoding="utf-8"
    )
    monkeypatch.chdir(folder / "scripts")
    assert main(["explain", "train.py", "--json", "-q"]) == Exit.DONE
    culprit = json.loads(capfd.readouterr().out)["culprit"]
    assert (culprit["file"], culprit["line"]) == ("pkg/nets.py", 3)


@contextmanager
def redirected(path: Path) -> Iterator[None]:
    """Our own standard input read from a file, as `shrinkrepro train.py < path` has it."""
    before, source = os.dup(0), os.open(path, os.O_RDONLY)
    os.dup2(source, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(source)


def test_standard_input_is_the_file_that_it_was_redirected_from_and_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(b"one\ntwo\n")
    with redirected(path):
        assert (standard_input(None), os.read(0, 4)) == (b"one\ntwo\n", b"one\n")
        assert standard_input("-") == b"two\n"
    assert standard_input(str(path)) == b"one\ntwo\n"


def test_a_pipe_that_nobody_may_ever_write_to_is_not_waited_for() -> None:
    before, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)
    try:
        assert standard_input(None) == b""
    finally:
        os.dup2(before, 0)
        for descriptor in (before, reading, writing):
            os.close(descriptor)


@pytest.mark.slow
def test_each_run_reads_the_same_standard_input(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "by.txt").write_text("3", encoding="utf-8")
    text = "import torch\nfrom pkg import nets\nh = torch.ones(2, requires_grad=True).exp()\n"
    (folder / "read.py").write_text(text + "nets.bump(h, int(input())).sum().backward()\n", encoding="utf-8")
    assert main(["explain", "read.py", "-q"]) == Exit.OTHER_ERROR
    assert "read.py:4: the script reads standard input, which is empty; give it a file with --stdin" in (
        capfd.readouterr().err
    )
    assert main(["explain", "read.py", "--json", "-q", "--stdin", "by.txt"]) == Exit.DONE
    assert json.loads(capfd.readouterr().out)["culprit"]["file"] == "pkg/nets.py"


@pytest.mark.slow
def test_a_notebook_is_told_by_cell_and_line(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "net.ipynb", "--json", "-q"]) == Exit.DONE
    document = json.loads(capfd.readouterr().out)
    assert [(document[role]["cell"], document[role]["line"]) for role in ("saved", "culprit", "needed")] == [
        (2, 2),
        (3, 1),
        (4, 1),
    ]
    assert "Skipped what only IPython understands: cell 2:1 `%pylab`." in document["notes"]


@pytest.mark.slow
def test_without_the_cell_that_writes_a_notebook_does_not_fail(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "net.ipynb", "-q", "--cells", "1-2,4"]) == Exit.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ([], Exit.USAGE, "Missing argument 'SCRIPT'"),
        (["-m", "pkg"], Exit.IS_A_FOLDER, "pkg is a package without pkg/__main__.py"),
        (["-m", "pkg.none"], Exit.NO_SUCH_FILE, "there is no pkg/none.py in the current folder"),
        (["text.ipynb"], Exit.EMPTY, "text.ipynb holds no code cell"),
        (["net.ipynb", "--cells", "9"], Exit.EMPTY, "net.ipynb has no code cell 9; its code cells are 1 to 4"),
        (["net.ipynb", "--cells", "a"], Exit.USAGE, "'a' is not of the form 1-3,5"),
        (["pkg/train.py", "--cells", "1"], Exit.USAGE, "--cells is for notebooks"),
        (["pkg/train.py", "--inline", "no_such_package"], Exit.MISSING_MODULE, "no_such_package cannot be inlined"),
        (["pkg/train.py", "--stdin", "none.txt"], Exit.NO_SUCH_FILE, "--stdin none.txt cannot be read: No such file"),
        (["pkg/train.py", "--inline", "torch"], Exit.USAGE, "torch cannot be inlined"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_run_is_told_in_one_sentence(
    folder: Path, capfd: pytest.CaptureFixture[str], words: list[str], status: Exit, sentence: str
) -> None:
    assert main(words) == status
    said = capfd.readouterr().err
    assert sentence in said
    assert (said.count("\n"), "Traceback" in said) == (1, False)
