"""What people and programs read about a repair: the edits tried, what each run proved, and the patch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from shrinkrepro.program.source import Cell, Program
from shrinkrepro.proof import Comparison, Proof
from shrinkrepro.repair import Repair
from shrinkrepro.report.patch import source_diff
from shrinkrepro.results import Attempt, Mending, location

_MOST_FAILED = 5
_HEADINGS = ("statement", "edit", "operator", "ran", "crash gone", "same loss", "same gradients", "same later losses")


def mending_text(original: Program, mending: Mending, *, colour: bool, table: bool = True) -> RenderableType:
    """The edits that were tried as a table, if asked for, then what the chosen one proves and its diff."""
    parts: list[RenderableType] = []
    if table and mending.attempts:
        parts += [Text("\n".join(_table(original, mending))), Text()]
    chosen = mending.chosen
    if chosen is None:
        parts.append(Text("No edit was found that stops the crash.", "yellow"))
    else:
        title = "The repair" if len(chosen.repairs) == 1 else f"The repair, of {len(chosen.repairs)} edits"
        parts += _described(original, mending, chosen, title, colour=colour)
    if mending.alternative is not None:
        parts += [
            Text(),
            *_described(
                original, mending, mending.alternative, "A plainer edit, if you want what it changes", colour=colour
            ),
        ]
    parts += [Text(f"note: {note}", "yellow") for note in mending.notes]
    return Group(*parts)


def _described(
    original: Program, mending: Mending, attempt: Attempt, title: str, *, colour: bool
) -> Iterator[RenderableType]:
    """What an attempt does, what its run proves, and its diff."""
    yield Text(f"{title}: {'; '.join(repair.patch.label for repair in attempt.repairs)}", "bold")
    yield Text("\n".join(_sentences(mending, attempt)), "" if attempt.proof.complete else "yellow")
    yield Text()
    diff = source_diff(original, attempt.program).rstrip("\n")
    yield Syntax(diff, "diff", theme="ansi_dark", background_color="default") if colour else Text(diff)


def mending_document(original: Program, mending: Mending) -> dict[str, Any]:
    """The same as plain values for the JSON document."""
    chosen = mending.chosen
    return {
        "diff": source_diff(original, chosen.program) if chosen else None,
        "edits": [_edit(original, mending, repair) for repair in chosen.repairs] if chosen else [],
        **(_proof(chosen.proof) if chosen else _proof(None)),
        "minimal": mending.minimal,
        "alternative": _alternative(original, mending),
        "tried": [
            {"edits": [_edit(original, mending, r) for r in attempt.repairs], **_proof(attempt.proof)}
            for attempt in mending.attempts
        ],
        "writes": [
            {
                "file": write.statement.file,
                "line": write.statement.shown_line,
                "cell": write.statement.cell.number if write.statement.cell else None,
                "source": write.statement.source,
                "operator": write.statement.operator,
                "count": write.statement.count,
                "versions": write.versions,
            }
            for write in mending.writes
        ],
        "runs": mending.runs,
        "seconds": mending.seconds,
        "notes": list(mending.notes),
    }


def _alternative(original: Program, mending: Mending) -> dict[str, Any] | None:
    other = mending.alternative
    if other is None:
        return None
    edits = [_edit(original, mending, repair) for repair in other.repairs]
    return {"diff": source_diff(original, other.program), "edits": edits, **_proof(other.proof)}


def _table(original: Program, mending: Mending) -> Iterator[str]:
    """The attempts, aligned: those that stop the crash, and the first ones that do not."""
    failed = [index for index, attempt in enumerate(mending.attempts) if not attempt.proof.mends]
    left_out = failed[_MOST_FAILED:]
    shown = [attempt for index, attempt in enumerate(mending.attempts) if index not in left_out]
    rows = [_HEADINGS, *(row for attempt in shown for row in _rows(original, mending, attempt))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if left_out:
        yield f"and {len(left_out)} more that do not stop the crash"


def _rows(original: Program, mending: Mending, attempt: Attempt) -> Iterator[tuple[str, ...]]:
    """One line for each edit of an attempt; what was proven stands in the last one."""
    proof = attempt.proof
    for repair in attempt.repairs:
        last = repair is attempt.repairs[-1]
        verdicts = (
            ("yes" if proof.mends else _why(proof), _word(proof.loss), _word(proof.gradients), _word(proof.later))
            if last
            else ("+", "", "", "")
        )
        operator, count = _writer(mending, repair)
        cell, line = _in_cell(original, repair)
        yield location(repair.file, line, cell), repair.patch.label, operator, count, *verdicts


def _in_cell(original: Program, repair: Repair) -> tuple[Cell | None, int]:
    """In a notebook the cell that is edited and the line in it, else None and the line in the file."""
    cell = original[repair.file].cell_at(repair.line)
    return cell, repair.line if cell is None else repair.line - cell.first + 1


def _writer(mending: Mending, repair: Repair) -> tuple[str, str]:
    """The operators by which a statement writes, and how often it did."""
    writes = [w.statement for w in mending.writes if (w.statement.file, w.statement.line) == (repair.file, repair.line)]
    if repair.kind not in ("out-of-place", "copy", "move") or not writes:
        return "", ""
    return ", ".join(dict.fromkeys(write.operator for write in writes)), f"{max(write.count for write in writes)}x"


def _why(proof: Proof) -> str:
    if proof.ending == "failed":
        return "later again" if proof.passes else "no"
    return {"raised": "other error", "killed": "killed"}.get(proof.ending, "no")


def _word(comparison: Comparison | None) -> str:
    if comparison is None:
        return "-"
    return "yes" if comparison.same else f"off by {comparison.difference:.2g}"


def _sentences(mending: Mending, attempt: Attempt) -> Iterator[str]:
    proof = attempt.proof
    until = "the script runs to its end" if proof.ending == "finished" else "the script ran on until it was stopped"
    if proof.complete:
        yield f"proven: {until}; the loss, the gradients and the later losses are those that the script meant"
    else:
        yield f"the crash is gone: {until}; but check that you want what changes:"
        for name, part in (("loss", proof.loss), ("gradients", proof.gradients), ("later losses", proof.later)):
            if part is None:
                yield f"  {name}: not known to be the same"
            elif not part.same:
                yield f"  {name}: off by up to {part.difference:.2g}"
    if attempt is mending.chosen and len(attempt.repairs) > 1 and mending.minimal:
        yield "every edit is needed: without any one of them the crash is back"


def _edit(original: Program, mending: Mending, repair: Repair) -> dict[str, Any]:
    cell, line = _in_cell(original, repair)
    operator, _ = _writer(mending, repair)
    return {
        "file": repair.file,
        "line": line,
        "cell": cell.number if cell else None,
        "source": repair.source,
        "kind": repair.kind,
        "label": repair.patch.label,
        "operator": operator,
    }


def _proof(proof: Proof | None) -> dict[str, Any]:
    parts: Sequence[tuple[str, Comparison | None]] = (
        [("loss", proof.loss), ("gradients", proof.gradients), ("later_losses", proof.later)]
        if proof
        else [(name, None) for name in ("loss", "gradients", "later_losses")]
    )
    values = {f"same_{name}": None if part is None else part.same for name, part in parts}
    differences = {f"{name}_difference": _finite(part) for name, part in parts}
    gone, proven = (proof.mends, proof.complete) if proof else (False, False)
    return {"crash_gone": gone, "proven": proven, "ending": proof.ending if proof else None, **values, **differences}


def _finite(comparison: Comparison | None) -> float | None:
    """The difference as JSON can say it."""
    if comparison is None or comparison.difference in (float("inf"), float("nan")):
        return None
    return comparison.difference
