from __future__ import annotations

import ast

import libcst as cst
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shrinkrepro.passes.common import clauses, from_the_end, names, removal, whole, within, without
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import Tree, parse


def tree_of(text: str) -> Tree:
    return parse(Program.of(text).entry)


def arguments_left(text: str, *taken: set[int]) -> str:
    """`text`, a call, after the arguments at each set of positions were taken out by a patch of their own."""
    program = Program.of(text)
    tree = parse(program.entry)
    call = next(tree.walk(cst.Call))
    edits = dict.fromkeys(edit for positions in taken for edit in without(tree, call.args, positions))
    return Patch(tuple(edits)).apply(program).entry.text


def test_later_statements_come_first_and_outer_ones_before_inner_ones() -> None:
    tree = tree_of("a\nif b:\n    c\n    d\ne\n")
    assert [tree.file.text[s.code.start] for s in from_the_end(tree)] == ["e", "i", "d", "c", "a"]


@pytest.mark.parametrize(
    ("taken", "left"),
    [({0}, "f(b, *c)"), ({1}, "f(a, *c)"), ({2}, "f(a, b)"), ({1, 2}, "f(a)"), ({0, 1}, "f(*c)"), ({0, 1, 2}, "f()")],
)
def test_elements_go_with_their_commas(taken: set[int], left: str) -> None:
    assert arguments_left("f(a, b, *c)", taken) == left


def test_a_comma_at_the_end_goes_with_the_last_element_left() -> None:
    assert arguments_left("f(a, b,)", {1}) == "f(a,)"
    assert arguments_left("f(a,)", {0}) == "f()"


@given(st.integers(2, 6).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_elements_taken_out_by_patches_of_their_own_leave_a_valid_list(case: tuple[int, set[int]]) -> None:
    count, taken = case
    left = arguments_left(f"f({', '.join(f'a{i}' for i in range(count))})", *({i} for i in taken))
    call = ast.parse(left, mode="eval").body
    assert isinstance(call, ast.Call)
    assert [ast.unparse(arg) for arg in call.args] == [f"a{i}" for i in range(count) if i not in taken]


def test_a_node_is_whole_with_its_parentheses() -> None:
    tree = tree_of("f((a + b))\n")
    assert tree.file.text[slice(*span_of(tree, cst.BinaryOperation))] == "(a + b)"


def test_a_parameter_is_whole_with_annotation_and_default() -> None:
    tree = tree_of("def f(a: int = (1), b=2): pass\n")
    assert tree.file.text[slice(*span_of(tree, cst.Param))] == "a: int = (1)"


def span_of(tree: Tree, kind: type[cst.CSTNode]) -> tuple[int, int]:
    span = whole(tree, next(tree.walk(kind)))
    return span.start, span.end


def test_every_elif_is_a_clause_of_its_own() -> None:
    node = next(tree_of("if a: b\nelif c: d\nelif e: f\nelse: g\n").walk(cst.If))
    assert [type(clause) for clause in clauses(node)] == [cst.If, cst.If, cst.Else]


def test_the_only_statement_behind_a_colon_leaves_pass() -> None:
    program = Program.of("if a: b\n")
    tree = parse(program.entry)
    assert Patch((removal(tree, tree.statements[-1]),)).apply(program).entry.text == "if a: pass\n"


@pytest.mark.parametrize(
    ("text", "read", "bound"),
    [
        ("a = b\n", {"b"}, {"a"}),
        ("a += b\n", {"b"}, {"a"}),
        ("a.b = c.d\n", {"a", "c"}, set()),
        ("a[b] = c\n", {"a", "b", "c"}, set()),
        ("f(a=b)\n", {"f", "b"}, set()),
        ("import a.b as c\nfrom d import e\n", set(), set()),
        ("def f(a, b=c, *d): return a\n", {"a", "c"}, {"f", "a", "b", "d"}),
        ("class A(B): pass\n", {"B"}, {"A"}),
        ("for a, (b, *c) in d: pass\n", {"d"}, {"a", "b", "c"}),
        ("with a as b: del c\n", {"a"}, {"b", "c"}),
        ("def f():\n    global a\n", set(), {"f", "a"}),
        ("try: pass\nexcept A as b: pass\n", {"A"}, {"b"}),
    ],
)
def test_names_are_read_or_bound(text: str, read: set[str], bound: set[str]) -> None:
    found = names(tree_of(text))
    assert (set(found.read), set(found.bound)) == (read, bound)


def test_names_within_a_node() -> None:
    tree = tree_of("a\ndef f(): return a\n")
    function = next(tree.walk(cst.FunctionDef))
    assert [tree.span(name).start for name in within(tree, names(tree).read["a"], function)] == [18]
