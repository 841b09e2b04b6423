"""White space as Python's own printer puts it, token for token: nothing else of a program changes."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, SourceFile, Span

# Inside an f-string white space counts; before Python 3.12 it is one token.
_F_STRING = getattr(tokenize, "FSTRING_START", None)
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def laid_out(program: Program) -> Program:
    """The program with the white space between the tokens of a line as `ast.unparse` writes it.

    Lines of which the printer makes other tokens (fewer parentheses, other quotes) stay as they are.
    Raises SyntaxError when a file is not Python.
    """
    return Patch(tuple(edit for file in program for edit in _edits(file))).apply(program)


def _edits(file: SourceFile) -> Iterator[Edit]:
    ours, printed = file.text, ast.unparse(ast.parse(file.text))
    lines, wanted = _logical_lines(ours), _logical_lines(printed)
    if len(lines) != len(wanted):
        return
    for line, like in zip(lines, wanted, strict=True):
        if [token.text for token in line] != [token.text for token in like]:
            continue
        for (left, right), (before, after) in zip(pairwise(line), pairwise(like), strict=True):
            span, space = Span(file.path, left.end, right.start), printed[before.end : after.start]
            if ours[span.start : span.end] != space:
                yield Edit(span, (space,) if space else ())


@dataclass(frozen=True)
class _Token:
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _logical_lines(text: str) -> list[list[_Token]]:
    """The tokens of each statement or header that stands on lines of its own; none where there is an f-string."""
    starts = [0]
    for line in io.StringIO(text):
        starts.append(starts[-1] + len(line))
    lines: list[list[_Token]] = [[]]
    formatted: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            lines.append([])
        elif token.type not in _LAYOUT:
            lines[-1].append(_Token(token.string, starts[token.start[0] - 1] + token.start[1]))
            formatted |= {len(lines) - 1} if token.type == _F_STRING else set()
    return [[] if number in formatted else line for number, line in enumerate(lines[:-1])]
