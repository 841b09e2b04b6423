"""The wrong edits of benchmarks/self_mutation.py fit the code as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.self_mutation import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.file}: {mutation.before}"[:60])
def test_what_an_edit_replaces_stands_once_in_its_file(mutation: Mutation) -> None:
    assert (ROOT / "shrinkrepro" / mutation.file).read_text(encoding="utf-8").count(mutation.before) == 1


@pytest.mark.parametrize("name", sorted({name for mutation in MUTATIONS for name in mutation.tests}))
def test_the_tests_that_should_notice_an_edit_are_there(name: str) -> None:
    assert (ROOT / "tests" / name).is_file()
