"""Reading PyTorch's version-mismatch messages, in every wording seen."""

from __future__ import annotations

import dataclasses

import pytest

from shrinkrepro.failure import VersionMismatch, normalised, parse, same_error

OPENING = "one of the variables needed for gradient computation has been modified by an inplace operation: "
HINT = (
    " Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
    "with torch.autograd.set_detect_anomaly(True, check_nan=False)."
)
BACKTRACE = (
    " Hint: the backtrace further above shows the operation that failed to compute its gradient. "
    "The variable in question was changed in there or anywhere later. Good luck!"
)


def parsed(body: str) -> VersionMismatch:
    failure = parse(OPENING + body)
    assert failure is not None
    return failure


@pytest.mark.parametrize("ending", ["", HINT, BACKTRACE])
def test_every_field_is_read_whatever_the_ending(ending: str) -> None:
    view = "[torch.FloatTensor [544, 768]], which is output 0 of View, is at version 1; expected version 0 instead."
    text = view + ending
    assert parsed(text) == VersionMismatch(
        OPENING + text, "torch.FloatTensor", (544, 768), "View", output=0, version=1, expected_version=0
    )


@pytest.mark.parametrize(
    "wording",
    [
        "[torch.FloatTensor [2]], which is output 0 of ExpBackward0, is at version 1; expected version 0 instead.",
        "[torch.FloatTensor [2]], which is output 0 of ExpBackward, is at version 1; expected version 0 instead.",
        "[torch.FloatTensor [2]], which is output 0 of Exp, is at version 1; expected version 0 instead.",
        "[torch.FloatTensor [2]], which is output 0 of ExpBackward, is at version 1, not expected version 0.",
    ],
)
def test_wordings_of_all_releases_mean_the_same(wording: str) -> None:
    failure = dataclasses.replace(parsed(wording), message="")
    assert failure == VersionMismatch("", "torch.FloatTensor", (2,), "Exp", 0, 1, 0)


@pytest.mark.parametrize(
    "wording",
    [
        "[torch.FloatTensor [3]] is at version 9; expected version 6 instead.",
        "[torch.FloatTensor [3]], is at version 9; expected version 6 instead.",
    ],
)
def test_a_leaf_has_no_operator_and_no_output(wording: str) -> None:
    failure = parsed(wording)
    assert (failure.operator, failure.output, failure.version, failure.expected_version) == (None, None, 9, 6)


@pytest.mark.parametrize(
    "word",
    ["torch.LongTensor", "torch.cuda.FloatTensor", "CPUBoolType", "CPUBFloat16Type", "CPUComplexFloatType"],
)
def test_the_tensor_type_is_kept_as_printed(word: str) -> None:
    assert parsed(f"[{word} [1, 10]] is at version 2; expected version 1 instead.").tensor_type == word


@pytest.mark.parametrize(
    ("printed", "shape"),
    [("[]", ()), ("[7]", (7,)), ("[8, 2, 4, 4, 7]", (8, 2, 4, 4, 7)), ("[0, 3]", (0, 3))],
)
def test_shapes_of_any_rank(printed: str, shape: tuple[int, ...]) -> None:
    assert parsed(f"[torch.FloatTensor {printed}] is at version 1; expected version 0 instead.").shape == shape


def test_a_size_that_is_no_list_of_integers_is_unknown() -> None:
    failure = parsed(
        "[NestedTensorCPU [2, j1, 5]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead."
    )
    assert (failure.tensor_type, failure.shape, failure.operator) == ("NestedTensorCPU", None, "Sigmoid")


def test_a_missing_size_is_unknown() -> None:
    assert parsed("[NestedTensorCPU] is at version 1; expected version 0 instead.").shape is None


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("SigmoidBackward0", "Sigmoid"),
        ("ClampBackward1", "Clamp1"),
        ("SoftExpBackward", "SoftExp"),
        ("AsStrided", "AsStrided"),
        ("torch::autograd::CopySlices", "torch::autograd::CopySlices"),
    ],
)
def test_operators_are_named_as_the_newest_release_prints_them(operator: str, name: str) -> None:
    assert normalised(operator) == name


def test_a_qualified_operator_is_read_whole() -> None:
    producer = "which is output 0 of torch::autograd::CopySlices"
    failure = parsed(f"[torch.FloatTensor [4]], {producer}, is at version 4; expected version 3 instead.")
    assert failure.operator == "torch::autograd::CopySlices"


def test_the_message_is_found_inside_a_log_and_taken_without_its_surroundings() -> None:
    body = "[torch.FloatTensor [3]] is at version 6; expected version 0 instead."
    log = f"epoch 1\nRuntimeError: {OPENING}{body}\nepoch 2\n"
    failure = parse(log)
    assert failure is not None and failure.message == OPENING + body


def test_the_first_of_several_messages_counts() -> None:
    texts = [f"{OPENING}[torch.FloatTensor [{n}]] is at version 1; expected version 0 instead." for n in (5, 6)]
    failure = parse("\n".join(texts))
    assert failure is not None and failure.shape == (5,)


@pytest.mark.parametrize(
    "text",
    ["", "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.", OPENING],
)
def test_other_texts_hold_no_failure(text: str) -> None:
    assert parse(text) is None


def test_the_same_error_may_differ_in_versions_shape_and_output() -> None:
    one = parsed(
        "[torch.FloatTensor [544, 768]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead."
    )
    other = parsed(
        "[torch.FloatTensor [1]], which is output 1 of SigmoidBackward0, is at version 9; expected version 4 instead."
    )
    assert same_error(one, other)


@pytest.mark.parametrize(
    "body",
    [
        "[torch.FloatTensor [2]], which is output 0 of Tanh, is at version 1; expected version 0 instead.",
        "[torch.FloatTensor [2]] is at version 1; expected version 0 instead.",
        "[torch.DoubleTensor [2]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead.",
    ],
)
def test_another_operator_or_type_is_another_error(body: str) -> None:
    one = parsed("[torch.FloatTensor [2]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead.")
    assert not same_error(one, parsed(body))
