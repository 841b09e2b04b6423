from __future__ import annotations

import base64
import hashlib
import math
from array import array
from collections.abc import Sequence

import pytest

from shrinkrepro.proof import Comparison, compare, prove
from shrinkrepro.runtime.messages import Numbers, Outcome, Pass, Report

EXACT = Comparison(same=True, difference=0.0)


def tensor(*values: float, shape: tuple[int, ...] | None = None, dtype: str = "torch.float32") -> Numbers:
    data = array("d", values).tobytes()
    norm = math.sqrt(sum(value * value for value in values))
    return Numbers(
        shape or (len(values),), dtype, hashlib.sha256(data).hexdigest(), norm, base64.b64encode(data).decode()
    )


def passed(number: int, loss: float, *gradients: Numbers) -> Pass:
    return Pass(number, (tensor(loss),), gradients or (tensor(1.0),))


def failed(number: int, loss: float) -> Pass:
    return Pass(number, (tensor(loss),), (), finished=False)


def ran(outcome: Outcome, *passes: Pass, error: str | None = None) -> Report:
    kind = None if error is None else "ValueError"
    return Report(outcome, backwards=sum(p.finished for p in passes), passes=passes, error=error, error_type=kind)


REFERENCE = ran("finished", passed(1, 5.0), passed(2, 4.0, tensor(1.0, 2.0)), passed(3, 3.0))


# ---- tensors


def test_equal_tensors_are_the_same() -> None:
    assert compare([tensor(1.0, 2.0)], [tensor(1.0, 2.0)]) == EXACT


def test_the_order_of_tensors_does_not_matter() -> None:
    assert compare([tensor(1.0), tensor(2.0)], [tensor(2.0), tensor(1.0)]) == EXACT


def test_the_largest_difference_is_told() -> None:
    assert compare([tensor(1.0, 2.5)], [tensor(1.25, 2.0)]) == Comparison(same=False, difference=0.5)


@pytest.mark.parametrize(
    ("dtype", "difference", "same"),
    [
        ("torch.float32", 1e-6, True),
        ("torch.float32", 1e-4, False),
        ("torch.float64", 1e-15, True),
        ("torch.float64", 1e-10, False),
        ("torch.bfloat16", 1e-2, True),
    ],
)
def test_rounding_of_the_type_is_no_difference(dtype: str, difference: float, same: bool) -> None:
    assert compare([tensor(1.0 + difference, dtype=dtype)], [tensor(1.0, dtype=dtype)]).same is same


@pytest.mark.parametrize(("ours", "theirs"), [([tensor(0.5)], []), ([], [tensor(0.5)])])
def test_a_tensor_that_only_one_has_differs_by_its_size(ours: Sequence[Numbers], theirs: Sequence[Numbers]) -> None:
    assert compare(ours, theirs) == Comparison(same=False, difference=0.5)


def test_a_gradient_of_zeros_is_as_good_as_none() -> None:
    assert compare([tensor(0.0, 0.0)], []) == EXACT


def test_tensors_of_other_shapes_are_not_compared_with_each_other() -> None:
    assert not compare([tensor(1.0, 2.0)], [tensor(1.0, 2.0, shape=(1, 2))]).same


def test_nan_where_there_was_nan_is_the_same() -> None:
    assert compare([tensor(math.nan, 1.0)], [tensor(math.nan, 1.0)]) == EXACT


def test_nan_where_there_was_a_number_is_infinitely_far() -> None:
    assert compare([tensor(math.nan)], [tensor(1.0)]) == Comparison(same=False, difference=math.inf)


# ---- runs


def test_a_run_with_the_numbers_of_the_reference_is_complete() -> None:
    proof = prove(REFERENCE, REFERENCE, 2)
    assert proof.complete
    assert (proof.loss, proof.gradients, proof.later) == (EXACT, EXACT, EXACT)


