from __future__ import annotations

import gallery
import pytest

PAGE = gallery.PAGE.read_text(encoding="utf-8")


def test_the_gallery_shows_its_cases_with_the_lines_of_their_three_places() -> None:
    shown = gallery.sections(PAGE)
    assert [section.case for section in shown] == list(gallery.CASES)
    assert [section.case for section in shown if len(section.shown) < 2] == []


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_what_the_gallery_shows_is_so() -> None:
    assert list(gallery.problems(PAGE)) == []


def test_a_line_of_a_notebook_is_named_by_cell_and_line() -> None:
    places = [place for place, _ in gallery.sections(PAGE)[-1].shown]
    assert places == ["smoothing.ipynb cell 4:9", "smoothing.ipynb cell 4:10", "smoothing.ipynb cell 6:6"]


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("out += 1\n", "out = out + 1\n", "005-resnet-residual-iadd: the smallest program does not fail as it should"),
        ("train.py:82 | ", "train.py:83 | ", "005-resnet-residual-iadd: train.py:83 is not '        out += identity'"),
        ("{#006-pos-encoding-iadd}", "{#001-gan-step-order}", "the cases are not those of docs/gallery.py"),
    ],
)
def test_what_is_not_so_is_found_out(right: str, wrong: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    end = PAGE.index("## ", PAGE.index("{#006-"))  # the first sections are enough
    monkeypatch.setattr(gallery, "CASES", gallery.CASES[:3])
    assert right in PAGE[:end]
    assert problem in list(gallery.problems(PAGE[:end].replace(right, wrong)))
