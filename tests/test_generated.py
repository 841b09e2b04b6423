"""shrinkrepro held against generated programs whose culprit is known; benchmarks/generated.py does it by thousands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from corpus.generate.checks import as_program, diagnosed, differential, needless, patches, reduced
from corpus.generate.programs import outcome, program, programs
from corpus.generate.shared import Shared
from corpus.generate.smallest import failing_pair, smallest
from corpus.generate.truth import Generated, Place
from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.pipeline import Options, explain, reduce
from shrinkrepro.program.source import Program

FEW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
SEED = 20
OPTIONS = Options(timeout=60, jobs=1)


@pytest.fixture(scope="module")
def backend() -> Iterator[Shared]:
    with Shared() as shared:
        yield shared


def line(generated: Generated, place: Place) -> str:
    return generated.files[place.file].splitlines()[place.line - 1].strip()


# ---- the generator itself


@given(programs(moves=15))
@FEW
def test_a_program_fails_as_its_truth_says_when_nobody_watches(generated: Generated) -> None:
    assert generated.truth is not None
    message = outcome(generated.files) or ""
    assert message.split(" Hint")[0] == generated.truth.message.split(" Hint")[0]


@given(programs(moves=15, faults=0))
@FEW
def test_a_program_without_a_harmful_write_runs_to_its_end(generated: Generated) -> None:
    assert (generated.truth, outcome(generated.files)) == (None, None)


@given(programs(moves=15))
@FEW
def test_the_lines_of_the_truth_stand_where_it_says(generated: Generated) -> None:
    truth = generated.truth
    assert truth is not None
    places = (truth.saved, truth.culprit, truth.needed, *truth.harmful)
    assert [line(generated, place) for place in places] == [place.source for place in places]


def test_a_seed_and_a_number_give_the_same_program_again() -> None:
    assert program(SEED, 5) == program(SEED, 5)


def test_other_numbers_give_other_programs() -> None:
    assert len({program(SEED, number).files["train.py"] for number in range(5)}) == 5


@pytest.fixture(scope="module")
def texts() -> str:
    return "\n".join(text for number in range(40) for text in program(SEED, number, moves=25).files.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        "use_reentrant=False",
        ".register_hook(",
        ".register_forward_hook(",
        "@torch.jit.script",
        "torch.func.",
        "torch.vmap(",
        "register_buffer(",
        "torch._foreach_",
        "torch.optim.",
        "out=",
        "torch.autograd.Function",
        "torch.nn.Module",
        "parser.parse_args()",
        "from net import",
        "def main():",
    ],
)
def test_programs_are_of_many_kinds(texts: str, part: str) -> None:
    assert part in texts


@pytest.mark.parametrize("number", range(5))
def test_the_smallest_program_fails_at_the_same_pair_of_operators(number: int) -> None:
    truth = program(SEED, number, moves=10).truth
    assert truth is not None
    text = smallest(truth)
    pair = None if text is None else failing_pair(text)
    assert text is None or (pair is not None and pair.shows(truth))


@given(programs(moves=15))
@FEW
def test_only_the_harmful_lines_are_to_blame_for_the_error(generated: Generated) -> None:
    assert differential(generated) == []


# ---- shrinkrepro


@given(generated=programs(moves=20))
@FEW
def test_the_diagnosis_names_the_planted_culprit_and_the_saving_line(backend: Shared, generated: Generated) -> None:
    assert diagnosed(generated, backend)[0] == []


@given(generated=programs(moves=20, faults=2))
@FEW
def test_of_two_harmful_writes_the_diagnosis_names_the_one_that_backward_meets(
    backend: Shared, generated: Generated
) -> None:
    assert diagnosed(generated, backend)[0] == []


@given(generated=programs(moves=20, faults=0))
@FEW
def test_a_program_without_a_harmful_write_is_not_taken_for_a_failure(backend: Shared, generated: Generated) -> None:
    with pytest.raises(ShrinkReproError) as problem:
        explain(as_program(generated), OPTIONS, start=backend)
    assert problem.value.exit is Exit.NOT_REPRODUCED


@given(generated=programs(moves=15))
@settings(FEW, max_examples=2)
def test_every_patch_of_every_pass_is_valid_python_and_knows_where_it_came_from(
    backend: Shared, generated: Generated
) -> None:
    assert patches(generated, backend) == []


@pytest.mark.large
@pytest.mark.parametrize("number", range(4))
def test_a_reduced_program_keeps_failure_operators_and_culprit(backend: Shared, number: int) -> None:
    assert reduced(program(SEED, number, moves=30), backend)[0] == []


@pytest.mark.large
def test_reducing_again_changes_nothing(backend: Shared) -> None:
    once = reduce(as_program(program(SEED, 1, moves=30)), OPTIONS, start=backend).reduced
    assert once is not None
    twice = reduce(once.program, OPTIONS, start=backend).reduced
    assert twice is not None
    assert twice.program.texts == once.program.texts


@pytest.mark.large
def test_two_workers_come_to_the_same_result_as_one(backend: Shared) -> None:
    generated = as_program(program(SEED, 2, moves=30))
    results = [reduce(generated, Options(timeout=60, jobs=jobs), start=backend).reduced for jobs in (1, 2)]
    assert [result and result.program.texts for result in results][1:] == [results[0] and results[0].program.texts]


GATE = """\
import torch

class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a

x = torch.ones(3, requires_grad=True)
y = Gate.apply(x, x)
with torch.no_grad():
    x.add_(1)
y.sum().backward()
"""

MARKED = """\
import torch

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

x = torch.ones(1, requires_grad=True) * 1
y = x.sin()
Twice.apply(x)
y.backward()
"""


@pytest.mark.slow
def test_a_reduced_custom_function_still_has_a_gradient_for_each_input(backend: Shared) -> None:
    result = reduce(Program.of(GATE), OPTIONS, start=backend)
    assert result.twin is not None


def test_where_another_write_would_fail_in_the_same_words_the_culprit_is_not_needless(backend: Shared) -> None:
    diagnosis = explain(Program.of(MARKED), OPTIONS, start=backend).diagnosis
    message = diagnosis.failure.message
    assert (needless(MARKED, message, None), needless(MARKED, message, diagnosis.culprit)) == (["x.mul_(2)"], [])