@pytest.mark.parametrize(
    ("second", "third", "wrong"),
    [
        (passed(2, 4.5, tensor(1.0, 2.0)), passed(3, 3.0), "loss"),
        (passed(2, 4.0, tensor(1.0, 2.5)), passed(3, 3.0), "gradients"),
        (passed(2, 4.0, tensor(1.0, 2.0)), passed(3, 3.5), "later"),
    ],
)
def test_each_number_that_changes_is_named(second: Pass, third: Pass, wrong: str) -> None:
    proof = prove(ran("finished", passed(1, 5.0), second, third), REFERENCE, 2)
    parts = {"loss": proof.loss, "gradients": proof.gradients, "later": proof.later}
    assert {name: part.difference for name, part in parts.items() if part and not part.same} == {wrong: 0.5}
    assert proof.mends
    assert not proof.complete


def test_passes_that_have_changed_places_are_found_by_their_loss() -> None:
    swapped = ran("finished", passed(1, 4.0, tensor(1.0, 2.0)), passed(2, 5.0), passed(3, 3.0))
    assert prove(swapped, REFERENCE, 2).complete


def test_a_pass_that_fails_still_tells_its_loss() -> None:
    proof = prove(ran("failed", passed(1, 5.0), failed(2, 4.0)), REFERENCE, 2)
    assert not proof.passes
    assert (proof.loss, proof.gradients) == (EXACT, None)


def test_a_later_crash_of_the_kind_does_not_mend() -> None:
    proof = prove(ran("failed", passed(1, 5.0), passed(2, 4.0, tensor(1.0, 2.0)), failed(3, 3.0)), REFERENCE, 2)
    assert proof.passes
    assert not proof.mends


def test_passes_after_a_run_was_stopped_are_not_missed() -> None:
    assert prove(ran("exhausted", passed(1, 5.0), passed(2, 4.0, tensor(1.0, 2.0))), REFERENCE, 2).complete


def test_another_error_does_not_mend() -> None:
    proof = prove(ran("raised", passed(1, 5.0), error="no such name"), REFERENCE, 2)
    assert not proof.mends
    assert proof.error == "ValueError: no such name"


def test_an_error_that_the_reference_ends_with_too_is_the_scripts_own() -> None:
    reference = ran("raised", *REFERENCE.passes, error="out of data")
    assert prove(reference, reference, 2).complete


BOTH = ran("finished", passed(1, 4.0, tensor(1.0, 2.0), tensor(3.0)), *(passed(number, 3.0) for number in range(2, 4)))


def test_gradients_left_out_on_purpose_are_not_missed_where_the_later_losses_are_the_same() -> None:
    left_out = ran("finished", passed(1, 4.0, tensor(1.0, 2.0)), *BOTH.passes[1:])
    assert prove(left_out, BOTH, 1, limited=True).complete
    assert not prove(left_out, BOTH, 1).complete


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (passed(1, 4.0, tensor(1.0, 2.5)), BOTH.passes[1:]),
        (passed(1, 4.0, tensor(1.0, 2.0)), (passed(2, 3.0), passed(3, 3.5))),
        (passed(1, 4.0, tensor(1.0, 2.0)), BOTH.passes[1:2]),
    ],
    ids=["another gradient", "another loss later", "too few passes to tell"],
)
def test_gradients_left_out_are_missed_unless_all_else_is_the_same(first: Pass, later: tuple[Pass, ...]) -> None:
    assert not prove(ran("finished", first, *later), BOTH, 1, limited=True).complete


@pytest.mark.parametrize("reference", [None, ran("raised", passed(1, 5.0), error="hooks are not supported")])
def test_without_a_reference_the_crash_can_be_gone_but_nothing_is_proven(reference: Report | None) -> None:
    proof = prove(REFERENCE, reference, 2)
    assert proof.mends
    assert not proof.complete
    assert (proof.loss, proof.gradients, proof.later) == (None, None, None)
