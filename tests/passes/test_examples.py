"""The examples in the docstrings of the passes are true."""

from __future__ import annotations

import pytest
from catalogue import examples_of
from passes.pass_testing import Pass, all_passes, observed, patches_of

PASSES = all_passes()


@pytest.mark.parametrize(
    ("pass_", "before", "after"),
    [pytest.param(pass_, *example, id=pass_.__name__) for pass_ in PASSES for example in examples_of(pass_)],
)
def test_one_of_the_patches_makes_the_program_shown(pass_: Pass, before: str, after: str) -> None:
    assert after in patches_of(pass_, before, observed)


@pytest.mark.parametrize("pass_", PASSES, ids=lambda pass_: pass_.__name__)
def test_every_pass_has_a_summary_and_every_example_is_read(pass_: Pass) -> None:
    document = pass_.__doc__ or ""
    assert document.partition("\n")[0].strip().endswith((".", ":"))
    assert 0 < document.count("Before:") == document.count("After:") == len(examples_of(pass_))
