"""Links from one file of the repository to another. Those inside docs/ are checked by MkDocs as well, with anchors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("corpus/*.md")]


def dead(page: Path) -> list[str]:
    """The links of a page to files that are not there."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [match["target"].partition("#")[0] for match in LINK.finditer(text)]
    return [target for target in targets if target and "://" not in target and not (page.parent / target).exists()]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_no_link_is_dead(page: Path) -> None:
    assert dead(page) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#x) [b](missing.md) ![c](gone.png) [d](https://x.org)\n```\n[e](code.md)\n```\n")
    assert dead(page) == ["missing.md", "gone.png"]
