from __future__ import annotations

from pathlib import Path

import pytest

from shrinkrepro.errors import MEANING, Exit, ShrinkReproError
from shrinkrepro.report.json import status_of

PAGE = Path(__file__).parents[1] / "docs" / "exit-codes.md"


def documented() -> list[list[str]]:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_every_exit_status_has_a_meaning() -> None:
    assert set(MEANING) == set(Exit)


def test_the_page_on_exit_statuses_lists_each_with_its_meaning() -> None:
    assert [(row[0], row[2]) for row in documented()] == [(str(int(status)), MEANING[status]) for status in Exit]


def test_the_page_on_exit_statuses_gives_the_names_that_the_json_document_uses() -> None:
    failures = [row[1] for row in documented()[1:]]
    assert failures == [f"`{status_of(status)}`" for status in Exit if status is not Exit.DONE]


def test_an_exit_status_fits_a_process() -> None:
    assert all(0 <= status <= 255 for status in Exit)


def test_a_problem_carries_its_sentence_and_its_status() -> None:
    with pytest.raises(ShrinkReproError, match=r"^no such thing$") as problem:
        raise ShrinkReproError(Exit.EMPTY, "no such thing")
    assert problem.value.exit is Exit.EMPTY
