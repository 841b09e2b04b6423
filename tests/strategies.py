"""Programs and patches drawn at random, for property tests."""

from __future__ import annotations

import textwrap

from hypothesis import strategies as st

from shrinkrepro.program.edit import Edit, Piece
from shrinkrepro.program.source import Span

# In no program that is drawn here, so it shows where literal text went.
MARK = "§"

_SIMPLE = st.sampled_from(
    [
        "x = 1",
        "y = x + 2  # more",
        "print(x, (x,\n       2))",
        "pass",
        "text = '''one\n  two'''",
        "größe = 'süß 🐈'",
        "import os",
        "a = 1; b = 2",
        "del x; pass; x = {1: [2]}",
        "assert x \\\n    , 'why'",
    ]
)
_ONE_LINERS = st.sampled_from(["if x: y = 1", "while x: x = 0; y = 1", "class Empty: pass", "for i in y: print(i)"])
_HEADERS = st.sampled_from(
    [
        ("if x:",),
        ("if x:  # why", "elif y:", "else:"),
        ("for i in range(2):", "else:"),
        ("while x:",),
        ("with x as y, y:",),
        ("def f(a, *, b=1):",),
        ("@x\n@y(1)\ndef g():",),
        ("@x\nclass C(object):",),
        ("async def h():",),
        ("try:", "except ValueError as e:", "except Exception:", "else:", "finally:"),
        ("try:", "finally:"),
    ]
)


def _block(statements: list[str]) -> str:
    return "\n".join(statements)


def _indented(block: str) -> str:
    """The block four columns further right, strings that span lines left as they are."""
    lines = block.split("\n")
    inside = False
    moved = []
    for line in lines:
        moved.append(line if inside or not line else f"    {line}")
        inside ^= line.count("'''") % 2 == 1
    return "\n".join(moved)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    blocks = st.lists(inner, min_size=1, max_size=3).map(_block)
    plain = _HEADERS.flatmap(
        lambda headers: st.tuples(*[blocks] * len(headers)).map(
            lambda bodies: "\n".join(
                f"{header}\n{_indented(body)}" for header, body in zip(headers, bodies, strict=True)
            )
        )
    )
    match = st.lists(blocks, min_size=1, max_size=2).map(
        lambda bodies: (
            "match x:\n" + "\n".join(f"    case {n}:\n{_indented(_indented(b))}" for n, b in enumerate(bodies))
        )
    )
    return plain | match


def programs() -> st.SearchStrategy[str]:
    """Source text with nested blocks of most kinds, decorators, shared lines, long strings, characters beyond ASCII."""
    statement = st.recursive(_SIMPLE | _ONE_LINERS, _compound, max_leaves=8)
    ending = st.sampled_from(["\n", "", "\n\n", "\n# the end\n", "  # the end"])
    return st.tuples(st.lists(statement, min_size=1, max_size=5).map(_block), ending).map("".join)


def spans(path: str, text: str) -> st.SearchStrategy[Span]:
    """Any part of a text, the empty ones included."""
    offset = st.integers(0, len(text))
    return st.tuples(offset, offset).map(lambda ends: Span(path, min(ends), max(ends)))


def edits(path: str, text: str) -> st.SearchStrategy[Edit]:
    """Any replacement of any part of a text by literals, written with MARK alone, and copies."""
    piece: st.SearchStrategy[Piece] = st.text(alphabet=[MARK, "\n"], max_size=3) | spans(path, text)
    return st.builds(Edit, spans(path, text), st.lists(piece, max_size=3).map(tuple))


def dedented(text: str) -> str:
    """A program written indented in a test, without that indentation and the first newline."""
    return textwrap.dedent(text).removeprefix("\n")
