"""The three places as lines that machines read: commands for GitHub Actions, `file:line:column` for editors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from shrinkrepro.program.source import Program
from shrinkrepro.report import wording
from shrinkrepro.report.wording import Spot
from shrinkrepro.results import Findings, location

Style = Literal["github", "lines", "none"]


def annotate(found: Findings, style: Style, folder: Path) -> Iterator[str]:
    """A line for each of the three places, the culprit first; its file is named relative to `folder`."""
    if style == "none":
        return
    write = _github if style == "github" else _line
    for spot in sorted(wording.spots(found.explanation.diagnosis), key=lambda spot: spot.role != "changed"):
        yield write(found.explanation.program, spot, folder)


def path_from(program: Program, file: str, folder: Path) -> Path:
    """A file of the program relative to `folder` where it is below it, else as reports name it."""
    place = Path(program.invocation.root, file)
    return place.relative_to(folder) if place.is_relative_to(folder) else Path(file)


def _line(program: Program, spot: Spot, folder: Path) -> str:
    """As compilers report: `train.py:82:9: error: changed here in place …`."""
    statement = spot.statement
    path = os.path.relpath(Path(program.invocation.root, statement.file), folder)
    kind = "error" if spot.role == "changed" else "note"
    where = location(path, statement.shown_line, statement.cell)
    return f"{where}:{statement.column + 1}: {kind}: {spot.sentence}"


def _github(program: Program, spot: Spot, folder: Path) -> str:
    """A workflow command; the lines of a notebook's cell are not those of its file, so they come in the message."""
    statement = spot.statement
    known = {"file": path_from(program, statement.file, folder).as_posix()}
    if statement.cell is None:
        known |= {"line": str(statement.line), "endLine": str(statement.end_line)}
    if statement.cell is None and statement.line == statement.end_line:
        known |= {"col": str(statement.column + 1), "endColumn": str(statement.end_column)}
    known["title"] = "tensor changed in place" if spot.role == "changed" else f"tensor {spot.role} here"
    parts = ",".join(f"{name}={_property(value)}" for name, value in known.items())
    where = f"cell {statement.cell.number}, line {statement.shown_line}: " if statement.cell else ""
    return f"::{'error' if spot.role == 'changed' else 'notice'} {parts}::{_data(where + spot.sentence)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
