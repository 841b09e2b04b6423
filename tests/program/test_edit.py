"""Patches: what they make of a program, what they keep of its origin, how they combine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import MARK, dedented, edits, programs

from shrinkrepro.program.edit import Conflict, Edit, Patch, conflicting, copied, deletion
from shrinkrepro.program.source import Program, Span, original_lines
from shrinkrepro.program.tree import Statement, parse

PATH = "program.py"


def span(text: str, part: str) -> Span:
    """Where `part`, which occurs once, stands in `text`."""
    assert text.count(part) == 1
    return Span(PATH, text.index(part), text.index(part) + len(part))


def applied(text: str, *made: Edit) -> str:
    return Patch(made).apply(Program.of(text)).entry.text


def statements_of(text: str) -> tuple[Statement, ...]:
    return parse(Program.of(text).entry).statements


@st.composite
def patched(draw: st.DrawFn) -> tuple[Program, Program]:
    """A program and what a patch of a few random edits makes of it."""
    program = Program.of(draw(programs()))
    made = tuple(draw(st.lists(edits(PATH, program.entry.text), min_size=1, max_size=4)))
    try:
        return program, Patch(made).apply(program)
    except Conflict:
        assume(False)
        raise


# ---- provenance ------------------------------------------------------------------------------------------------


def assert_provenance(original: Program, changed: Program) -> None:
    text, covered = changed.entry.text, [False] * len(changed.entry.text)
    for run in changed.entry.runs:
        end = run.start + run.length
        assert text[run.start : end] == original[run.path].text[run.offset : run.offset + run.length]
        assert not any(covered[run.start : end])
        covered[run.start : end] = [True] * run.length
    literal = {character for character, copied in zip(text, covered, strict=True) if not copied}
    assert literal <= {MARK, "\n"}
    assert MARK not in {character for character, copied in zip(text, covered, strict=True) if copied}


@given(patched())
def test_every_character_is_a_copy_of_the_original_or_literal(pair: tuple[Program, Program]) -> None:
    assert_provenance(*pair)


@given(patched(), st.data())
def test_provenance_survives_a_second_patch(pair: tuple[Program, Program], data: st.DataObject) -> None:
    original, once = pair
    edit = data.draw(edits(PATH, once.entry.text))
    try:
        twice = Patch((edit,)).apply(once)
    except Conflict:
        assume(False)
    assert_provenance(original, twice)


@given(patched())
def test_every_line_maps_to_lines_of_the_original_or_holds_nothing_but_literals(pair: tuple[Program, Program]) -> None:
    original, changed = pair
    sources = original.entry.text.split("\n")
    for number, line in enumerate(changed.entry.text.split("\n"), 1):
        start = changed.entry.offset_of(number)
        found = original_lines(changed, Span(PATH, start, start + len(line)), original)
        copied = {character for character in line if character != MARK and not character.isspace()}
        assert copied <= {character for _, n in found for character in sources[n - 1]}
        assert bool(found) == bool(copied)


def test_copies_that_continue_one_another_are_one_run() -> None:
    text = "a = 1\nb = 2\n"
    program = Patch((Edit(Span(PATH, 0, 12), (Span(PATH, 0, 6), Span(PATH, 6, 12))),)).apply(Program.of(text))
    assert program.entry.runs == Program.of(text).entry.runs


# ---- how edits combine -----------------------------------------------------------------------------------------


@st.composite
def disjoint(draw: st.DrawFn) -> tuple[str, tuple[Edit, ...]]:
    """A text, and literal replacements and deletions of parts of it that do not touch each other."""
    text = draw(programs())
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), min_size=4, max_size=8)))
    ends = list(zip(cuts[::2], cuts[1::2], strict=False))
    return text, tuple(Edit(Span(PATH, *pair), (draw(st.text([MARK], max_size=3)),)) for pair in ends)


def shifted(edit: Edit, done: Sequence[Edit]) -> Edit:
    """`edit` for the text after those in `done` were made; all are given for the text before."""
    earlier = [other for other in done if other.span < edit.span]
    by = sum(len("".join(map(str, e.replacement))) - (e.span.end - e.span.start) for e in earlier)
    return Edit(Span(PATH, edit.span.start + by, edit.span.end + by), edit.replacement)


@given(disjoint().flatmap(lambda drawn: st.tuples(st.just(drawn[0]), st.permutations(drawn[1]))))
def test_independent_edits_together_equal_one_after_the_other_in_any_order(
    drawn: tuple[str, list[Edit]],
) -> None:
    text, order = drawn
    one_by_one = text
    for position, edit in enumerate(order):
        one_by_one = applied(one_by_one, shifted(edit, order[:position]))
    assert one_by_one == applied(text, *order)


@given(programs(), st.data())
def test_the_order_of_patches_does_not_matter(text: str, data: st.DataObject) -> None:
    statements = statements_of(text)
    a, b = (Patch((data.draw(st.sampled_from(statements)).delete(),)) for _ in range(2))
    assume(not conflicting([a, b]))
    assert (a | b).apply(Program.of(text)).entry == (b | a).apply(Program.of(text)).entry


@given(programs())
def test_deleting_all_statements_at_once_leaves_none(text: str) -> None:
    outer = [statement for statement in statements_of(text) if statement.block is None and statement.compound]
    program = Patch(tuple(statement.delete() for statement in outer)).apply(Program.of(text))
    assert not [s for s in parse(program.entry).statements if s.compound and s.block is None]


def test_an_edit_inside_what_another_copies_is_made_in_the_copy() -> None:
    text = "x = f(g(1, 2))\n"
    keep_inner = Edit(span(text, "f(g(1, 2))"), (span(text, "g(1, 2)"),))
    drop_argument = deletion(span(text, ", 2"))
    assert applied(text, keep_inner, drop_argument) == applied(text, drop_argument, keep_inner) == "x = g(1)\n"


def test_an_edit_inside_what_another_discards_is_void() -> None:
    text = "x = f(g(1, 2))\n"
    assert applied(text, Edit(span(text, "g(1, 2)"), ("0",)), deletion(span(text, ", 2"))) == "x = f(0)\n"


def test_a_statement_can_be_deleted_in_a_block_that_another_patch_unwraps() -> None:
    text = "if x:\n    a()\n    b()\nc()\n"
    unwrap = Patch((deletion(span(text, "if x:\n")), *(deletion(Span(PATH, n, n + 4)) for n in (6, 14))))
    drop = Patch((next(s for s in statements_of(text) if s.code == span(text, "b()")).delete(),))
    program = Program.of(text)
    assert (unwrap | drop).apply(program).entry.text == (drop | unwrap).apply(program).entry.text == "a()\nc()\n"


def test_a_copy_may_contain_the_span_that_it_replaces() -> None:
    text = "f(x)\n"
    assert applied(text, Edit(span(text, "x"), ("(", span(text, "f(x)"), ")"))) == "f((f(x)))\n"


def test_the_same_edit_in_two_patches_is_made_once() -> None:
    program, edit = Program.of("a\nb\n"), Edit(Span(PATH, 0, 1), ("c",))
    assert (Patch((edit,)) | Patch((edit,))).apply(program).entry.text == "c\nb\n"


def test_of_deletions_that_overlap_nothing_is_left() -> None:
    edits = [deletion(Span(PATH, start, end)) for start, end in ((0, 4), (1, 2), (2, 6), (5, 7))]
    assert applied("0123456789", *edits) == "789"


@pytest.mark.parametrize(
    ("text", "gone", "rest"),
    [
        ("a(); b()\nc()\n", ["a()", "b()"], "\nc()\n"),
        ("a(); b(); c()\n", ["b()", "c()"], "a(); \n"),
        ("if x: a(); b()\n", ["a()", "b()"], "if x: pass\n"),
        ("if x:\n    a(); b()\n", ["a()", "b()"], "if x:\n    pass\n"),
        ("if x:\n    a()\n    b(); c()\n", ["a()", "b()", "c()"], "if x:\n    pass\n"),
    ],
)
def test_statements_that_share_a_line_can_be_deleted_together(text: str, gone: list[str], rest: str) -> None:
    edits = [each.delete() for each in statements_of(text) if text[each.code.start : each.code.end] in gone]
    assert applied(text, *edits) == rest


# ---- conflicts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (deletion(Span(PATH, 0, 4)), Edit(Span(PATH, 2, 6), ("a",))),
        (Edit(Span(PATH, 0, 4), ("a",)), Edit(Span(PATH, 0, 4), ("b",))),
        (Edit(Span(PATH, 3, 3), ("a",)), Edit(Span(PATH, 3, 3), ("b",))),
        (Edit(Span(PATH, 0, 8), (Span(PATH, 2, 5),)), deletion(Span(PATH, 4, 7))),
    ],
    ids=["overlap", "one span, two texts", "two insertions at one place", "crosses the edge of a copy"],
)
def test_contradicting_edits_raise_conflict(first: Edit, second: Edit) -> None:
    assert conflicting([Patch((first,)), Patch((second,))])
    with pytest.raises(Conflict):
        applied("0123456789", first, second)


def test_touching_edits_do_not_conflict() -> None:
    assert applied("0123456789", deletion(Span(PATH, 0, 4)), deletion(Span(PATH, 4, 6))) == "6789"


# ---- insertions ------------------------------------------------------------------------------------------------


def insertion(offset: int) -> Edit:
    return Edit(Span(PATH, offset, offset), (MARK,))


@pytest.mark.parametrize(
    ("offset", "result"),
    [(0, "§01289"), (3, "012§89"), (8, "012§89"), (10, "01289§")],
    ids=["start of the text", "start of a deletion", "end of a deletion", "end of the text"],
)
def test_an_insertion_at_an_edge_stands_beside_what_is_deleted(offset: int, result: str) -> None:
    assert applied("0123456789", insertion(offset), deletion(Span(PATH, 3, 8))) == result


def test_an_insertion_inside_what_is_deleted_is_void() -> None:
    assert applied("0123456789", insertion(5), deletion(Span(PATH, 3, 8))) == "01289"


@pytest.mark.parametrize("kept", [Span(PATH, 3, 6), Span(PATH, 4, 8), Span(PATH, 3, 8)])
def test_insertions_around_what_is_replaced_by_its_own_part_are_made_once(kept: Span) -> None:
    result = applied("0123456789", insertion(3), insertion(8), Edit(Span(PATH, 3, 8), (kept,)))
    assert result == "012§" + "0123456789"[kept.start : kept.end] + "§89"


def test_insertions_at_both_edges_of_a_copy_inside_are_copied_with_it() -> None:
    assert applied("0123456789", insertion(4), insertion(6), Edit(Span(PATH, 3, 8), (Span(PATH, 4, 6),))) == "012§45§89"


# ---- blocks ----------------------------------------------------------------------------------------------------


@given(programs())
def test_a_block_that_loses_every_statement_keeps_one_pass(text: str) -> None:
    blocks = defaultdict(list)
    for statement in statements_of(text):
        if statement.block is not None:
            blocks[statement.block].append(statement)
    whole = [(block, members) for block, members in blocks.items() if len(members) == block.members]
    for block, members in whole:
        changed = applied(text, *(statement.delete() for statement in members))
        inside = sum(statement.code in block.span for statement in statements_of(text))
        assert len(statements_of(changed)) == len(statements_of(text)) - inside + 1
        assert block.filler in changed


def test_a_block_that_keeps_a_statement_gets_no_pass() -> None:
    text = "def f():\n    a()\n    b()\n"
    assert applied(text, statements_of(text)[1].delete()) == "def f():\n    b()\n"


def test_the_pass_of_an_emptied_block_vanishes_with_the_block() -> None:
    text = "if x:\n    a()\nb()\n"
    outer, inner, _ = statements_of(text)
    assert applied(text, outer.delete(), inner.delete()) == "b()\n"


def test_patches_of_several_files_change_each_of_them() -> None:
    one, two = Program.of("a = 1\n", "one.py"), Program.of("b = 2\n", "two.py")
    program = Program(one.files + two.files, one.invocation)
    changed = Patch((Edit(Span("one.py", 4, 5), ("3",)), Edit(Span("two.py", 0, 1), (Span("one.py", 0, 1),)))).apply(
        program
    )
    assert changed.texts == (("one.py", "a = 3\n"), ("two.py", "a = 2\n"))
    assert changed["two.py"].runs[0].path == "one.py"


def test_text_written_in_a_test_is_dedented() -> None:
    assert dedented("\n    a\n      b\n") == "a\n  b\n"


def test_a_copy_can_have_edits_that_the_original_and_other_copies_do_not_have() -> None:
    text = "f(x)\n"
    pieces = copied(span(text, "f(x)\n"), [Edit(span(text, "x"), ("z",))])
    end = Span(PATH, len(text), len(text))
    assert applied(text, Edit(end, (*pieces, span(text, "f(x)\n")))) == "f(x)\nf(z)\nf(x)\n"


def test_edits_of_a_copy_nest_as_those_of_a_patch_do() -> None:
    text = "f(x) + 1\n"
    unwrapped, renamed = Edit(span(text, "f(x)"), (span(text, "x"),)), Edit(span(text, "x"), ("z",))
    pieces = copied(span(text, text), [unwrapped, renamed])
    end = Span(PATH, len(text), len(text))
    assert applied(text, Edit(end, pieces)) == "f(x) + 1\nz + 1\n"


def test_what_a_copy_with_edits_takes_from_the_original_keeps_its_origin() -> None:
    text = "a\nf(x)\n"
    program = Program.of(text)
    pieces = copied(span(text, "f(x)\n"), [Edit(span(text, "x"), ("z",))])
    moved = Patch((Edit(Span(PATH, 0, 0), pieces),)).apply(program)
    assert original_lines(moved, Span(PATH, 0, 4), program) == {(PATH, 2)}
