"""A notebook becomes one file of Python whose lines are lines of cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.load import load_script
from shrinkrepro.program.notebook import plain_python, read_notebook


def notebook(*cells: str, language: str = "python") -> str:
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    text = {"cell_type": "markdown", "source": ["# Title\n"]}
    return json.dumps({"nbformat": 4, "metadata": {"kernelspec": {"language": language}}, "cells": [text, *code]})


def text_of(*cells: str, wanted: Sequence[int] | None = None) -> str:
    return read_notebook("n.ipynb", notebook(*cells), wanted)[0].text


def refusal(data: str, wanted: Sequence[int] | None = None) -> ShrinkReproError:
    with pytest.raises(ShrinkReproError) as caught:
        read_notebook("n.ipynb", data, wanted)
    return caught.value


def test_the_code_cells_follow_each_other() -> None:
    assert text_of("x = 1", "y = 2\nz = 3\n") == "x = 1\ny = 2\nz = 3\n"


def test_a_line_is_told_by_its_cell_and_its_place_in_the_cell() -> None:
    file, _ = read_notebook("n.ipynb", notebook("x = 1", "", "y = 2\nz = 3\n"))
    cell = file.cell_at(4)
    assert cell is not None
    assert (cell.number, 4 - cell.first + 1, file.text.splitlines()[3]) == (3, 2, "z = 3")


def test_only_the_cells_asked_for_are_there_and_keep_their_numbers() -> None:
    file, _ = read_notebook("n.ipynb", notebook("x = 1", "y = 2", "z = 3"), [1, 3])
    assert (file.text, [cell.number for cell in file.cells]) == ("x = 1\nz = 3\n", [1, 3])


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%matplotlib inline\nx = 1\n", "pass  # %matplotlib inline\nx = 1\n"),
        ("if x:\n    !ls -l\n", "if x:\n    pass  # !ls -l\n"),
        ("!pip install \\\n    torch\nx = 1\n", "pass  # !pip install \\\npass  # torch\nx = 1\n"),
        ("files = !ls\n", "pass  # files = !ls\n"),
        ("x.sum?\n", "pass  # x.sum?\n"),
        ("%time y = f(x)\n", "y = f(x)\n"),
        ("%%time\ny = f(x)\n", "pass  # %%time\ny = f(x)\n"),
        ("%%bash\nrm -rf x\n", "# %%bash\n# rm -rf x\n"),
        ("x = (a\n  % b)\n", "x = (a\n  % b)\n"),
        ('s = """\n!not a command\n"""\n', 's = """\n!not a command\n"""\n'),
        ("x = a \\\n  % b\n", "x = a \\\n  % b\n"),
    ],
    ids=[
        "magic", "shell line in a block", "continued shell line", "shell assignment", "question", "timed statement",
        "timed cell", "shell cell", "modulo in brackets", "line of a string", "modulo after a backslash",
    ],
)  # fmt: skip
def test_what_only_ipython_understands_is_taken_out_and_no_line_moves(cell: str, python: str) -> None:
    assert plain_python(cell)[0] == python


def test_what_was_left_out_is_said_with_its_cell_and_line() -> None:
    _, notes = read_notebook("n.ipynb", notebook("x = 1", "y = 2\n%pylab\n"))
    assert notes == ("Skipped what only IPython understands: cell 2:2 `%pylab`.",)


def test_display_prints() -> None:
    file, notes = read_notebook("n.ipynb", notebook("display(1)\n"))
    assert file.text == "display = print\ndisplay(1)\n"
    assert file.cells[0].first == 2
    assert notes == ("display() prints here.",)


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        ("x = 1", Exit.SYNTAX, "not a notebook of format 4"),
        ('{"worksheets": []}', Exit.SYNTAX, "not a notebook of format 4"),
        ('{"cells": 3}', Exit.SYNTAX, "not a notebook of format 4"),
        (notebook("x <- 1", language="R"), Exit.SYNTAX, "for R, not for Python"),
        (notebook(), Exit.EMPTY, "no code cell"),
        (notebook("\n", ""), Exit.EMPTY, "no code cell with a statement"),
    ],
    ids=["text", "format 3", "other JSON", "another language", "no code", "empty cells"],
)
def test_what_is_no_notebook_of_python_is_refused_in_one_sentence(data: str, status: Exit, words: str) -> None:
    problem = refusal(data)
    assert (problem.exit, words in str(problem), "\n" in str(problem)) == (status, True, False)


def test_a_cell_that_is_not_there_is_named() -> None:
    assert str(refusal(notebook("x = 1", "y = 2"), [2, 5])) == "n.ipynb has no code cell 5; its code cells are 1 to 2"


def test_a_syntax_error_is_told_by_cell(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text(notebook("x = 1", "y = 2\nif y\n"), encoding="utf-8")
    with pytest.raises(ShrinkReproError, match=r"n\.ipynb cell 2:2: not valid Python"):
        load_script("n.ipynb", cwd=str(tmp_path))


def test_a_notebook_runs_in_its_own_folder_and_finds_modules_there(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "n.ipynb").write_text(notebook("import nets"), encoding="utf-8")
    (folder / "nets.py").write_text("x = 1\n", encoding="utf-8")
    program = load_script("sub/n.ipynb", cwd=str(tmp_path))
    assert program.invocation.cwd == str(folder)
    assert [file.path for file in program] == ["n.ipynb", "nets.py"]
