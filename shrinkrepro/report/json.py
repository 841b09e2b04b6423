"""The results as one JSON document. docs/json.md says what each field means."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from shrinkrepro.diagnosis import Diagnosis, Rise, Statement
from shrinkrepro.errors import Exit
from shrinkrepro.failure import VersionMismatch
from shrinkrepro.program.source import Program, count_lines, count_statements, count_tokens
from shrinkrepro.report.mending import mending_document
from shrinkrepro.results import Bisected, Explanation, Findings, Reduced, Result, Step, findings
from shrinkrepro.stability import Stability

SCHEMA = 1
Document = dict[str, Any]


def to_document(result: Result) -> Document:
    """What a reduction came to."""
    status = "verified" if result.exit is Exit.DONE else status_of(result.exit)
    return _document(status, findings(result))


def bisected_document(bisected: Bisected, status: Exit) -> Document:
    """What `bisect` found, and how it ended: the same document, whose fields about the reduction are null."""
    word = "repaired" if status is Exit.DONE else status_of(status)
    return _document(word, findings(bisected))


def explanation_document(explanation: Explanation) -> Document:
    """What `explain` found: the same document, whose fields about the reduction are null."""
    status = "explained" if explanation.exit is Exit.DONE else status_of(explanation.exit)
    return _document(status, findings(explanation))


def problem_document(status: Exit, message: str) -> Document:
    """A problem that left nothing else to report."""
    return {"schema": SCHEMA, "status": status_of(status), "error": message}


def status_of(status: Exit) -> str:
    """An exit status in words: "not reproduced"."""
    return status.name.lower().replace("_", " ")


def _document(status: str, found: Findings) -> Document:
    explanation, result, reduced, mending = found.explanation, found.result, found.reduced, found.mending
    diagnosis = explanation.diagnosis
    return {
        "schema": SCHEMA,
        "status": status,
        "failure": _failure(explanation.failure, diagnosis),
        "culprit": _place(diagnosis.culprit) if diagnosis.culprit else None,
        "saved": _place(diagnosis.saved) if diagnosis.saved else None,
        "needed": _place(diagnosis.needed) if diagnosis.needed else None,
        "rises": [_rise(rise) for rise in diagnosis.rises],
        "other_mutations": [{**_place(m), "count": m.count} for m in diagnosis.other_mutations],
        "original": {**_size(explanation.program), "seconds": explanation.seconds},
        "reduced": _reduced(reduced) if reduced else None,
        "twin": _twin(result.twin) if result and reduced else None,
        "candidates": asdict(result.candidates) if result else None,
        "steps": [_step(step) for step in result.steps] if result else None,
        "repair": mending_document(explanation.program, mending) if mending else None,
        "stability": _stability(explanation.stability) if explanation.stability else None,
        "notes": [*explanation.notes, *(result.notes if result else ())],
        "guard": explanation.guard,
        "versions": dict(explanation.versions),
    }


def _stability(stability: Stability) -> Document:
    return {**asdict(stability), "confidence": stability.confidence}


def _failure(failure: VersionMismatch, diagnosis: Diagnosis) -> Document:
    return {**asdict(failure), "node": diagnosis.node, "attribute": diagnosis.attribute}


def _place(statement: Statement) -> Document:
    frame = statement.library_frame
    return {
        "file": statement.file,
        "line": statement.shown_line,
        "cell": statement.cell.number if statement.cell else None,
        "source": statement.source,
        "function": statement.function,
        "operator": statement.operator,
        "library_frame": {"file": frame.file, "line": frame.line, "function": frame.function} if frame else None,
    }


def _rise(rise: Rise) -> Document:
    statement = rise.statement
    return {
        "file": statement.file if statement else None,
        "line": statement.shown_line if statement else None,
        "cell": statement.cell.number if statement and statement.cell else None,
        "before": rise.before,
        "after": rise.after,
    }


def _step(step: Step) -> Document:
    size = {name: count for name, count in _size(step.program).items() if name != "lines"}
    return {"pass": step.name, "seconds": step.seconds, "run": step.run, **size}


def _size(program: Program) -> Document:
    texts = [file.text for file in program]
    counts = {"statements": count_statements, "tokens": count_tokens, "lines": count_lines}
    return {name: sum(map(count, texts)) for name, count in counts.items()}


def _reduced(reduced: Reduced) -> Document:
    culprit = reduced.diagnosis.culprit
    return {
        "path": reduced.path,
        "source": reduced.program.entry.text,
        **_size(reduced.program),
        "culprit_line": culprit.line if culprit else None,
        "fresh_runs": reduced.fresh_runs,
        "fresh_failures": reduced.fresh_failures,
        "minimal_over": reduced.patches,
        "free": list(reduced.free),
    }


def _twin(twin: Program | None) -> Document:
    return {"source": twin.entry.text if twin else None, "clean": twin is not None}
