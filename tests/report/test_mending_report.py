from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from shrinkrepro.errors import Exit
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Program
from shrinkrepro.proof import Comparison, Proof
from shrinkrepro.repair import Repair
from shrinkrepro.report.console import show
from shrinkrepro.report.json import bisected_document
from shrinkrepro.report.mending import mending_document, mending_text
from shrinkrepro.results import Attempt, Bisected, Mending, Result

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
SAME, OFF = Comparison(same=True, difference=0.0), Comparison(same=False, difference=0.25)


@pytest.fixture
def original(result: Result) -> Program:
    return result.explanation.program


@pytest.fixture
def mending(result: Result) -> Mending:
    assert result.mending is not None
    return result.mending


def printed(original: Program, mending: Mending, *, table: bool = True) -> str:
    console = Console(file=io.StringIO(), width=40)
    show(console, mending_text(original, mending, colour=False, table=table))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def changed(mending: Mending, proof: Proof, edits: int = 1) -> Mending:
    """The same with one attempt, which proves something else."""
    assert mending.chosen is not None
    attempt = replace(mending.chosen, proof=proof, repairs=mending.chosen.repairs * edits)
    return replace(mending, attempts=(attempt,), chosen=attempt)


def rows(text: str) -> list[list[str]]:
    """The table's cells, line by line."""
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def documented(heading: str) -> set[str]:
    """The names in the table that follows a sentence of the page."""
    _, table, *_ = PAGE.read_text(encoding="utf-8").partition(heading)[2].split("\n\n")
    return {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")}


def test_the_table_says_what_each_run_proved(original: Program, mending: Mending) -> None:
    assert rows(printed(original, mending)) == [
        ["statement", "edit", "operator", "ran", "crash gone", "same loss", "same gradients", "same later losses"],
        ["train.py:5", "write y += out-of-place", "add_", "3x", "yes", "yes", "off by 0.5", "off by 0.5"],
        ["train.py:5", "write y += out-of-place", "add_", "3x", "yes", "yes", "yes", "yes"],
    ]


@pytest.mark.parametrize(
    ("proof", "word"),
    [
        (Proof(False, "failed"), "no"),
        (Proof(True, "failed"), "later again"),
        (Proof(False, "raised"), "other error"),
        (Proof(False, "killed"), "killed"),
        (Proof(True, "stopped"), "yes"),
    ],
)
def test_the_table_says_how_each_run_ended(original: Program, mending: Mending, proof: Proof, word: str) -> None:
    assert rows(printed(original, changed(mending, proof)))[1][4] == word


def test_the_table_ends_after_a_few_attempts_that_failed(original: Program, mending: Mending) -> None:
    failed = Attempt(mending.attempts[0].repairs, original, Proof(False, "failed"))
    text = printed(original, replace(mending, attempts=(failed,) * 12))
    assert text.count("write y += out-of-place  add_") == 5
    assert "and 7 more that do not stop the crash" in text


def test_beside_other_results_there_is_no_table(original: Program, mending: Mending) -> None:
    assert "crash gone" not in printed(original, mending, table=False)


def test_the_diff_is_shown(original: Program, mending: Mending) -> None:
    text = printed(original, mending)
    assert "\n-    y += 1\n+    y = y + 1\n" in text


def test_a_proven_repair_says_that_it_is(original: Program, mending: Mending) -> None:
    assert "proven: the script runs to its end" in printed(original, mending)


def test_a_repair_that_changes_numbers_says_which_and_how_much(original: Program, mending: Mending) -> None:
    text = printed(original, changed(mending, Proof(True, "finished", SAME, OFF, None)))
    assert "proven" not in text
    assert "  gradients: off by up to 0.25\n  later losses: not known to be the same\n" in text


def test_several_edits_that_are_all_needed_say_so(original: Program, mending: Mending) -> None:
    text = printed(original, changed(mending, Proof(True, "finished", SAME, SAME, SAME), edits=2))
    assert "every edit is needed" in text


def test_a_plainer_edit_is_shown_with_what_it_changes(original: Program, mending: Mending) -> None:
    _, title, text = printed(original, replace(mending, alternative=mending.attempts[0])).partition(
        "A plainer edit, if you want what it changes: write y += out-of-place\n"
    )
    assert title
    assert "the crash is gone" in text
    assert "  gradients: off by up to 0.5\n" in text
    assert "\n-    y += 1\n" in text


def test_without_a_repair_that_is_what_is_said(original: Program, mending: Mending) -> None:
    assert "No edit was found that stops the crash." in printed(original, replace(mending, chosen=None))


def test_notes_are_shown(original: Program, mending: Mending) -> None:
    assert "note: Something was not tried.\n" in printed(original, mending)


# ---- JSON


def test_the_page_documents_the_fields_of_an_edit_and_no_others(original: Program, mending: Mending) -> None:
    (edit,) = mending_document(original, mending)["edits"]
    assert documented("Each item of `repair.edits`") == set(edit)


def test_the_page_documents_the_fields_of_a_write_and_no_others(original: Program, mending: Mending) -> None:
    (write,) = mending_document(original, mending)["writes"]
    assert documented("Each item of `repair.writes`") == set(write)


def test_what_was_tried_has_the_fields_of_the_repair(original: Program, mending: Mending) -> None:
    document = mending_document(original, mending)
    shared = {"edits", "crash_gone", "proven", "ending"} | {
        name for name in document if name.startswith("same_") or name.endswith("_difference")
    }
    assert [set(tried) for tried in document["tried"]] == [shared, shared]


def test_the_plainer_edit_has_the_fields_of_what_was_tried_and_a_diff(original: Program, mending: Mending) -> None:
    assert mending_document(original, mending)["alternative"] is None
    document = mending_document(original, replace(mending, alternative=mending.attempts[0]))
    assert set(document["alternative"]) == {"diff", *document["tried"][0]}


def test_a_document_without_a_repair_has_the_same_fields(original: Program, mending: Mending) -> None:
    assert (
        mending_document(original, replace(mending, chosen=None)).keys() == mending_document(original, mending).keys()
    )


def test_an_infinite_difference_is_null(original: Program, mending: Mending) -> None:
    proof = Proof(True, "finished", Comparison(same=False, difference=float("inf")), SAME, SAME)
    document = mending_document(original, changed(mending, proof))
    assert (document["same_loss"], document["loss_difference"]) == (False, None)
    json.dumps(document, allow_nan=False)


def test_lines_of_a_notebook_count_within_their_cell(mending: Mending, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": ["import torch\n", "x = 1"]}, {"cell_type": "code", "source": ["y += 1"]}]
    notebook = tmp_path / "train.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}}), encoding="utf-8")
    program = load_script(str(notebook))
    edit = Repair(Patch((), ""), "copy", "train.ipynb", 3, "y += 1")
    chosen = Attempt((edit,), program, Proof(True, "finished"))
    (shown,) = mending_document(program, replace(mending, attempts=(), chosen=chosen))["edits"]
    assert (shown["cell"], shown["line"]) == (2, 1)
    assert "train.ipynb cell 2:1  " in printed(program, replace(mending, attempts=(chosen,), chosen=chosen))


@pytest.mark.parametrize(
    ("status", "word"), [(Exit.DONE, "repaired"), (Exit.NOT_REPAIRED, "not repaired"), (Exit.OUTPUT_UNWRITABLE, None)]
)
def test_the_status_says_how_it_went(result: Result, mending: Mending, status: Exit, word: Any) -> None:
    document = bisected_document(Bisected(result.explanation, mending), status)
    assert document["status"] == (word or "output unwritable")
    assert document["reduced"] is None
