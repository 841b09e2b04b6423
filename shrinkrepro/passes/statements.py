"""Passes over whole statements: layout, annotations, code that never ran, and every statement in turn."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import (
    Clause,
    clause_lines,
    clauses,
    emptying,
    from_the_end,
    key_statements,
    patch,
    removal,
    replaced_by_block,
    whole,
)
from shrinkrepro.program.edit import Edit, Patch, deletion
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_BLANK = re.compile(r"(?:\s|#.*)*")
_STRING = m.SimpleString() | m.ConcatenatedString()
# Python makes no code for these, so a run never shows them.
_SILENT = m.Global() | m.Nonlocal() | m.Pass() | m.AnnAssign(value=None) | m.Expr(value=_STRING | m.Ellipsis())


def strip_layout(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop comments, docstrings, blank lines and trailing commas, and write each statement on one line.

    Before:
        # sizes
        x = torch.ones(
            2,  # rows
            3,
        )

        def f():
            '''Says nothing.'''
    After:
        x = torch.ones(2, 3)
        def f():
            pass
    """
    layout = [edit for tree in facts.trees for edit in _layout(tree)]
    docstrings = [statement.delete() for tree in facts.trees for statement in _docstrings(tree)]
    if layout or docstrings:
        yield patch("drop comments, docstrings and blank lines", *layout, *docstrings)
    if layout and docstrings:
        yield patch("drop comments and blank lines", *layout)


