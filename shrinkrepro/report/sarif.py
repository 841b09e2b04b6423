"""What was found as SARIF 2.1.0, which code hosts and editors read: the culprit is the result."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from shrinkrepro.diagnosis import Statement
from shrinkrepro.program.source import Program, SourceFile
from shrinkrepro.report import wording
from shrinkrepro.report.annotations import path_from
from shrinkrepro.report.wording import Spot
from shrinkrepro.results import Findings

RULE = "saved-tensor-modified-in-place"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_BASE = "%SRCROOT%"

Log = dict[str, Any]


def sarif(found: Findings, folder: Path) -> Log:
    """One run with one result, its files named relative to `folder` where they are below it.

    The culprit is where the result is; what saved and what needed the tensor are related to it. A proven repair is its
    fix. Notes are notifications of the run.
    """
    known = found.explanation
    notes = [{"level": "note", "message": {"text": note}} for note in found.notes]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(known.versions["shrinkrepro"])},
                "columnKind": "unicodeCodePoints",
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
                "results": [_result(found, folder)],
            }
        ],
    }


def _driver(version: str) -> Log:
    said = "A tensor that autograd saved for the backward pass is changed in place before that pass reads it."
    rule = {
        "id": RULE,
        "name": "SavedTensorModifiedInPlace",
        "shortDescription": {"text": "A saved tensor is modified in place"},
        "fullDescription": {"text": said},
        "help": {"text": "Write the result to a new tensor, or copy the tensor before it is changed."},
        "defaultConfiguration": {"level": "error"},
    }
    return {"name": "shrinkrepro", "version": version, "rules": [rule]}


def _result(found: Findings, folder: Path) -> Log:
    program, places = found.explanation.program, list(wording.spots(found.explanation.diagnosis))
    main = next((spot for spot in places if spot.role == "changed"), None)
    related = [spot for spot in places if spot is not main]
    flow = [{"location": _location(program, spot, folder, None)} for spot in places]
    return {
        "ruleId": RULE,
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": f"{wording.explanation(found)} {wording.error(found.explanation.failure)}"},
        "locations": [_location(program, main, folder, None)] if main else [],
        "relatedLocations": [_location(program, spot, folder, number) for number, spot in enumerate(related, 1)],
        **({"codeFlows": [{"threadFlows": [{"locations": flow}]}]} if flow else {}),
        "fixes": list(_fixes(found, folder)),
    }


def _location(program: Program, spot: Spot, folder: Path, number: int | None) -> Log:
    """Where a statement is; of a notebook the cell and the line in it can only be told in words."""
    statement, message = spot.statement, spot.sentence
    where: Log = {"artifactLocation": _artifact(program, statement.file, folder)}
    if statement.cell is None:
        where["region"] = _region(statement)
    else:
        message = f"in cell {statement.cell.number}, line {statement.shown_line}: {message}"
    identity = {} if number is None else {"id": number}
    return {**identity, "physicalLocation": where, "message": {"text": message}}


def _artifact(program: Program, file: str, folder: Path) -> Log:
    return {"uri": quote(path_from(program, file, folder).as_posix()), "uriBaseId": _BASE}


def _region(statement: Statement) -> Log:
    return {
        "startLine": statement.line,
        "startColumn": statement.column + 1,
        "endLine": statement.end_line,
        "endColumn": statement.end_column + 1,
        "snippet": {"text": statement.source},
    }


def _fixes(found: Findings, folder: Path) -> Iterator[Log]:
    """The repair, if it is proven and of files whose lines are those of the user's."""
    chosen = found.mending.chosen if found.mending else None
    program = found.explanation.program
    if chosen is None or not chosen.proof.complete:
        return
    changed = [(file, chosen.program[file.path]) for file in program if chosen.program[file.path].text != file.text]
    if not any(before.cells for before, _ in changed):
        changes = [
            {
                "artifactLocation": _artifact(program, before.path, folder),
                "replacements": list(_replacements(before, after)),
            }
            for before, after in changed
        ]
        yield {"description": {"text": wording.repaired(found)}, "artifactChanges": changes}


def _replacements(before: SourceFile, after: SourceFile) -> Iterator[Log]:
    """Whole lines that go and what comes in their place."""
    was, becomes = list(io.StringIO(before.text)), list(io.StringIO(after.text))  # only \n ends a line here
    for kind, start, stop, first, last in difflib.SequenceMatcher(None, was, becomes, autojunk=False).get_opcodes():
        if kind != "equal":
            yield {
                "deletedRegion": {"startLine": start + 1, "startColumn": 1, "endLine": stop + 1, "endColumn": 1},
                "insertedContent": {"text": "".join(becomes[first:last])},
            }
