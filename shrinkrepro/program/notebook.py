"""A notebook as one file of Python: its code cells one after the other, what only IPython understands taken out.

No line moves within its cell, so a line of the file is a line of a cell. The format is JSON; reading it needs no
library.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.check import unbound_names
from shrinkrepro.program.source import Cell, SourceFile

# Cell magics whose cell is Python all the same, and line magics that run the statement after them.
_PYTHON_CELLS = re.compile(r"%%(?:time|timeit|capture|prun|shrinkrepro)\b")
_MEASURED = re.compile(r"(?P<indent>\s*)%(?:time|prun)\s+(?P<statement>[^-\s].*)", re.DOTALL)
_MAGIC = re.compile(r"\s*(?:[%!?]|[A-Za-z_][\w.]*\s*=\s*(?:!|%[A-Za-z]))|\s*[A-Za-z_][\w.]*\?\??\s*$")
_DISPLAY = "display = print\n"


def read_notebook(path: str, data: str, wanted: Collection[int] | None = None) -> tuple[SourceFile, tuple[str, ...]]:
    """The code cells of the notebook `data` as the file `path`, and sentences about what was left out.

    Only the cells numbered (from 1) in `wanted`, if given.
    Raises ShrinkReproError when `data` is no notebook of Python code, or lacks a wanted cell.
    """
    cells = _code_cells(path, data)
    beyond = sorted(number for number in wanted or () if not 1 <= number <= len(cells))
    if beyond:
        raise ShrinkReproError(Exit.EMPTY, f"{path} has no code cell {beyond[0]}; its code cells are 1 to {len(cells)}")
    chosen = [(number, text) for number, text in enumerate(cells, 1) if wanted is None or number in wanted]
    if not any(text.strip() for _, text in chosen):
        raise ShrinkReproError(Exit.EMPTY, f"{path} holds no code cell with a statement in it")
    pieces, starts, skipped, line = [], [], [], 1
    for number, text in chosen:
        python, left_out = plain_python(text)
        starts.append(Cell(number, line))
        skipped += [f"cell {number}:{at} `{magic}`" for at, magic in left_out]
        pieces.append(python)
        line += python.count("\n")
    notes = [f"Skipped what only IPython understands: {_some(skipped)}."] if skipped else []
    text = "".join(pieces)
    if _uses_display(text):
        text = _DISPLAY + text
        starts = [Cell(cell.number, cell.first + 1) for cell in starts]
        notes.append("display() prints here.")
    return replace(SourceFile.original(path, text), cells=tuple(starts)), tuple(notes)


def plain_python(text: str) -> tuple[str, list[tuple[int, str]]]:
    """A cell's text as Python with as many lines, a newline at its end, and what was left out: line (from 1), text.

    Magics, shell lines and questions become `pass`, with the line as a comment; `%time f()` becomes `f()`.
    """
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines[0].lstrip().startswith("%%") and not _PYTHON_CELLS.match(lines[0].lstrip()):
        return "".join(f"# {line}\n" for line in lines), [(1, f"{lines[0].strip()} and its cell")]
    written: list[str] = []
    left_out: list[tuple[int, str]] = []
    for start, logical in _logical_lines(lines):
        measured = _MEASURED.match(logical[0])
        if measured is not None:
            written += [measured["indent"] + measured["statement"], *logical[1:]]
        elif _MAGIC.match(logical[0]):
            indent = logical[0][: len(logical[0]) - len(logical[0].lstrip())]
            written += [f"{indent}pass  # {line.strip()}" for line in logical]
            left_out.append((start, logical[0].strip()))
        else:
            written += logical
    return "".join(f"{line}\n" for line in written), left_out


def _code_cells(path: str, data: str) -> list[str]:
    try:
        content = json.loads(data)
        cells = content["cells"]
        language = content.get("metadata", {}).get("kernelspec", {}).get("language", "python")
        texts = [_joined(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise ShrinkReproError(
            Exit.SYNTAX, f"{path} is not a notebook of format 4; open and save it in Jupyter, or export it as a script"
        ) from problem
    if language.lower() != "python":
        raise ShrinkReproError(Exit.SYNTAX, f"{path} is a notebook for {language}, not for Python")
    if not texts:
        raise ShrinkReproError(Exit.EMPTY, f"{path} holds no code cell; name the notebook that fails")
    return texts


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _logical_lines(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Number (from 1) and lines of each statement; a magic is one with the lines that it is continued on."""
    start, current = 1, []
    for number, line in enumerate(lines, 1):
        current.append(line)
        if _MAGIC.match(current[0]) or _MEASURED.match(current[0]):
            complete = not line.endswith("\\")
        else:
            complete = _complete("".join(f"{part}\n" for part in current))
        if complete or number == len(lines):
            yield start, current
            start, current = number + 1, []


def _complete(text: str) -> bool:
    """Whether brackets, strings and lines that `text` has opened are closed."""
    try:
        list(tokenize.generate_tokens(io.StringIO(text).readline))
    except tokenize.TokenError:
        return False
    except SyntaxError:  # wrong, but not for want of more
        return True
    return True


def _uses_display(text: str) -> bool:
    """Whether the text reads the name `display` that IPython gives to every notebook."""
    try:
        ast.parse(text)
        return "display" in unbound_names(text)
    except (SyntaxError, ValueError, RecursionError):  # whoever parses it next says so
        return False


def _some(items: Sequence[str], most: int = 3) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
