from __future__ import annotations

from pathlib import Path

import catalogue
import pytest
from catalogue import Example
from passes.pass_testing import all_passes

from shrinkrepro.passes import PASSES


def halve_numbers() -> None:
    """Halve the numbers.

    Odd ones too.

    Before:
        if x:
            y = 4

        z = 0
    After:
        if x:
            y = 2

        z = 0

    Before:
        x = 2
    After:
        x = 1
    """


def test_examples_are_read_without_the_indentation_of_the_docstring() -> None:
    assert catalogue.examples_of(halve_numbers) == [
        Example("if x:\n    y = 4\n\nz = 0\n", "if x:\n    y = 2\n\nz = 0\n"),
        Example("x = 2\n", "x = 1\n"),
    ]


def test_prose_is_what_is_left_of_a_docstring_without_its_examples() -> None:
    assert catalogue.prose_of(halve_numbers) == "Halve the numbers.\n\nOdd ones too."


def test_a_difference_marks_what_goes_and_what_comes_and_keeps_the_rest() -> None:
    example = Example("a = 1\n\nb = 2\nc = 3\n", "a = 1\n\nb = 4\nc = 3\n")
    assert catalogue.difference(example) == "  a = 1\n\n- b = 2\n+ b = 4\n  c = 3\n"


def test_a_section_has_the_name_in_plain_words_the_prose_the_place_and_every_example() -> None:
    section = catalogue.page([halve_numbers]).removeprefix(catalogue.INTRODUCTION + "\n")
    place = f"`halve_numbers` in `{__name__.replace('.', '/')}.py`"
    first = "  if x:\n-     y = 4\n+     y = 2\n\n  z = 0\n"
    assert section == (
        f"## 1. Halve numbers\n\nHalve the numbers.\n\nOdd ones too.\n\n{place}\n\n"
        f"```diff\n{first}```\n\n```diff\n- x = 2\n+ x = 1\n```\n"
    )


def test_the_page_in_the_repository_is_what_the_passes_say() -> None:
    assert catalogue.PAGE.read_text(encoding="utf-8") == catalogue.page(PASSES)


def test_every_pass_is_applied_and_so_on_the_page() -> None:
    assert set(all_passes()) == set(PASSES)


def test_writing_makes_a_page_that_passes_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "PAGE", tmp_path / "passes.md")
    assert [catalogue.main(["--write"]), catalogue.main(["--check"])] == [0, 0]


@pytest.mark.parametrize("text", ["# The passes\n", None])
def test_a_page_that_is_wrong_or_missing_fails_the_check_with_what_to_do(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalogue, "PAGE", tmp_path / "passes.md")
    if text is not None:
        catalogue.PAGE.write_text(text, encoding="utf-8")
    assert catalogue.main(["--check"]) == 1
    assert "python docs/catalogue.py --write" in capsys.readouterr().err
