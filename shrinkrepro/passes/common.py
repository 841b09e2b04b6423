"""What several passes need: statements from the end, blocks moved out of their statement, elements taken out, names.

Blocks are moved by deleting the surplus indentation at the start of each line. No text is copied, so patches that
change something inside the block still combine with the one that moves it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m
from libcst.metadata import ExpressionContext, ExpressionContextProvider, MetadataWrapper

from shrinkrepro.facts import Facts
from shrinkrepro.program.edit import Edit, Patch, Piece, deletion
from shrinkrepro.program.source import Span
from shrinkrepro.program.tree import Node, Statement, Tree

Clause = cst.If | cst.Else | cst.ExceptHandler | cst.ExceptStarHandler | cst.Finally | cst.MatchCase


def from_the_end(tree: Tree) -> list[Statement]:
    """Every statement: later ones first, so uses before definitions; compound ones before those inside them."""
    return sorted(tree.statements, key=lambda statement: (-statement.code.end, statement.code.start))


def key_statements(facts: Facts) -> tuple[Statement, ...]:
    """The statements that the failure consists of, as far as they are known: saving, culprit, needing."""
    return tuple(place for place in (facts.saving, facts.culprit, facts.needing) if place is not None)


def removal(tree: Tree, statement: Statement) -> Edit:
    """The edit that takes a statement out; `pass` stays where it was all that the line of a colon had (`if x: y`)."""
    suite = tree.parents[statement.node]
    if isinstance(suite, cst.SimpleStatementSuite) and len(suite.body) == 1:
        return Edit(statement.code, ("pass",))
    return statement.delete()


def emptying(tree: Tree, suite: cst.BaseSuite) -> Edit:
    """The edit that leaves `pass` of a block. It follows its line when the block is moved, unlike a filler."""
    first, span = tree.span(suite.body[0]), tree.span(suite)
    return Edit(Span(span.path, first.start, span.end), ("pass",))


def whole(tree: Tree, node: cst.CSTNode) -> Span:
    """The span of a node with the parentheses around it; with annotation and default, without comma for a parameter."""
    span = tree.span(node)
    if isinstance(node, (cst.ParamStar, cst.ParamSlash)):
        return Span(span.path, span.start, span.start + 1)
    if isinstance(node, cst.Param):
        parts = [part for part in (node.annotation, node.default) if part is not None]
        return Span(span.path, span.start, whole(tree, parts[-1]).end if parts else span.end)
    if isinstance(node, cst.BaseExpression) and node.lpar and node.rpar:
        return Span(span.path, tree.span(node.lpar[0]).start, tree.span(node.rpar[-1]).end)
    return span


def without(tree: Tree, siblings: Sequence[cst.CSTNode], positions: Collection[int]) -> tuple[Edit, ...]:
    """The edits that take the elements at `positions` out of a list separated by commas, each with one comma.

    The edits of two calls agree with each other, so elements can be taken out by independent patches. Taking out
    a tail that way leaves one comma at the end of what stays.
    """
    spans = [whole(tree, node) for node in siblings]
    last_kept = max(set(range(len(spans))).difference(positions), default=-1)
    edits: list[Edit] = []
    for position in sorted(positions):
        edits.append(deletion(spans[position]))
        left = position if position < last_kept else position - 1
        if left >= 0:
            edits.append(deletion(Span(spans[left].path, spans[left].end, spans[left + 1].start)))
    comma = getattr(siblings[-1], "comma", None)
    if last_kept < 0 and isinstance(comma, cst.Comma):
        edits.append(deletion(Span(spans[-1].path, spans[-1].end, tree.span(comma).end)))
    return tuple(dict.fromkeys(edits))


def replaced_by_block(
    tree: Tree, statement: Statement, suite: cst.BaseSuite, heading: tuple[Piece, ...] = ()
) -> tuple[Edit, ...]:
    """The edits that put the statements of `suite`, one of the blocks of `statement`, in the statement's own place.

    `heading`, when given, becomes a statement before them. Everything else of `statement` goes.
    """
    path, text = tree.file.path, tree.file.text
    lines = block_lines(tree, suite)
    first = tree.span(suite.body[0]).start
    newline = (statement.indent, *heading, "\n") if heading else ()
    if isinstance(suite, cst.SimpleStatementSuite):
        opening = Edit(Span(path, statement.span.start, first), (*newline, statement.indent))
        moved: tuple[Edit, ...] = ()
    else:
        opening = Edit(Span(path, statement.span.start, lines.start), newline)
        moved = tuple(reindented(tree, lines, text[lines.start : first], statement.indent))
    closing = deletion(Span(path, lines.end, statement.span.end))
    return (opening, *moved, *([] if closing.span.empty else [closing]))


def block_lines(tree: Tree, suite: cst.BaseSuite) -> Span:
    """The lines of a block's statements, newline included; for `if x: y` the line of the colon."""
    text, span = tree.file.text, tree.span(suite)
    start = text.rfind("\n", 0, tree.span(suite.body[0]).start) + 1
    newline = text.find("\n", span.end)
    return Span(span.path, start, len(text) if newline < 0 else newline + 1)


