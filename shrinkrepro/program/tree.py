"""A program's syntax, parsed once per text: libcst nodes with the spans of the text that they stand for.

Passes read this and propose edits of spans; nobody changes a tree or generates code from one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from shrinkrepro.program.edit import Block, Edit
from shrinkrepro.program.source import SourceFile, Span

Node = TypeVar("Node", bound=cst.CSTNode)

# libcst's parser recurses once per bracket; past about 1,500 levels the process dies without an exception.
DEEPEST_NESTING = 200


class TooDeep(SyntaxError):
    """Brackets are nested deeper than the parser can follow safely."""


@dataclass(frozen=True, eq=False)
class Statement:
    """One statement of a block.

    `span` covers whole lines, the newline included, where the statement has its lines to itself. For one of several
    statements on a line it covers the statement and the semicolon after it. `code` is the statement alone, without
    indentation and newline. `block` is the block that it is a member of, None at the top level of a file.
    """

    node: cst.BaseStatement | cst.BaseSmallStatement
    span: Span
    code: Span
    block: Block | None
    indent: str
    lines: range

    @property
    def compound(self) -> bool:
        """Whether it has a block of its own."""
        return isinstance(self.node, cst.BaseCompoundStatement)

    def delete(self) -> Edit:
        """The edit that takes it out and leaves `pass` where its block would be empty."""
        return Edit(self.span, (), self.block)


@dataclass(frozen=True, eq=False)
class Tree:
    """The syntax of one file. `spans` and `parents` know every node that stands for text of its own."""

    file: SourceFile
    module: cst.Module
    spans: Mapping[cst.CSTNode, Span]
    parents: Mapping[cst.CSTNode, cst.CSTNode]

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands, without the white space around it."""
        return self.spans[node]

    def text(self, node: cst.CSTNode) -> str:
        """The source text of `node`."""
        span = self.spans[node]
        return self.file.text[span.start : span.end]

    def walk(self, kind: type[Node]) -> Iterator[Node]:
        """Every node of `kind`, in the order of the text, outer nodes before the nodes inside them."""
        found = self._by_kind.get(kind)
        if found is None:
            found = tuple(node for node in self.spans if isinstance(node, kind))
            self._by_kind[kind] = found
        return iter(found)  # type: ignore[arg-type]

    @property
    def expressions(self) -> Iterator[cst.BaseExpression]:
        """Every expression, names of attributes and of arguments included, in the order of `walk`."""
        return self.walk(cst.BaseExpression)  # type: ignore[type-abstract]

    @cached_property
    def _by_kind(self) -> dict[type[cst.CSTNode], tuple[cst.CSTNode, ...]]:
        return {}

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around `node`, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def inside(self, node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> bool:
        """Whether a node of one of `kinds` is around `node`."""
        return any(isinstance(around, kinds) for around in self.ancestors(node))

    def lines(self, node: cst.CSTNode) -> range:
        """The numbers, from 1, of the lines that `node` touches."""
        span = self.spans[node]
        return range(self.file.line_at(span.start), self.file.line_at(max(span.start, span.end - 1)) + 1)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """Every statement in the order of the text, compound statements before those in their blocks."""
        return tuple(self._statements_of(self.module.body, None))

    @cached_property
    def statement_of(self) -> Mapping[cst.CSTNode, Statement]:
        """The statement for each statement node."""
        return {statement.node: statement for statement in self.statements}

    def statement_around(self, node: cst.CSTNode) -> Statement:
        """The smallest statement that `node` is part of (itself, when it is one)."""
        for candidate in (node, *self.ancestors(node)):
            if candidate in self.statement_of:
                return self.statement_of[candidate]
        raise LookupError(f"{type(node).__name__} is not part of a statement")

    def statement_at(self, line: int, column: int | None = None) -> Statement | None:
        """The smallest statement on `line` (from 1), at `column` (characters, from 0) when several share the line."""
        offset = None if column is None else self.file.offset_of(line, column)
        found = None
        for statement in self.statements:
            if line in statement.lines and (
                offset is None or statement.code.start <= offset < max(statement.code.end, statement.code.start + 1)
            ):
                found = statement
        return found

    def block_of(self, suite: cst.BaseSuite) -> tuple[Statement, ...]:
        """The statements that are members of `suite`."""
        return tuple(statement for statement in self.statements if self._suite_of(statement.node) is suite)

    def _suite_of(self, node: cst.CSTNode) -> cst.CSTNode:
        parent = self.parents[node]
        return self.parents[parent] if isinstance(parent, cst.SimpleStatementLine) else parent

    def header(self, node: cst.CSTNode) -> Span:
        """The part of a compound statement before its block; the whole span of any other statement."""
        span, body = self.spans[node], getattr(node, "body", None)
        if isinstance(body, cst.BaseSuite) and body.body:
            first = body.body[0]
            start = self.spans[first.body[0] if isinstance(first, cst.SimpleStatementLine) else first].start
            text = self.file.text[span.start : start].rstrip()
            return Span(span.path, span.start, span.start + len(text))
        return span

    def _statements_of(
        self, body: Sequence[cst.BaseStatement | cst.BaseSmallStatement], block: Block | None
    ) -> Iterator[Statement]:
        for position, node in enumerate(body):
            if isinstance(node, cst.SimpleStatementLine):
                if len(node.body) == 1:
                    yield self._on_own_lines(node.body[0], block)
                else:
                    yield from self._sharing_a_line(node.body, block)
            elif isinstance(node, cst.BaseSmallStatement):  # the body of `if x: a; b`
                yield self._sharing(node, body[position + 1 : position + 2], body[:position][-1:], block)
            else:
                yield self._on_own_lines(node, block)
                for suite in _suites(node):
                    yield from self._statements_of(suite.body, self._block(suite))

    def _sharing_a_line(self, body: Sequence[cst.BaseSmallStatement], block: Block | None) -> Iterator[Statement]:
        for position, node in enumerate(body):
            yield self._sharing(node, body[position + 1 : position + 2], body[:position][-1:], block)

    def _on_own_lines(self, node: cst.BaseStatement | cst.BaseSmallStatement, block: Block | None) -> Statement:
        text, code = self.file.text, self.spans[node]
        start = text.rfind("\n", 0, code.start) + 1
        newline = text.find("\n", max(code.start, code.end - 1))
        end = len(text) if newline < 0 else newline + 1
        return Statement(node, Span(code.path, start, end), code, block, text[start : code.start], self.lines(node))

    def _sharing(
        self,
        node: cst.BaseSmallStatement,
        following: Sequence[cst.CSTNode],
        preceding: Sequence[cst.CSTNode],
        block: Block | None,
    ) -> Statement:
        code = self.spans[node]
        start, end = code.start, code.end
        if following:
            end = self.spans[following[0]].start
        elif preceding:
            start = self.spans[preceding[0]].end
        text = self.file.text
        line = text.rfind("\n", 0, code.start) + 1
        indent = text[line : code.start][: len(text[line : code.start]) - len(text[line : code.start].lstrip())]
        filling = block and replace(block, filler="pass")
        return Statement(node, Span(code.path, start, end), code, filling, indent, self.lines(node))

    def _block(self, suite: cst.BaseSuite) -> Block:
        span = self.spans[suite]
        if isinstance(suite, cst.SimpleStatementSuite):
            return Block(span, len(suite.body), "pass")
        first = suite.body[0]
        code = self.spans[first.body[0] if isinstance(first, cst.SimpleStatementLine) else first]
        indent = self.file.text[self.file.text.rfind("\n", 0, code.start) + 1 : code.start]
        members = sum(len(s.body) if isinstance(s, cst.SimpleStatementLine) else 1 for s in suite.body)
        return Block(span, members, f"{indent}pass\n")


def _suites(node: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """The blocks of a compound statement: its own, then those of its `elif`, `else`, `except`, `finally`, `case`."""
    for child in node.children:
        if isinstance(child, cst.BaseSuite):
            yield child
        elif isinstance(
            child, (cst.If, cst.Else, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.MatchCase)
        ):
            yield from _suites(child)


@lru_cache(maxsize=64)
def parse(file: SourceFile) -> Tree:
    """The syntax of `file`, kept for the last few texts.

    Raises SyntaxError when Python cannot compile the text, TooDeep when brackets nest deeper than 200 levels.
    """
    ast.parse(file.text)
    if _bracket_depth(file.text) > DEEPEST_NESTING:
        raise TooDeep(f"{file.path}: brackets are nested more than {DEEPEST_NESTING} levels deep")
    wrapper = MetadataWrapper(cst.parse_module(file.text), unsafe_skip_copy=True)
    positions = wrapper.resolve(ByteSpanPositionProvider)
    offsets = _character_offsets(file.text)
    spans: dict[cst.CSTNode, Span] = {}
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    stack: list[cst.CSTNode] = [wrapper.module]
    while stack:
        node = stack.pop()
        position = positions.get(node)
        if position is not None:
            end = position.start + position.length
            spans[node] = Span(file.path, _character(position.start, offsets, file), _character(end, offsets, file))
        for child in reversed(node.children):
            parents[child] = node
            stack.append(child)
    for node, span in list(spans.items()):
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:  # libcst leaves them out
            start, block = spans[node.decorators[0]].start, parents[node]
            spans[node] = Span(file.path, start, span.end)
            if isinstance(block, cst.IndentedBlock) and block.body[0] is node:
                spans[block] = Span(file.path, start, spans[block].end)
    return Tree(file, wrapper.module, spans, parents)


def _character_offsets(text: str) -> dict[int, int] | None:
    """Byte offset to character offset, or None where they are the same."""
    if text.isascii():
        return None
    offsets, position = {}, 0
    for index, character in enumerate(text):
        offsets[position] = index
        position += len(character.encode())
    offsets[position] = len(text)
    return offsets


def _character(byte: int, offsets: Mapping[int, int] | None, file: SourceFile) -> int:
    """The character at a byte offset; libcst counts a newline at the end of a text that has none."""
    return min(byte, len(file.text)) if offsets is None else offsets.get(byte, len(file.text))


def _bracket_depth(text: str) -> int:
    """An upper bound of how deep brackets nest: brackets in strings and comments count too."""
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth = max(0, depth - 1)
    return deepest
