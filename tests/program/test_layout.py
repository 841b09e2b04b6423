from __future__ import annotations

import ast

import pytest
from hypothesis import given

from shrinkrepro.program.layout import laid_out
from shrinkrepro.program.source import Program
from tests.strategies import programs


def layout(text: str) -> str:
    return laid_out(Program.of(text)).entry.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x[1 :] = 0\n", "x[1:] = 0\n"),
        ("x=f( 1,2 )\n", "x = f(1, 2)\n"),
        ("f(a = 1)\n", "f(a=1)\n"),
        ("x = (a\n     + b)\nf( x )\n", "x = (a\n     + b)\nf(x)\n"),
        ("if  x :\n  f( x )\n", "if x:\n  f(x)\n"),
        ("def f( a, b = 1 ):\n    return  a\n", "def f(a, b=1):\n    return a\n"),
        ("größe  =  'süß  🐈'\n", "größe = 'süß  🐈'\n"),
    ],
)
def test_white_space_is_what_pythons_printer_writes(before: str, after: str) -> None:
    assert layout(before) == after


@pytest.mark.parametrize("text", ["x = (1)\n", 'x = "a"\n', "x = 0x10\n", "a( 1 ); b( 2 )\n", "x = 1  # one\n"])
def test_what_the_printer_would_write_in_other_tokens_or_lines_stays(text: str) -> None:
    assert layout(text) == text


@given(programs())
def test_the_meaning_stays_and_a_second_time_changes_nothing(text: str) -> None:
    once = layout(text)
    assert ast.dump(ast.parse(once)) == ast.dump(ast.parse(text))
    assert layout(once) == once


def test_what_stays_knows_where_it_came_from() -> None:
    file = laid_out(Program.of("x[1 :] = 0\n")).entry
    assert [file.text[run.start : run.start + run.length] for run in file.runs] == ["x[1", ":] = 0\n"]
