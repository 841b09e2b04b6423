"""Statements and spans: which text each syntax node and each statement stands for."""

from __future__ import annotations

import libcst as cst
import pytest
from hypothesis import given
from strategies import dedented, programs

from shrinkrepro.program.edit import Patch, conflicting
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import DEEPEST_NESTING, TooDeep, Tree, parse


def tree(text: str) -> Tree:
    return parse(Program.of(text).entry)


def lines_of(text: str) -> list[str]:
    """The text that `span` covers, for each statement."""
    return [text[s.span.start : s.span.end] for s in tree(text).statements]


def codes_of(text: str) -> list[str]:
    return [text[s.code.start : s.code.end] for s in tree(text).statements]


def without(text: str, code: str) -> str:
    """`text` without the statement `code`."""
    found = tree(text)
    statement = next(s for s in found.statements if text[s.code.start : s.code.end] == code)
    return Patch((statement.delete(),)).apply(Program.of(text)).entry.text


def innermost(text: str, line: int, column: int | None = None) -> str | None:
    statement = tree(text).statement_at(line, column)
    return None if statement is None else text[statement.code.start : statement.code.end]


# ---- statements ------------------------------------------------------------------------------------------------


def test_a_statement_covers_its_whole_lines_with_indentation_comment_and_newline() -> None:
    assert lines_of("if x:\n    a(1,\n      2)  # why\n")[1] == "    a(1,\n      2)  # why\n"


def test_compound_statements_come_before_those_inside_them() -> None:
    assert codes_of("while x:\n    a()\nb()\n") == ["while x:\n    a()", "a()", "b()"]


def test_statements_of_every_clause_are_found() -> None:
    text = dedented("""
        try:
            a()
        except ValueError:
            b()
        except (TypeError, KeyError) as e:
            c()
        else:
            d()
        finally:
            e()
        if x:
            f()
        elif y:
            g()
        else:
            h()
        for i in j:
            k()
        else:
            l()
    """)
    small = [code for code in codes_of(text) if "\n" not in code]
    assert small == ["a()", "b()", "c()", "d()", "e()", "f()", "g()", "h()", "k()", "l()"]


def test_statements_of_match_cases_are_found() -> None:
    text = "match x:\n    case [1, *_]:\n        a()\n    case {'k': v} if v:\n        b()\n"
    assert codes_of(text)[1:] == ["a()", "b()"]


def test_decorators_are_part_of_what_they_decorate() -> None:
    text = "@one\n@two(1)\ndef f():\n    pass\nx = 1\n"
    assert lines_of(text)[0] == "@one\n@two(1)\ndef f():\n    pass\n"
    assert without(text, "@one\n@two(1)\ndef f():\n    pass") == "x = 1\n"


def test_a_decorated_function_that_is_a_blocks_only_statement_leaves_pass() -> None:
    text = "class C:\n    @property\n    def f(self): return 1\n"
    assert without(text, "@property\n    def f(self): return 1") == "class C:\n    pass\n"


def test_a_one_line_suite_has_statements_of_its_own() -> None:
    assert codes_of("if x: a(); b()\n") == ["if x: a(); b()", "a()", "b()"]


@pytest.mark.parametrize(
    ("text", "code", "rest"),
    [
        ("a(); b(); c()\n", "a()", "b(); c()\n"),
        ("a(); b(); c()\n", "b()", "a(); c()\n"),
        ("a(); b(); c()\n", "c()", "a(); b()\n"),
        ("if x: a(); b()\n", "a()", "if x: b()\n"),
        ("if x: a(); b()\n", "b()", "if x: a()\n"),
        ("a();\nb()\n", "a()", "b()\n"),
        ("a()", "a()", ""),
        ("x = '''1\n  2'''; y = 1\n", "y = 1", "x = '''1\n  2'''\n"),
    ],
)
def test_deleting_a_statement_that_shares_its_line_takes_one_semicolon(text: str, code: str, rest: str) -> None:
    assert without(text, code) == rest


def test_each_statement_knows_its_block_and_how_many_members_that_has() -> None:
    text = "def f():\n    a()\n    if x:\n        b()\nc()\n"
    blocks = [statement.block.members if statement.block else None for statement in tree(text).statements]
    assert blocks == [None, 2, 2, 1, None]


def test_the_members_of_a_block_include_those_that_share_a_line() -> None:
    found = tree("def f():\n    a(); b()\n    if x: c()\n")
    function = found.statements[0].node
    assert isinstance(function, cst.FunctionDef)
    members = [found.file.text[s.code.start : s.code.end] for s in found.block_of(function.body)]
    assert members == ["a()", "b()", "if x: c()"]


