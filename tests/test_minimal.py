"""A reduction's result is a fixpoint, and what an expert wrote by hand never grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from reducing import reduced

from shrinkrepro.isolation.workers import Workers
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Size

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
GOLDEN = sorted(path.parent.name for path in CORPUS.glob("*/golden.py"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Zygote() as zygote:
        zygote.preload(("torch", "torch._dynamo"))
        yield Workers(zygote, 1)


@pytest.mark.parametrize("case", GOLDEN)
def test_what_an_expert_wrote_gets_no_larger_and_reducing_twice_changes_nothing(
    case: str, tmp_path: Path, workers: Workers
) -> None:
    (tmp_path / "golden.py").write_text((CORPUS / case / "golden.py").read_text(encoding="utf-8"))
    golden = load_script("golden.py", cwd=str(tmp_path))
    once = reduced(golden, workers).program
    (tmp_path / "golden.py").write_text(once.entry.text)
    twice = reduced(load_script("golden.py", cwd=str(tmp_path)), workers).program
    assert Size.of(once) <= Size.of(golden)
    assert twice.texts == once.texts


def test_the_result_of_a_whole_script_is_a_fixpoint(tmp_path: Path, workers: Workers) -> None:
    case = CORPUS / "005-resnet-residual-iadd"
    once = reduced(load_script("train.py", cwd=str(case)), workers).program
    (tmp_path / "train.py").write_text(once.entry.text)
    assert reduced(load_script("train.py", cwd=str(tmp_path)), workers).program.texts == once.texts
