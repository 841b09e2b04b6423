"""Verdicts: which candidates show the failure of the original, and what judging them costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from isolation.fakes import FakeBackend

from shrinkrepro.diagnosis import Diagnosis, diagnose
from shrinkrepro.failure import VersionMismatch, parse
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.oracle import Oracle, Sameness, Target, Verdict
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span
from shrinkrepro.runtime.messages import NOWHERE, Frame, Limits, Mutation, Outcome, Place, Report, Trace

ORIGINAL = "x = make()\nunused = 0\ny = save(x)\nx.add_(1)\nother.add_(1)\ny.backward()\n"
PREAMBLE = "from here import make, save, other\n"
MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [{shape}]], which is output 0 of {operator}, is at version 1; expected version 0 instead."
)


_START = (PREAMBLE + ORIGINAL).index("x.add_(1)")
CULPRIT = Span("program.py", _START, _START + len("x.add_(1)"))


def message(shape: str = "3", operator: str = "SigmoidBackward0") -> str:
    return MESSAGE.format(shape=shape, operator=operator)


def mismatch(text: str) -> VersionMismatch:
    found = parse(text)
    assert found is not None
    return found


def place(line: int, operator: str) -> Place:
    return Place(operator, (Frame("program.py", line, "<module>"),))


def trace(culprit: int | None, operator: str = "add_", node: str = "SigmoidBackward0", *, empty: bool = False) -> Trace:
    writes = () if culprit is None else (Mutation(place(culprit, operator), 0, 1, empty),)
    return Trace(message(), node, "_saved_result", place(4, "sigmoid"), writes, place(7, "backward"), method="stale")


def original() -> Program:
    return Program.of(PREAMBLE + ORIGINAL)


def diagnosis(found: Trace) -> Diagnosis:
    return diagnose(found, dict(original().texts))


def answering(plain: Report, traced: Report | None = None) -> FakeBackend:
    return FakeBackend(lambda job: traced if job.watch == "trace" and traced is not None else plain)


def oracle(
    backend: FakeBackend,
    sameness: Sameness = "statement",
    *,
    shape: str = "3",
    known: Trace | None = None,
    jobs: int = 1,
) -> Oracle:
    target = Target(original(), mismatch(message(shape)), diagnosis(known or trace(5)), sameness)
    return Oracle(target, Workers(backend, jobs), Limits(wall=100.0))


def failing(found: Trace, text: str | None = None) -> FakeBackend:
    return answering(Report("failed", failure=text or message()), Report("failed", failure=text, trace=found))


def without_line(number: int) -> Program:
    """The original with line `number` (from 1) deleted."""
    program = original()
    start, end = program.entry.offset_of(number), program.entry.offset_of(number + 1)
    return Patch((Edit(Span("program.py", start, end)),)).apply(program)


# ---- verdicts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        ("raised", Verdict.OTHER),
        ("finished", Verdict.PASSED),
        ("exhausted", Verdict.PASSED),
        ("timeout", Verdict.TIMEOUT),
        ("killed", Verdict.KILLED),
        ("invalid", Verdict.INVALID),
    ],
)
def test_a_run_without_the_error_gets_the_verdict_of_how_it_ended(outcome: Outcome, verdict: Verdict) -> None:
    assert oracle(answering(Report(outcome))).judge(without_line(6)).verdict is verdict


def test_the_same_error_from_a_descendant_of_the_culprit_is_the_same_failure() -> None:
    judgement = oracle(failing(trace(5))).judge(without_line(6))
    assert judgement.verdict is Verdict.SAME
    assert judgement.diagnosis is not None and judgement.diagnosis.culprit is not None
    assert judgement.diagnosis.culprit.source == "x.add_(1)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (message(operator="TanhBackward0"), "Tanh instead of"),
        (message().replace("FloatTensor", "DoubleTensor"), "DoubleTensor"),
        (message(shape="0"), "empty"),
    ],
    ids=["another operator", "another tensor type", "an empty tensor"],
)
def test_an_error_that_says_something_else_is_different_and_not_traced(text: str, reason: str) -> None:
    backend = failing(trace(5), text)
    judgement = oracle(backend).judge(without_line(6))
    assert judgement.verdict is Verdict.DIFFERENT
    assert reason in judgement.why
    assert [job.watch for job in backend.submitted] == ["plain"]


def test_sizes_and_versions_are_free() -> None:
    text = message("7, 7").replace("version 1", "version 9")
    assert oracle(failing(trace(5), text)).judge(without_line(6)).verdict is Verdict.SAME


def test_a_tensor_that_was_empty_may_stay_empty() -> None:
    assert oracle(failing(trace(5), message("0")), shape="0").judge(without_line(6)).verdict is Verdict.SAME


def test_a_write_that_was_empty_may_stay_empty() -> None:
    found = trace(5, empty=True)
    assert oracle(failing(found), known=found).judge(without_line(6)).verdict is Verdict.SAME


def test_a_message_that_cannot_be_read_is_another_error() -> None:
    backend = answering(Report("failed", failure="modified by an inplace operation: in no known words"))
    assert oracle(backend).judge(without_line(6)).verdict is Verdict.OTHER


def test_a_failure_that_the_tracer_does_not_see_is_different() -> None:
    backend = answering(Report("failed", failure=message()), Report("finished"))
    assert oracle(backend).judge(without_line(6)).verdict is Verdict.DIFFERENT


# ---- the same-failure rule -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "statement", "op", "any_"),
    [
        (trace(5), True, True, True),
        (trace(6), False, True, True),
        (trace(5, operator="mul_"), False, False, True),
        (trace(5, node="TanhBackward0"), False, False, True),
        (trace(None), False, False, True),
        (trace(5, empty=True), False, False, True),
    ],
    ids=["the culprit", "another statement", "another operator", "another node", "no write found", "an empty write"],
)
def test_what_counts_as_the_same_failure(found: Trace, statement: bool, op: bool, any_: bool) -> None:
    rules: list[tuple[Sameness, bool]] = [("statement", statement), ("op", op), ("any", any_)]
    for sameness, same in rules:
        judgement = oracle(failing(_moved_up(found)), sameness).judge(without_line(3))
        assert (judgement.verdict is Verdict.SAME) is same, (sameness, judgement.why)


def _moved_up(found: Trace) -> Trace:
    """The trace with each write one line further up: for a candidate that lacks a line before it."""

    def up(mutation: Mutation) -> Mutation:
        frame = mutation.place.stack[0]
        return replace(mutation, place=replace(mutation.place, stack=(replace(frame, line=frame.line - 1),)))

    return replace(found, mutations=tuple(map(up, found.mutations)))


def with_culprit_as(*pieces: str | Span) -> Program:
    """The original with the culprit, its fifth line, written as `pieces`."""
    program = original()
    return Patch((Edit(CULPRIT, pieces),)).apply(program)


def test_a_culprit_that_was_copied_elsewhere_descends_from_the_original() -> None:
    moved = with_culprit_as("if y:\n    ", CULPRIT)
    assert oracle(failing(trace(6))).judge(moved).verdict is Verdict.SAME


SPREAD = "x.add_(\n    torch.tensor(1),\n)"


def spread() -> Program:
    """The original with a culprit of three lines, 5 to 7."""
    return Program.of((PREAMBLE + ORIGINAL).replace("x.add_(1)", SPREAD))


def judged(candidate: Program) -> Verdict:
    """What is made of a candidate of the spread program whose culprit is in line 5."""
    program = spread()
    known = diagnose(trace(5), dict(program.texts))
    judge = Oracle(Target(program, mismatch(message()), known), Workers(failing(trace(5)), 1), Limits(wall=100.0))
    return judge.judge(candidate).verdict


def replaced(program: Program, old: str, *pieces: str | Span) -> Program:
    """`program` with `pieces` for `old`, which it has once."""
    start = program.entry.text.index(old)
    return Patch((Edit(Span("program.py", start, start + len(old)), pieces),)).apply(program)


def test_a_culprit_that_has_lost_some_of_its_lines_still_descends_from_the_original() -> None:
    assert judged(replaced(spread(), "\n    torch.tensor(1),\n", "1")) is Verdict.SAME


def test_a_culprit_that_has_taken_in_another_line_still_descends_from_the_original() -> None:
    program = spread()
    value = program.entry.text.index("make()")
    inlined = replaced(program, "torch.tensor(1)", Span("program.py", value, value + len("make()")))
    assert judged(inlined) is Verdict.SAME


def test_a_culprit_made_of_other_lines_alone_is_another() -> None:
    program = spread()
    start = program.entry.text.index("other.add_(1)")
    assert judged(replaced(program, SPREAD, Span("program.py", start, start + 13))) is Verdict.DIFFERENT


def test_a_culprit_written_anew_has_no_origin_so_node_attribute_and_operator_decide() -> None:
    assert oracle(failing(trace(5))).judge(with_culprit_as("x.add_(1)")).verdict is Verdict.SAME
    assert oracle(failing(trace(5, operator="mul_"))).judge(with_culprit_as("x.mul_(1)")).verdict is Verdict.DIFFERENT


def test_when_the_original_has_no_known_culprit_node_and_attribute_decide() -> None:
    assert oracle(failing(trace(5)), known=trace(None)).judge(without_line(3)).verdict is Verdict.SAME


# ---- what judging costs ----------------------------------------------------------------------------------------


def test_a_program_is_run_once_and_remembered() -> None:
    backend = answering(Report("finished"))
    judge = oracle(backend)
    assert judge.judge(without_line(6)) == judge.judge(without_line(6))
    assert (len(backend.submitted), judge.counts.run, judge.counts.cached) == (1, 1, 1)


def test_a_name_bound_nowhere_is_rejected_without_a_run() -> None:
    backend = answering(Report("failed", failure=message()))
    judge = oracle(backend)
    judgement = judge.judge(without_line(1))
    assert judgement.verdict is Verdict.INVALID
    assert "bound nowhere" in judgement.why
    assert (backend.submitted, judge.counts.run, judge.counts.rejected_unrun) == ([], 0, 1)


def test_a_candidate_of_another_kind_costs_no_traced_run() -> None:
    backend = answering(Report("finished"))
    oracle(backend).judge(without_line(6))
    assert [job.watch for job in backend.submitted] == ["plain"]


def test_a_failure_that_the_tracer_hides_is_judged_by_its_message_alone() -> None:
    backend = failing(trace(5))
    judge = oracle(backend)
    judge.target = replace(judge.target, diagnosis=None)
    assert judge.judge(without_line(6)).verdict is Verdict.SAME
    assert [job.watch for job in backend.submitted] == ["plain"]


def test_any_failure_may_be_one_that_the_tracer_does_not_see() -> None:
    backend = answering(Report("failed", failure=message("9", "TanhBackward0")), Report("finished"))
    assert oracle(backend, "any").judge(without_line(6)).verdict is Verdict.SAME


def test_what_is_ahead_is_started_unless_it_is_known_or_invalid() -> None:
    backend = answering(Report("finished"))
    judge = oracle(backend, jobs=4)
    judge.judge(without_line(6))
    judge.judge(without_line(5), [without_line(6), without_line(1), without_line(7)])
    assert [job.files["program.py"] for job in backend.running] == [without_line(7).entry.text]


def test_what_was_started_early_survives_the_traced_run() -> None:
    backend = failing(trace(5))
    judge = oracle(backend, jobs=2)
    judge.judge(without_line(6), [without_line(3)])
    assert backend.cancelled == []


# ---- limits ----------------------------------------------------------------------------------------------------


def limits_after(report: Report) -> Limits:
    judge = oracle(failing(trace(5)))
    judge.adopt(without_line(6), replace(judge.judge(without_line(6)), report=report))
    return judge.limits


def test_an_adopted_program_bounds_the_backward_passes_of_those_that_follow() -> None:
    assert limits_after(Report("failed", backwards=3)).backwards == 3


def test_an_adopted_program_that_fails_much_sooner_bounds_the_time_of_those_that_follow() -> None:
    assert limits_after(Report("failed", seconds=2.0)).wall == 2.0 * Oracle.slack + Oracle.grace


@pytest.mark.parametrize("seconds", [20.0, 1000.0])
def test_small_changes_and_slow_programs_leave_the_limit_alone(seconds: float) -> None:
    assert limits_after(Report("failed", seconds=seconds)).wall == 100.0


def test_adoptions_are_counted() -> None:
    judge = oracle(failing(trace(5)))
    judge.adopt(without_line(6), judge.judge(without_line(6)))
    assert judge.counts.accepted == 1


# ---- where candidates run --------------------------------------------------------------------------------------


def folders_after_adoption(alone: Report) -> set[str]:
    """Where a candidate runs after the adoption of a program that ends with the report `alone` in an empty folder."""
    failed = Report("failed", failure=message(), trace=trace(5))
    backend = FakeBackend(lambda job: alone if job.cwd == NOWHERE else failed)
    judge = oracle(backend)
    judge.adopt(without_line(6), judge.judge(without_line(6)))
    before = len(backend.submitted)
    judge.judge(without_line(3))
    return {folder for job in backend.submitted[before:] for folder in (job.root, job.cwd)}


def test_once_a_program_fails_in_an_empty_folder_candidates_run_in_one() -> None:
    assert folders_after_adoption(Report("failed", failure=message(), trace=trace(5))) == {NOWHERE}


def test_as_long_as_a_program_needs_its_folder_candidates_run_there() -> None:
    assert NOWHERE not in folders_after_adoption(Report("raised", error_type="FileNotFoundError"))


def test_a_program_that_fails_otherwise_in_an_empty_folder_needs_its_folder() -> None:
    assert NOWHERE not in folders_after_adoption(Report("failed", failure=message(operator="TanhBackward0")))