@given(programs())
def test_statements_with_lines_of_their_own_are_nested_or_apart(text: str) -> None:
    own = [s for s in tree(text).statements if f"\n{text}\n"[s.span.start] == "\n" == (text + "\n")[s.span.end - 1]]
    assert not conflicting(Patch((statement.delete(),)) for statement in own)


@given(programs())
def test_the_code_of_each_statement_compiles_to_one_statement(text: str) -> None:
    for statement in tree(text).statements:
        code = text[statement.code.start : statement.code.end]
        indented = f"if 1:\n{statement.indent}{code}\n" if statement.indent else f"{code}\n"
        body = cst.parse_module(indented).body
        assert len(body) == 1


@given(programs())
def test_the_span_of_each_name_number_and_string_is_its_text(text: str) -> None:
    found = tree(text)
    atoms = [node for kind in (cst.Name, cst.Integer, cst.SimpleString) for node in found.walk(kind)]
    assert [found.text(atom) for atom in atoms] == [atom.value for atom in atoms]


@given(programs())
def test_every_expression_and_statement_lies_in_the_one_around_it(text: str) -> None:
    found = tree(text)
    kinds = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseCompoundStatement)
    for node in (node for kind in kinds for node in found.walk(kind)):
        around = next((outer for outer in found.ancestors(node) if isinstance(outer, kinds)), found.module)
        assert around is found.module or found.span(node) in found.span(around)


# ---- positions -------------------------------------------------------------------------------------------------


def test_spans_count_characters_beyond_ascii_as_one() -> None:
    text = "größe = 'süß 🐈'; x = 1\ny = größe\n"
    assert codes_of(text) == ["größe = 'süß 🐈'", "x = 1", "y = größe"]


@pytest.mark.parametrize("text", ["if x:\n    y = 1", "if x:\n    ä = 1", "ä = 1", "def f():\n    pass\n  # ä"])
def test_a_text_without_a_last_newline_has_spans_inside_it(text: str) -> None:
    assert all(span.end <= len(text) for span in tree(text).spans.values())
    assert lines_of(text)[0].startswith(text.partition("\n")[0])


def test_a_declared_encoding_does_not_shift_spans() -> None:
    assert codes_of("# -*- coding: latin-1 -*-\ns = 'é'\nt = 2\n") == ["s = 'é'", "t = 2"]


def test_the_smallest_statement_on_a_line_is_found() -> None:
    text = "def f():\n    if x:\n        a()\n    b()\n"
    assert [innermost(text, line) for line in (3, 4)] == ["a()", "b()"]
    assert (innermost(text, 2) or "").startswith("if x:")


@pytest.mark.parametrize(("column", "code"), [(0, "a()"), (5, "b()"), (7, "b()")])
def test_a_column_tells_statements_on_one_line_apart(column: int, code: str) -> None:
    assert innermost("a(); b()\n", 1, column) == code


def test_no_statement_is_found_on_an_empty_line() -> None:
    assert innermost("a()\n\nb()\n", 2) is None


def test_a_node_inside_a_statement_leads_to_that_statement() -> None:
    text = "if x:\n    y = f(\n        1)\n"
    found = tree(text)
    number = next(found.walk(cst.Integer))
    code = found.statement_around(number).code
    assert text[code.start : code.end] == "y = f(\n        1)"


@pytest.mark.parametrize(
    ("text", "kind", "header"),
    [
        ("if x: y\n", cst.If, "if x:"),
        ("if x:\n    y\nelse:\n    z\n", cst.If, "if x:"),
        ("@d\ndef f(a,\n      b):\n    y\n", cst.FunctionDef, "@d\ndef f(a,\n      b):"),
        ("for i in (1,\n  2):\n    y\n", cst.For, "for i in (1,\n  2):"),
    ],
)
def test_a_header_is_what_stands_before_the_block(text: str, kind: type[cst.CSTNode], header: str) -> None:
    found = tree(text)
    span = found.header(next(found.walk(kind)))
    assert text[span.start : span.end] == header


# ---- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", ["(", "[", "f(", "{1: "])
def test_brackets_nested_too_deep_are_refused_instead_of_ending_the_process(opening: str) -> None:
    closing = {"(": ")", "[": "]", "f(": ")", "{1: ": "}"}[opening]
    deep = DEEPEST_NESTING + 1
    with pytest.raises(SyntaxError):  # Python itself refuses some nestings first
        tree(f"x = {opening * deep}1{closing * deep}\n")


def test_nesting_that_python_compiles_and_the_parser_would_not_survive_is_too_deep() -> None:
    # brackets in strings count too: an upper bound is enough
    with pytest.raises(TooDeep, match="nested"):
        tree("x = '" + "(" * (DEEPEST_NESTING + 1) + "'\n")


def test_what_python_cannot_compile_is_refused() -> None:
    with pytest.raises(SyntaxError):
        tree("x = = 1\n")
