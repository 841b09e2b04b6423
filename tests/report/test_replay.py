from __future__ import annotations

from shrinkrepro.diagnosis import Statement
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span
from shrinkrepro.report.replay import highlighted, lines
from shrinkrepro.report.wording import Spot

SOURCE = "import os\nx = f(1, 2)\n\nlog(x)\n"
PROGRAM = Program.of(SOURCE, "train.py")


def without(program: Program, text: str) -> Program:
    """The program with `text` taken out."""
    start = program.entry.text.index(text)
    return Patch((Edit(Span("train.py", start, start + len(text))),)).apply(program)


def kept(*steps: Program) -> list[list[tuple[str, str | None]]]:
    return [[(piece.text, piece.kept) for piece in line.pieces] for line in lines(PROGRAM.entry, steps)]


def text_of(step: int, *steps: Program) -> str:
    """The text that is said to be left after a step, white space aside."""
    found = (piece for line in lines(PROGRAM.entry, steps) for piece in line.pieces if piece.kept is not None)
    return "".join(piece.text for piece in found if step in numbers(piece.kept or ""))


def numbers(ranges: str) -> set[int]:
    ends = [[int(end) for end in part.split("-")] for part in ranges.split(",") if part]
    return {number for end in ends for number in range(end[0], end[-1] + 1)}


def test_the_lines_together_are_the_script() -> None:
    shown = ["".join(piece.text for piece in line.pieces) for line in lines(PROGRAM.entry, [PROGRAM])]
    assert "\n".join(shown) + "\n" == SOURCE


def test_lines_are_numbered_from_one() -> None:
    assert [line.number for line in lines(PROGRAM.entry, [PROGRAM])] == [1, 2, 3, 4]


def test_each_piece_knows_the_steps_that_have_it() -> None:
    first = without(PROGRAM, "log(x)\n")
    second = without(first, ", 2")
    assert text_of(0, PROGRAM, first, second) == "importosx=f(1,2)log(x)"
    assert text_of(1, PROGRAM, first, second) == "importosx=f(1,2)"
    assert text_of(2, PROGRAM, first, second) == "importosx=f(1)"


def test_white_space_is_neither_kept_nor_lost() -> None:
    assert (" ", None) in kept(PROGRAM)[0]


def test_a_line_is_kept_as_long_as_anything_on_it_is() -> None:
    steps = [PROGRAM, without(PROGRAM, ", 2"), without(without(PROGRAM, ", 2"), "x = f(1)\n")]
    assert [line.kept for line in lines(PROGRAM.entry, steps)] == ["0-2", "0-1", "", "0-2"]


def test_what_is_lost_and_comes_back_has_two_ranges() -> None:
    steps = [PROGRAM, without(PROGRAM, "log(x)\n"), PROGRAM]
    assert [line.kept for line in lines(PROGRAM.entry, steps)][3] == "0,2"


def test_text_that_a_rewrite_brought_in_does_not_count_as_kept() -> None:
    start = SOURCE.index("f(1, 2)")
    rewritten = Patch((Edit(Span("train.py", start, start + 7), ("f(1, 2)",)),)).apply(PROGRAM)
    assert text_of(1, PROGRAM, rewritten) == "importosx=log(x)"


def test_a_statement_is_marked_with_its_part_on_the_line_and_on_its_text() -> None:
    statement = Statement("train.py", 2, 2, 0, 11, "x = f(1, 2)", "<module>", "f")
    marked = list(lines(PROGRAM.entry, [PROGRAM], [Spot("changed", statement, "changed here")]))
    assert [line.roles for line in marked] == [(), ("changed",), (), ()]
    assert "".join(piece.text for piece in marked[1].pieces if piece.role == "changed") == "x = f(1, 2)"


def test_the_kinds_of_words_are_told_for_highlighting() -> None:
    first = next(lines(PROGRAM.entry, [PROGRAM])).pieces
    assert (first[0].text, first[0].kind) == ("import", "kn")


def test_a_program_is_highlighted_line_by_line_even_inside_a_string() -> None:
    source = 'x = """a\nb"""\n'
    assert ["".join(text for text, _ in line) for line in highlighted(source)] == ['x = """a', 'b"""']


def test_a_form_feed_ends_no_line() -> None:
    assert len(list(highlighted("x = '\x0c'\ny = 1\n"))) == 2