def clauses(node: cst.CSTNode) -> list[Clause]:
    """The clauses of a compound statement after its first block, in their order, every `elif` one of its own."""
    match node:
        case cst.If() | cst.For() | cst.While():
            parts: list[Clause | None] = [node.orelse]
        case cst.Try() | cst.TryStar():
            parts = [*node.handlers, node.orelse, node.finalbody]
        case cst.Match():
            parts = [*node.cases]
        case _:
            parts = []
    present = [part for part in parts if part is not None]
    return [clause for part in present for clause in (part, *(clauses(part) if isinstance(part, cst.If) else ()))]


def clause_lines(tree: Tree, clause: Clause) -> Span:
    """The lines of a clause and its block, without the clauses that follow."""
    start = tree.span(clause).start
    block = block_lines(tree, clause.body)
    return Span(block.path, tree.file.text.rfind("\n", 0, start) + 1, block.end)


def reindented(tree: Tree, lines: Span, indent: str, wanted: str) -> Iterator[Edit]:
    """Edits that bring lines indented by `indent` to `wanted`; lines that are part of a string stay as they are.

    Where lines move left, only the surplus is deleted: an edit that moves them further combines with it.
    """
    kept = len(wanted) if indent.startswith(wanted) else 0
    new = () if kept == len(wanted) else (wanted,)
    text, inside_strings = tree.file.text, _line_starts_in_strings(tree)
    start = lines.start
    while start < lines.end:
        if text.startswith(indent, start) and start not in inside_strings:
            yield Edit(Span(lines.path, start + kept, start + len(indent)), new)
        newline = text.find("\n", start)
        start = lines.end if newline < 0 else newline + 1


@lru_cache(maxsize=16)
def _line_starts_in_strings(tree: Tree) -> frozenset[int]:
    """The offsets of those lines that begin within a string literal."""
    literals = (node for node in tree.spans if isinstance(node, cst.BaseString))
    parts = (tree.span(node) for node in literals if not isinstance(node, cst.ConcatenatedString))
    spans = [span for span in parts if "\n" in tree.file.text[span.start : span.end]]
    return frozenset(start for start in tree.file.line_starts for span in spans if span.start < start < span.end)


@dataclass(frozen=True)
class Names:
    """Where a file reads names and where it binds them, by name; imports, attributes and keywords are neither."""

    read: Mapping[str, tuple[cst.Name, ...]]
    bound: Mapping[str, tuple[cst.Name, ...]]


@lru_cache(maxsize=16)
def names(tree: Tree) -> Names:
    """The names of a file, blind to scopes: a parameter, a global and a loop variable `x` are all `x`."""
    wrapper = MetadataWrapper(tree.module, unsafe_skip_copy=True)
    read: dict[str, list[cst.Name]] = {}
    bound: dict[str, list[cst.Name]] = {}
    for node, context in wrapper.resolve(ExpressionContextProvider).items():
        if not isinstance(node, cst.Name) or tree.inside(node, cst.Import, cst.ImportFrom):
            continue
        parent = tree.parents[node]
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        reads = context is ExpressionContext.LOAD and not isinstance(parent, cst.NameItem)
        (read if reads else bound).setdefault(node.value, []).append(node)
    return Names(_frozen(read), _frozen(bound))


def _frozen(uses: Mapping[str, Sequence[cst.Name]]) -> Mapping[str, tuple[cst.Name, ...]]:
    return {name: tuple(nodes) for name, nodes in uses.items()}


def within(tree: Tree, nodes: Iterable[Node], *scopes: cst.CSTNode) -> tuple[Node, ...]:
    """Those of `nodes` that are part of one of `scopes`."""
    spans = [tree.span(scope) for scope in scopes]
    return tuple(node for node in nodes if any(tree.span(node) in span for span in spans))


def simple(node: cst.CSTNode) -> bool:
    """Whether an expression means the same wherever it stands and binds tighter than any operator around it."""
    return m.matches(
        node,
        m.Integer()
        | m.Float()
        | m.SimpleString()
        | m.Name("True")
        | m.Name("False")
        | m.Name("None")
        | m.Tuple(elements=[], lpar=[m.LeftParen()]),
    )


def descendants(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Every node inside `node`."""
    for child in node.children:
        yield child
        yield from descendants(child)


def patch(label: str, *edits: Edit) -> Patch:
    """A patch from its edits."""
    return Patch(edits, label)


def joined(parts: Sequence[tuple[Piece, ...]], separator: str) -> tuple[Piece, ...]:
    """The parts one after the other, with `separator` between them."""
    return tuple(piece for index, part in enumerate(parts) for piece in ((separator,) if index else ()) + part)
