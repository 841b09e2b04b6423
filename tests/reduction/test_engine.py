"""Passes to a fixpoint: what is adopted, what is told, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers import reduce_with, reduction

from shrinkrepro.facts import Facts
from shrinkrepro.oracle import Verdict
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Size, Span
from shrinkrepro.reduction.engine import Adopted, Budget, Judged, PassFinished, Started, Stopped

FIVE = "a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n"


def drop_statements(program: Program, facts: Facts) -> Iterator[Patch]:
    tree = facts.tree("program.py")
    yield from (Patch((statement.delete(),)) for statement in reversed(tree.statements))


def _rewrite(program: Program, old: str, new: str) -> Iterator[Patch]:
    start = program.entry.text.find(old)
    if start >= 0:
        yield Patch((Edit(Span("program.py", start, start + len(old)), (new,)),))


def a_to_b(program: Program, facts: Facts) -> Iterator[Patch]:
    return _rewrite(program, "a", "b")


def aa_to_b(program: Program, facts: Facts) -> Iterator[Patch]:
    return _rewrite(program, "aa", "b")


def b_to_a(program: Program, facts: Facts) -> Iterator[Patch]:
    return _rewrite(program, "b", "a")


def grow(program: Program, facts: Facts) -> Iterator[Patch]:
    return _rewrite(program, "1", "1 + 1")


def one_digit(program: Program, facts: Facts) -> Iterator[Patch]:
    return _rewrite(program, "11", "1")


# ---- what is adopted -------------------------------------------------------------------------------------------


def test_what_the_failure_does_not_need_goes() -> None:
    assert reduce_with([drop_statements], FIVE, lambda text: "b" in text and "d" in text)[0] == "b = 2\nd = 4\n"


def test_only_programs_judged_the_same_are_adopted() -> None:
    _, events = reduce_with([drop_statements], FIVE, lambda text: "c" in text)
    same = [e.candidate for e in events if isinstance(e, Judged) and e.judgement.verdict is Verdict.SAME]
    assert [e.program for e in events if isinstance(e, Adopted)] == same


def test_each_adopted_program_is_no_larger_than_the_one_before() -> None:
    _, events = reduce_with([drop_statements], FIVE, lambda text: text.count("\n") != 2)
    sizes = [e.size for e in events if isinstance(e, (Started, Adopted))]
    assert sizes == sorted(sizes, reverse=True)


def test_a_program_that_grows_is_not_adopted_though_it_fails_in_the_same_way() -> None:
    text, events = reduce_with([grow], "a = 1\n", lambda text: True)
    assert text == "a = 1\n"
    assert not any(isinstance(event, Adopted) for event in events)


def test_a_program_of_the_same_size_is_not_adopted() -> None:
    assert reduce_with([a_to_b], "a = 1\n", lambda text: True)[0] == "a = 1\n"


def test_passes_that_undo_each_other_do_not_go_on_for_ever() -> None:
    _, events = reduce_with([a_to_b, b_to_a], "a = 1\n", lambda text: True)
    assert not any(isinstance(event, Adopted) for event in events)


def test_late_passes_wait_until_the_others_change_nothing_more() -> None:
    events: list[object] = []
    work, _ = reduction(FIVE, lambda text: "c" in text, events=events)  # type: ignore[arg-type]
    work.run([a_to_b, drop_statements, grow], late=[a_to_b])
    turns = [event.step for event in events if isinstance(event, PassFinished)]
    assert turns == ["drop_statements", "grow", "drop_statements", "grow", "a_to_b"]


def test_what_a_late_pass_changes_gives_the_others_another_turn() -> None:
    work, _ = reduction("x = aa\nd = 1\n", lambda text: "x = b" in text or ("x" in text and "d" in text))
    assert work.run([aa_to_b, drop_statements], late=[aa_to_b]).program.entry.text == "x = b\n"


def test_two_patches_that_hold_only_together_are_made_together() -> None:
    text, _ = reduce_with([drop_statements], "a = 1\nx = 2\nb = 3\n", lambda t: "x" in t and ("a" in t) == ("b" in t))
    assert text == "x = 2\n"


def test_the_oracle_hears_of_every_adoption() -> None:
    events: list[object] = []
    work, oracle = reduction(FIVE, lambda text: "c" in text, events=events)  # type: ignore[arg-type]
    work.run([drop_statements])
    assert oracle.adoptions == sum(isinstance(event, Adopted) for event in events) > 0


def test_the_oracle_is_told_what_may_come_next() -> None:
    work, oracle = reduction(FIVE, lambda text: False)
    work.run([drop_statements])
    assert oracle.foreseen[0] == oracle.judged[1:4]


# ---- fixpoint --------------------------------------------------------------------------------------------------


def test_passes_are_repeated_until_a_whole_round_changes_nothing() -> None:
    text, events = reduce_with([one_digit], "a = 1111\n", lambda text: True)
    assert text == "a = 1\n"
    assert [e.adopted for e in events if isinstance(e, PassFinished)] == [True, True, True, False]


def test_a_later_pass_gives_an_earlier_one_another_chance() -> None:
    text, _ = reduce_with([drop_statements, aa_to_b], "aa = 1\nx = 2\n", lambda t: "b" in t or ("a" in t and "x" in t))
    assert text == "b = 1\n"


def test_no_pass_ends_at_once() -> None:
    _, events = reduce_with([], FIVE, lambda text: True)
    assert [type(event) for event in events] == [Started, Stopped]


# ---- events ----------------------------------------------------------------------------------------------------


def test_events_come_in_the_order_in_which_things_happen() -> None:
    _, events = reduce_with([drop_statements], "a = 1\nb = 2\n", lambda text: text in ("a = 1\n", "a = 1\nb = 2\n"))
    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        *["Started", "Judged", "Adopted", "Judged", "PassFinished"],
        *["Judged", "PassFinished", "Stopped"],
    ]


def test_events_name_the_pass_and_its_patches() -> None:
    _, events = reduce_with([drop_statements], "a = 1\nb = 2\n", lambda text: text == "a = 1\n")
    assert {e.step for e in events if isinstance(e, (Judged, Adopted, PassFinished))} == {"drop_statements"}
    assert [e.patches for e in events if isinstance(e, PassFinished)] == [2, 1]


def test_the_end_says_how_many_patches_the_last_round_tried_in_vain() -> None:
    _, events = reduce_with([drop_statements, a_to_b], FIVE, lambda text: text == FIVE)
    assert events[-1] == Stopped(Program.of(FIVE), "fixpoint", 6)


# ---- early ends ------------------------------------------------------------------------------------------------


def test_at_the_end_of_the_budget_the_best_so_far_is_the_result() -> None:
    answers = iter([False, False, True])
    text, events = reduce_with([drop_statements], FIVE, lambda text: True, budget=Budget(lambda: next(answers)))
    assert text == "a = 1\nb = 2\nc = 3\n"
    assert isinstance(events[-1], Stopped) and events[-1].reason == "budget"


def test_ctrl_c_gives_the_best_so_far() -> None:
    def interrupted(text: str) -> bool:
        if "c" not in text:
            raise KeyboardInterrupt
        return True

    text, events = reduce_with([drop_statements], FIVE, interrupted)
    assert text == "a = 1\nb = 2\nc = 3\n"
    assert isinstance(events[-1], Stopped) and events[-1].reason == "interrupted"


def test_an_error_in_a_pass_is_not_hidden() -> None:
    def broken(program: Program, facts: Facts) -> Iterator[Patch]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        reduce_with([broken], FIVE, lambda text: True)


# ---- guesses ---------------------------------------------------------------------------------------------------


def test_the_passes_begin_at_the_first_guess_that_holds() -> None:
    work, oracle = reduction(FIVE, lambda text: "b" in text)
    assert (
        work.run([], lambda _: [[Program.of(text) for text in ("a = 1\n", "b = 1\n", "b\n")]]).program.entry.text
        == "b = 1\n"
    )
    assert oracle.judged == ["a = 1\n", "b = 1\n"]


def test_when_no_guess_holds_the_passes_begin_at_the_program() -> None:
    work, _ = reduction(FIVE, lambda text: text == FIVE)
    assert work.run([drop_statements], lambda _: [[Program.of("a = 1\n")]]).program.entry.text == FIVE


def test_guesses_are_made_again_of_what_the_passes_have_reached() -> None:
    def from_two_lines(program: Program) -> list[list[Program]]:
        return [[Program.of("b\n")]] if len(program.entry.text.splitlines()) == 2 else []

    def keeps_two(text: str) -> bool:
        return text == "b\n" or ("b = 2" in text and len(text.splitlines()) >= 2)

    work, _ = reduction(FIVE, keeps_two)
    assert work.run([drop_statements], from_two_lines).program.entry.text == "b\n"


def test_a_group_of_guesses_is_passed_over_when_none_of_it_holds() -> None:
    work, oracle = reduction(FIVE, lambda text: "b" in text)
    assert work.run([], lambda _: [[Program.of("a = 1\n")], [Program.of("b = 1\n")]]).program.entry.text == "b = 1\n"
    assert oracle.judged == ["a = 1\n", "b = 1\n"]


def test_a_guess_of_a_later_group_wins_when_the_passes_make_it_smaller() -> None:
    work, _ = reduction(FIVE, lambda text: "b" in text)
    groups = [[Program.of("b = a = c\n")], [Program.of("b = 1\n")]]
    assert work.run([], lambda _: groups).program.entry.text == "b = 1\n"


def test_a_guess_of_a_later_group_loses_when_it_stays_larger() -> None:
    work, _ = reduction(FIVE, lambda text: "b" in text)
    groups = [[Program.of("b = 1\n")], [Program.of("b = a = c\n")]]
    assert work.run([], lambda _: groups).program.entry.text == "b = 1\n"


# ---- sizes -----------------------------------------------------------------------------------------------------


def test_the_size_of_a_program_counts_in_place_forms_first() -> None:
    fewer_writes, fewer_tokens = Program.of("x = x + y + y + y\n"), Program.of("x += 1\n")
    assert Size.of(fewer_writes) < Size.of(fewer_tokens)
