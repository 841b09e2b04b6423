"""The order in which patches are tried: a pure function of the answers."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from shrinkrepro.program.edit import Edit, Patch, deletion
from shrinkrepro.program.source import Program, Span
from shrinkrepro.reduction.search import Search, search

Holds = Callable[[str], bool]


def letters(text: str) -> tuple[Program, tuple[Patch, ...]]:
    """A program of letters, and the patches that delete each of them, the last letter first."""
    deletions = (Patch((deletion(Span("program.py", n, n + 1)),)) for n in reversed(range(len(text))))
    return Program.of(text), tuple(deletions)


def asked(base: Program, patches: tuple[Patch, ...], holds: Holds) -> tuple[list[str], str]:
    """Every candidate in the order in which the search asks about it, and the text that it ends with."""
    state, questions = search(base, patches), []
    while (candidate := state.candidate) is not None:
        questions.append(candidate.entry.text)
        state = state.after(holds(candidate.entry.text))
    return questions, state.current.entry.text


def needing(needed: str) -> Holds:
    return lambda text: set(needed) <= set(text)


# ---- exact sequences -------------------------------------------------------------------------------------------


def test_when_every_patch_holds_groups_grow_by_one_and_then_double() -> None:
    questions, end = asked(*letters("abcdefghijklmnopqrst"), needing(""))
    assert [20 - len(text) for text in questions] == [1, 2, 3, 4, 8, 16, 20]
    assert end == ""


def test_when_no_patch_holds_each_is_asked_about_once() -> None:
    assert asked(*letters("abc"), needing("abc")) == (["ab", "ac", "bc"], "abc")


def test_a_group_that_fails_is_bisected_and_its_first_bad_patch_skipped() -> None:
    # tries 1, 2, 3, 4, then 8 fails on "c": 6 fails, 5 holds, "c" is decided, and the search goes on with what is left
    questions, end = asked(*letters("abcdefgh"), needing("c"))
    assert questions == ["abcdefg", "abcdef", "abcde", "abcd", "", "ab", "abc", "ac", "c"]
    assert end == "c"


def test_no_patches_are_no_questions() -> None:
    assert asked(Program.of("a"), (), needing("")) == ([], "a")


def test_of_patches_of_one_span_the_first_that_holds_wins() -> None:
    alternatives = tuple(Patch((Edit(Span("program.py", 4, 7), (text,)),)) for text in ("1", "22", "333"))
    assert asked(Program.of("x = 999"), alternatives, lambda text: "1" not in text) == (["x = 1", "x = 22"], "x = 22")


def test_a_patch_inside_what_is_already_gone_is_not_asked_about() -> None:
    outer, inner = deletion(Span("program.py", 0, 4)), deletion(Span("program.py", 1, 2))
    assert asked(Program.of("abcdef"), (Patch((outer,)), Patch((inner,))), needing("")) == (["ef"], "ef")


def test_patches_that_change_nothing_are_not_asked_about() -> None:
    nothing = Patch((Edit(Span("program.py", 0, 1), ("a",)),))
    assert asked(Program.of("ab"), (nothing,), needing("")) == ([], "ab")


# ---- what any search promises ----------------------------------------------------------------------------------

needs = st.tuples(st.integers(1, 30), st.sets(st.integers(0, 29)))


def numbered(count: int) -> str:
    return "".join(chr(ord("A") + n) for n in range(count))


@given(needs)
def test_what_is_left_of_independent_patches_is_exactly_what_is_needed(drawn: tuple[int, set[int]]) -> None:
    count, kept = drawn
    needed = "".join(letter for n, letter in enumerate(numbered(count)) if n in kept)
    assert asked(*letters(numbered(count)), needing(needed))[1] == needed


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=12), st.integers(0, 11))
def test_with_uses_after_definitions_one_pass_leaves_nothing_to_delete(
    count: int, uses: list[tuple[int, int]], needed: int
) -> None:
    """A letter may use earlier ones; then deleting from the end finds a result from which no letter can go."""

    def holds(text: str) -> bool:
        present = {ord(letter) - ord("A") for letter in text}
        pairs = [(user, used) for user, used in uses if used < user]
        return needed % count in present and all(used in present for user, used in pairs if user in present)

    _, end = asked(*letters(numbered(count)), holds)
    assert not any(holds(end[:n] + end[n + 1 :]) for n in range(len(end)))


@given(st.integers(1, 20), st.randoms(use_true_random=False))
def test_the_end_is_a_program_that_held_whatever_the_answers(count: int, answers: random.Random) -> None:
    base, patches = letters(numbered(count))
    held = {base.entry.text}

    def holds(text: str) -> bool:
        answer = answers.random() < 0.5
        if answer:
            held.add(text)
        return answer

    assert asked(base, patches, holds)[1] in held


@given(st.integers(1, 20), st.integers(0, 2**20))
def test_the_same_answers_give_the_same_questions(count: int, seed: int) -> None:
    base, patches = letters(numbered(count))
    first, second = (asked(base, patches, lambda text: hash((text, seed)) % 3 > 0) for _ in range(2))
    assert first == second


def test_asking_twice_changes_nothing() -> None:
    state = search(*letters("abc"))
    assert state.candidate == state.candidate
    assert state.after(True) == state.after(True)
    assert state == search(*letters("abc"))


def test_twelve_of_three_hundred_are_found_in_at_most_130_runs() -> None:
    for seed in range(5):
        kept = sorted(random.Random(seed).sample(range(300), 12))
        needed = "".join(chr(0x4E00 + n) for n in kept)
        questions, end = asked(*letters("".join(chr(0x4E00 + n) for n in range(300))), needing(needed))
        assert end == needed
        assert len(questions) <= 130


# ---- looking ahead ---------------------------------------------------------------------------------------------


def ahead(state: Search, count: int) -> list[str]:
    return [program.entry.text for program, _ in zip(state.ahead(), range(count), strict=False)]


def follow(state: Search, answer: bool, count: int) -> list[str]:
    questions = []
    for _ in range(count):
        state = state.after(answer)
        if state.candidate is None:
            break
        questions.append(state.candidate.entry.text)
    return questions


def test_after_a_refusal_the_next_candidates_are_foreseen_as_refused_too() -> None:
    state = search(*letters("abcdef")).after(False)
    assert ahead(state, 4) == follow(state, False, 4)


def test_after_a_success_the_next_candidates_are_foreseen_as_successes() -> None:
    state = search(*letters("abcdefghijkl")).after(True)
    assert ahead(state, 3) == follow(state, True, 3)


def test_looking_ahead_ends_where_the_search_ends() -> None:
    assert len(list(search(*letters("abc")).ahead())) == 2
