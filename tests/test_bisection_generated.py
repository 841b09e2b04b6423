"""Repairs of generated programs: one harmful write among harmless ones, views and aliases of what it writes to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corpus.generate.checks import as_program
from corpus.generate.programs import program
from corpus.generate.shared import Shared
from shrinkrepro.pipeline import Options, bisect

SEED = 77
OPTIONS = Options(timeout=60, jobs=1)


@pytest.fixture(scope="module")
def backend() -> Iterator[Shared]:
    with Shared() as shared:
        yield shared


@pytest.mark.large
@pytest.mark.parametrize("number", range(8))
def test_a_planted_write_is_what_is_mended_with_the_loss_and_the_gradients_of_the_reference(
    backend: Shared, number: int
) -> None:
    generated = program(SEED, number, moves=30, faults=1)
    mending = bisect(as_program(generated), OPTIONS, start=backend).mending
    assert mending.chosen is not None
    assert mending.chosen.proof.complete
    assert mending.runs <= 40
    planted = generated.truth.culprit if generated.truth else None
    written = [repair for repair in mending.chosen.repairs if repair.kind in ("constructor", "out-of-place", "copy")]
    assert planted is not None
    assert all((repair.file, repair.line) == (planted.file, planted.line) for repair in written)


@pytest.mark.large
@pytest.mark.parametrize("number", range(4))
def test_of_the_edits_that_two_planted_writes_take_each_is_needed(backend: Shared, number: int) -> None:
    mending = bisect(as_program(program(SEED, number, moves=30, faults=2)), OPTIONS, start=backend).mending
    assert mending.chosen is not None
    assert mending.chosen.proof.mends
    assert mending.minimal is True
