"""What is run in new interpreters, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isolation.fakes import FakeBackend

from shrinkrepro.failure import parse
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.oracle import Judgement, Target, Verdict
from shrinkrepro.program.source import Program, Size
from shrinkrepro.reduction.engine import Adopted, Judged
from shrinkrepro.runtime.messages import Job, Limits, Report
from shrinkrepro.verification import SEEDS, Foresight, Verification, last_holding

SMALL, OTHER = Program.of("x = 1\n"), Program.of("y = 2\n")
MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [1]], which is output 0 of ExpBackward0, is at version 1; expected version 0 instead."
)


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend(lambda job: Report("failed", failure=MESSAGE))


def verification(backend: FakeBackend, jobs: int = 2) -> Verification:
    failure = parse(MESSAGE)
    assert failure is not None
    return Verification(Target(SMALL, failure, None), Workers(backend, jobs), Limits())


def adopted(program: Program) -> Adopted:
    return Adopted(program, Judgement(Verdict.SAME), Size.of(program), "step")


REJECTED = Judged(OTHER, Judgement(Verdict.DIFFERENT), "step")


def texts(jobs: list[Job]) -> list[str]:
    return [text for job in jobs for text in job.files.values()]


def test_the_program_is_run_once_for_each_hash_seed(backend: FakeBackend) -> None:
    assert verification(backend).holds(verification(backend).alone(SMALL))
    assert [job.environment["PYTHONHASHSEED"] for job in backend.submitted] == list(SEEDS)


def test_a_program_is_foreseen_to_be_the_last_one_after_ten_verdicts_that_change_nothing(backend: FakeBackend) -> None:
    foresight = Foresight(verification(backend))
    foresight(adopted(SMALL))
    for _ in range(9):
        foresight(REJECTED)
    early = len(backend.submitted)
    foresight(REJECTED)
    assert (early, texts(backend.submitted)) == (0, ["x = 1\n"] * len(SEEDS))


def test_only_what_is_foreseen_lets_others_go_first(backend: FakeBackend) -> None:
    foresight = Foresight(verification(backend))
    for event in (adopted(SMALL), *[REJECTED] * 10):
        foresight(event)
    foresight.alone(OTHER)
    assert [job.patient for job in backend.submitted] == [True] * len(SEEDS) + [False] * len(SEEDS)


def test_what_was_foreseen_is_not_run_again(backend: FakeBackend) -> None:
    foresight = Foresight(verification(backend))
    for event in (adopted(SMALL), *[REJECTED] * 20):
        foresight(event)
    foresight.alone(SMALL)
    assert len(backend.submitted) == len(SEEDS)


def test_what_was_foreseen_wrongly_is_ended(backend: FakeBackend) -> None:
    foresight = Foresight(verification(backend))
    for event in (adopted(SMALL), *[REJECTED] * 20, adopted(OTHER)):
        foresight(event)
    assert (texts(backend.cancelled), backend.running) == (["x = 1\n"] * len(SEEDS), [])


def test_another_program_than_the_foreseen_one_is_run_in_its_place(backend: FakeBackend) -> None:
    foresight = Foresight(verification(backend))
    for event in (adopted(SMALL), *[REJECTED] * 20):
        foresight(event)
    foresight.alone(OTHER)
    assert texts(backend.running) == ["y = 2\n"] * len(SEEDS)


def test_what_was_foreseen_with_one_worker_waits_until_it_is_asked_for(backend: FakeBackend) -> None:
    foresight = Foresight(verification(backend, jobs=1))
    for event in (adopted(SMALL), *[REJECTED] * 20):
        foresight(event)
    assert backend.submitted == []


@given(st.integers(1, 200), st.data())
def test_the_last_that_holds_is_found_when_those_that_hold_come_first(count: int, data: st.DataObject) -> None:
    holding = data.draw(st.integers(0, count))
    asked: list[int] = []

    def holds(index: int) -> bool:
        asked.append(index)
        return index < holding

    assert last_holding(count, holds) == (holding - 1 if holding else None)
    assert len(asked) <= 2 * count.bit_length() + 1


@pytest.mark.parametrize("count", range(1, 20))
def test_of_few_the_last_that_holds_is_found_wherever_it_is(count: int) -> None:
    found = [last_holding(count, lambda index, holding=holding: index < holding) for holding in range(1, count + 1)]
    assert found == list(range(count))


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_what_is_found_does_hold(answers: list[bool]) -> None:
    found = last_holding(len(answers), lambda index: answers[index])
    assert not answers[0] if found is None else answers[found]
