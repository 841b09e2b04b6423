"""A trace becomes statements: the whole text of each, whatever Python tells of its position."""

from __future__ import annotations

import textwrap

import pytest

from shrinkrepro.diagnosis import Statement, diagnose
from shrinkrepro.runtime.messages import Frame, Mutation, Place, Trace

MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [3]], which is output 0 of Sigmoid, is at version 1; expected version 0 instead."
)
LIBRARY = Frame("/site/torch/optim/sgd.py", 7, "_single_tensor_sgd")


def place(line: int, column: int | None = None, operator: str = "add_", library: Frame | None = None) -> Place:
    return Place(operator, (Frame("train.py", line, "main", None, column, None),), library)


def trace(*mutations: Place, saved: Place | None = None, method: str = "stale", notes: tuple[str, ...] = ()) -> Trace:
    writes = tuple(Mutation(where, n, n + 1) for n, where in enumerate(mutations))
    return Trace(MESSAGE, "SigmoidBackward0", "_saved_result", saved, writes, None, None, method, notes)  # type: ignore[arg-type]


def saved_statement(source: str, line: int, column: int | None = None) -> Statement:
    statement = diagnose(trace(saved=place(line, column)), {"train.py": textwrap.dedent(source)}).saved
    assert statement is not None
    return statement


COMPOUND = '''\
    @decorate(lambda: 0)
    def run(x: int = 1, *,
            y: dict = {1: 2}) -> None:  # a: comment
        """Doc: string."""
        if x > y[1:2][0]: z = 1; w = 2
        elif (x
              < 1):
            pass
        else:
            z = 3
        for i in range(
            3
        ):
            with open(i) as f, \\
                 open(x) as g:
                x += 1
        while True:
            @other
            def inner(): return 1
            break
        try:
            h = (x +
                 1)
        except ValueError as e:
            raise
        finally:
            done()
        match x:
            case {"a": 1} if y:
                q = 1
        async def later(): await x
        class A(B, metaclass=C):
            field: int = 1
'''


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "@decorate(lambda: 0)\ndef run(x: int = 1, *,\n        y: dict = {1: 2}) -> None:"),
        (3, "@decorate(lambda: 0)\ndef run(x: int = 1, *,\n        y: dict = {1: 2}) -> None:"),
        (4, '"""Doc: string."""'),
        (6, "elif (x\n          < 1):"),
        (7, "elif (x\n          < 1):"),
        (10, "z = 3"),
        (12, "for i in range(\n        3\n    ):"),
        (14, "with open(i) as f, \\\n             open(x) as g:"),
        (16, "x += 1"),
        (17, "while True:"),
        (18, "@other\n        def inner():"),
        (22, "h = (x +\n             1)"),
        (23, "h = (x +\n             1)"),
        (24, "except ValueError as e:"),
        (25, "raise"),
        (27, "done()"),
        (28, "match x:"),
        (29, 'case {"a": 1} if y:'),
        (30, "q = 1"),
        (32, "class A(B, metaclass=C):"),
        (33, "field: int = 1"),
    ],
)
def test_a_line_belongs_to_the_smallest_statement_or_header_around_it(line: int, text: str) -> None:
    assert saved_statement(COMPOUND, line).source == text


@pytest.mark.parametrize(("column", "text"), [(7, "if x > y[1:2][0]:"), (22, "z = 1"), (29, "w = 2"), (None, "z = 1")])
def test_statements_that_share_a_line_are_told_apart_by_column(column: int | None, text: str) -> None:
    assert saved_statement(COMPOUND, 5, column).source == text


def test_positions_are_those_of_the_whole_statement() -> None:
    found = saved_statement(COMPOUND, 23)
    assert (found.line, found.column, found.end_line, found.end_column) == (22, 8, 23, 15)


def test_columns_count_characters() -> None:
    found = saved_statement('x = "äöü"; h = 1; y = "é"', 1, 11)
    assert (found.source, found.column, found.end_column) == ("h = 1", 11, 16)


def test_lines_are_counted_as_python_counts_them() -> None:
    assert saved_statement("a = '\x0c'\r\nb = 2\r\nc = 3\r\n", 2).source == "b = 2"


def test_a_line_without_a_statement_is_taken_whole() -> None:
    assert saved_statement("x = 1\n  # nothing here\ny = 2\n", 2).source == "# nothing here"


def test_a_place_outside_the_program_is_no_statement() -> None:
    elsewhere = Place("add_", (), LIBRARY)
    assert diagnose(trace(saved=elsewhere), {"train.py": "x = 1"}).saved is None


def test_the_first_write_is_the_culprit_and_later_ones_follow_in_order() -> None:
    found = diagnose(trace(place(2), place(3), place(1)), {"train.py": "a()\nb()\nc()\n"})
    assert [s.source for s in (found.culprit, *found.other_mutations) if s] == ["b()", "c()", "a()"]


def test_writes_by_one_statement_are_counted() -> None:
    found = diagnose(trace(place(2), place(3), place(2), place(3), place(3)), {"train.py": "a()\nb()\nc()\n"})
    assert found.culprit is not None
    assert (found.culprit.count, [s.count for s in found.other_mutations]) == (2, [3])


def test_operator_function_and_library_frame_are_taken_from_the_trace() -> None:
    found = diagnose(trace(place(1, operator="addcdiv_", library=LIBRARY)), {"train.py": "opt.step()\n"}).culprit
    assert found is not None
    assert (found.operator, found.function, found.library_frame) == ("addcdiv_", "main", LIBRARY)


def test_the_message_is_read() -> None:
    failure = diagnose(trace(), {}).failure
    assert (failure.operator, failure.shape, failure.version) == ("Sigmoid", (3,), 1)


def test_another_error_is_refused() -> None:
    with pytest.raises(ValueError, match="no version mismatch"):
        diagnose(Trace("division by zero", None, None, None, (), None), {})


def test_no_write_means_no_culprit() -> None:
    found = diagnose(trace(notes=("Unseen.",)), {})
    assert (found.culprit, found.notes) == (None, ("Unseen.",))


def test_a_write_below_no_statement_of_the_program_leaves_the_culprit_open_with_a_note() -> None:
    found = diagnose(trace(Place("add_", (), LIBRARY), place(1)), {"train.py": "a()\n"})
    assert (found.culprit, [s.source for s in found.other_mutations], len(found.notes)) == (None, ["a()"], 1)


def test_an_inferred_culprit_is_noted() -> None:
    notes = diagnose(trace(place(1), method="arithmetic"), {"train.py": "a()\n"}).notes
    assert "inferred" in notes[0]