def strip_annotations(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop the type annotations of variables, parameters and results.

    Before:
        def scale(x: Tensor, by: float = 2.0) -> Tensor: return x * by
    After:
        def scale(x, by: float = 2.0) -> Tensor: return x * by
    """
    for tree in facts.trees:
        for node in reversed(list(tree.walk(cst.Annotation))):
            yield patch("drop an annotation", _without_annotation(tree, node))


def split_lines(program: Program, facts: Facts) -> Iterator[Patch]:
    """Give each statement a line of its own, so that other passes see one statement a line.

    Before:
        a = 1; b = 2
    After:
        a = 1
        b = 2

    Before:
        if ready: a = 1
    After:
        if ready:
            a = 1
    """
    for tree in facts.trees:
        for line in reversed(list(tree.walk(cst.SimpleStatementLine))):
            edits = _split(tree, line.body, _indent(tree, line))
            if edits:
                yield patch("split a line", *edits)
        for suite in reversed(list(tree.walk(cst.SimpleStatementSuite))):
            indent = _indent(tree, suite) + "    "
            gap = _gap_before(tree, suite.body[0])
            yield patch("split a line", Edit(gap, (f"\n{indent}",)), *_split(tree, suite.body, indent))


def keep_what_ran(program: Program, facts: Facts) -> Iterator[Patch]:
    """Delete what never ran before the failure, all at once, then piece by piece.

    That includes functions never called, branches never taken, and everything after the line that failed.

    Before:
        def helper():
            return 1
        x = 1
        if x > 3:
            x = 2
        else:
            x = 0
        raise SystemExit
        print(x)
    After:
        x = 1
        if x > 3:
            pass
        else:
            x = 0
        raise SystemExit
    """
    if facts.observation is None:
        return
    executed = facts.observation.executed
    dead = [
        part for tree in reversed(facts.trees) for part in _never_ran(tree, frozenset(executed.get(tree.file.path, ())))
    ]
    used = _names_outside(facts.trees, [part.span for part in dead])
    trees = {tree.file.path: tree for tree in facts.trees}
    pieces = [_without(part, trees, used) for part in dead]
    certain = [piece for part, piece in zip(dead, pieces, strict=True) if part.function is None]
    if pieces:
        yield _all("delete everything that never ran", pieces)
    if 1 < len(certain) < len(pieces):  # what looks uncalled may run in another process
        yield _all("delete everything that never ran, functions aside", certain)
    if len(pieces) > 1:
        yield from pieces


def delete_statements(program: Program, facts: Facts) -> Iterator[Patch]:
    """Delete statements: the largest at the top level first, then each one from the end backwards.

    The statements that save, change and need the tensor come last.

    Before:
        x = f()
        log(x)
    After:
        x = f()
    """
    keys = key_statements(facts)
    found = [(tree, statement) for tree in reversed(facts.trees) for statement in from_the_end(tree)]
    usual = [(tree, statement) for tree, statement in found if not any(key.code in statement.code for key in keys)]
    large = sorted((pair for pair in usual if _large(*pair)), key=lambda pair: pair[1].code.start - pair[1].code.end)
    for tree, statement in dict.fromkeys((*large, *usual, *found)):
        yield patch("delete a statement", removal(tree, statement))


def _layout(tree: Tree) -> Iterator[Edit]:
    """Edits that take out comments and blank lines, and join the lines of one statement."""
    text = tree.file.text
    for node in tree.walk(cst.EmptyLine):
        if not tree.inside(node, cst.ParenthesizedWhitespace) and not tree.span(node).empty:
            yield deletion(tree.span(node))
    for trailing in tree.walk(cst.TrailingWhitespace):
        if not tree.inside(trailing, cst.ParenthesizedWhitespace):
            whole_line = tree.span(trailing)
            end = whole_line.end - 1 if text.endswith("\n", whole_line.start, whole_line.end) else whole_line.end
            if whole_line.start < end:
                yield deletion(Span(whole_line.path, whole_line.start, end))
    commas = [span for comma in tree.walk(cst.Comma) if (span := _trailing_comma(tree, comma)) is not None]
    yield from (deletion(span) for span in commas)
    for space in (*tree.walk(cst.ParenthesizedWhitespace), *tree.walk(cst.SimpleWhitespace)):
        span = tree.span(space)
        in_comma = any(span in comma for comma in commas)
        if "\n" in text[span.start : span.end] and not in_comma and not tree.inside(space, cst.ParenthesizedWhitespace):
            yield Edit(span, _joint(text[: span.start].rstrip()[-1:], text[span.end : span.end + 1]))


def _joint(before: str, after: str) -> tuple[str, ...]:
    """What stands between two tokens that were on two lines."""
    glued = before in _OPENING or after in _CLOSING or (after == "." and not before.isdigit())
    return () if glued else (" ",)


def _trailing_comma(tree: Tree, comma: cst.Comma) -> Span | None:
    """The span of a comma that stands before a closing bracket and means nothing, up to that bracket."""
    element = tree.parents[comma]
    around = tree.parents[element]
    if m.matches(around, m.Tuple(elements=[m.Element()]) | m.Subscript(slice=[m.SubscriptElement()])):
        return None
    text, span = tree.file.text, tree.span(comma)
    blank = _BLANK.match(text, span.end)
    end = blank.end() if blank else span.end
    return Span(span.path, span.start, end) if text.startswith(_CLOSING, end) else None


def _docstrings(tree: Tree) -> Iterator[Statement]:
    """The docstrings of modules, classes and functions; strings that stand alone elsewhere count as well."""
    return (statement for statement in tree.statements if m.matches(statement.node, m.Expr(value=_STRING)))


def _without_annotation(tree: Tree, annotation: cst.Annotation) -> Edit:
    """The edit that takes an annotation out; a declaration without a value goes whole."""
    owner, span = tree.parents[annotation], tree.span(annotation)
    if isinstance(owner, cst.AnnAssign):
        if owner.value is None:
            return removal(tree, tree.statement_around(owner))
        return Edit(Span(span.path, tree.span(owner.target).end, whole(tree, owner.value).start), (" = ",))
    if isinstance(owner, cst.Param):
        return deletion(Span(span.path, tree.span(owner.name).end, span.end))
    assert isinstance(owner, cst.FunctionDef)
    arrow = tree.file.text.rindex("->", 0, span.start)
    return deletion(Span(span.path, len(tree.file.text[:arrow].rstrip()), span.end))


def _split(tree: Tree, body: Sequence[cst.BaseSmallStatement], indent: str) -> list[Edit]:
    """Edits that put a newline in place of each semicolon, and nothing in place of one at the end."""
    spans = [tree.span(node) for node in body]
    edits = [Edit(Span(a.path, a.end, b.start), (f"\n{indent}",)) for a, b in pairwise(spans)]
    if isinstance(body[-1].semicolon, cst.Semicolon):
        edits.append(deletion(Span(spans[-1].path, spans[-1].end, tree.span(body[-1].semicolon).end)))
    return edits


def _gap_before(tree: Tree, node: cst.CSTNode) -> Span:
    """The white space between a colon and the statement behind it."""
    span = tree.span(node)
    return Span(span.path, len(tree.file.text[: span.start].rstrip(" \t")), span.start)


def _indent(tree: Tree, node: cst.CSTNode) -> str:
    """The white space at the start of the line on which `node` starts."""
    start = tree.span(node).start
    line = tree.file.text[tree.file.text.rfind("\n", 0, start) + 1 : start]
    return line[: len(line) - len(line.lstrip())]


def _large(tree: Tree, statement: Statement) -> bool:
    """Whether it is a function, a class or another block at the top level."""
    return statement.compound and isinstance(tree.parents[statement.node], cst.Module)


@dataclass(frozen=True)
class _Dead:
    """A part of the program that never ran, the edits that take it out, and the function that it is, if it is one."""

    span: Span
    edits: tuple[Edit, ...]
    function: cst.FunctionDef | None = None


def _never_ran(tree: Tree, ran: frozenset[int]) -> Iterator[_Dead]:
    """The outermost parts of a file that never ran, last ones first; `ran` are the numbers of the lines that did."""
    covered: list[Span] = []
    for statement in from_the_end(tree):
        if any(statement.code in span for span in covered):
            continue
        for dead in _dead_parts(tree, statement, ran):
            covered.append(dead.span)
            yield dead


def _dead_parts(tree: Tree, statement: Statement, ran: frozenset[int]) -> Iterator[_Dead]:
    """What of a statement never ran: all of it, or some of its clauses."""
    node = statement.node
    if ran.isdisjoint(statement.lines):
        if not m.matches(node, _SILENT):
            yield _Dead(statement.code, (removal(tree, statement),))
        return
    if isinstance(node, cst.FunctionDef):
        if not _entered(tree, node.body, ran):
            yield _Dead(statement.code, (removal(tree, statement),), node)
        return
    if isinstance(node, (cst.Try, cst.TryStar)):
        yield from _dead_handlers(tree, statement, node, ran)
        return
    if isinstance(node, (cst.If, cst.For, cst.While)) and not _entered(tree, node.body, ran):
        yield _Dead(tree.span(node.body), (emptying(tree, node.body),))
    dead = [clause for clause in clauses(node) if not _entered(tree, clause.body, ran)]
    if isinstance(node, cst.Match) and len(dead) == len(node.cases):
        yield _Dead(statement.code, (removal(tree, statement),))
    else:
        yield from (_clause_dead(tree, clause) for clause in dead)


def _dead_handlers(
    tree: Tree, statement: Statement, node: cst.Try | cst.TryStar, ran: frozenset[int]
) -> Iterator[_Dead]:
    """The handlers, `else` and `finally` that never ran; where none of them did, the `try` gives way to its body."""
    parts = clauses(node)
    dead = [clause for clause in parts if not _entered(tree, clause.body, ran)]
    alive = [clause for clause in parts if clause not in dead]
    if not alive:
        edits = replaced_by_block(tree, statement, node.body)
        yield _Dead(Span(statement.code.path, tree.span(node.body).end, statement.code.end), edits)
    elif not all(isinstance(clause, cst.Else) for clause in alive):
        yield from (_clause_dead(tree, clause) for clause in dead)


def _clause_dead(tree: Tree, clause: Clause) -> _Dead:
    span = clause_lines(tree, clause)
    return _Dead(span, (deletion(span),))


def _entered(tree: Tree, suite: cst.BaseSuite, ran: frozenset[int]) -> bool:
    return not ran.isdisjoint(tree.lines(suite))


def _without(dead: _Dead, trees: Mapping[str, Tree], used: Collection[str]) -> Patch:
    """The patch that takes a dead part out; a function whose name is still used keeps its name and loses its body."""
    if dead.function is None or dead.function.name.value not in used:
        return Patch(dead.edits, "delete what never ran")
    return patch("empty a function that never ran", emptying(trees[dead.span.path], dead.function.body))


def _all(label: str, pieces: Iterable[Patch]) -> Patch:
    """The pieces as one patch."""
    return patch(label, *dict.fromkeys(edit for piece in pieces for edit in piece.edits))


def _names_outside(trees: Iterable[Tree], spans: Collection[Span]) -> frozenset[str]:
    """Every name that stands in the text outside `spans`, be it a variable, an attribute or an import."""
    return frozenset(
        name.value
        for tree in trees
        for name in tree.walk(cst.Name)
        if not any(tree.span(name) in span for span in spans)
    )
