"""What every form of report says in the same words: the three places, the title, the explanation, the size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shrinkrepro.diagnosis import Diagnosis, Statement
from shrinkrepro.failure import VersionMismatch
from shrinkrepro.program.source import Program, count_statements
from shrinkrepro.results import Findings, place

Role = Literal["saved", "changed", "needed"]


@dataclass(frozen=True)
class Spot:
    """One of the three places: the part that its statement plays, and a sentence that says so."""

    role: Role
    statement: Statement
    sentence: str


def spots(diagnosis: Diagnosis) -> Iterator[Spot]:
    """The places that are known, in the order of what happened: saved, changed, needed."""
    saved, culprit, needed = diagnosis.saved, diagnosis.culprit, diagnosis.needed
    if saved is not None:
        yield Spot("saved", saved, f"saved here for backward{_by(saved)}{_kept(diagnosis)}")
    if culprit is not None:
        yield Spot(
            "changed", culprit, f"changed here in place{_by(culprit)}{_rise(diagnosis)}, before backward used it"
        )
    if needed is not None:
        yield Spot("needed", needed, f"needed here by `{needed.operator or 'backward'}`, which finds it changed")


def title(found: Findings) -> str:
    """What went wrong, as the title of a report; code in backticks."""
    diagnosis = found.explanation.diagnosis
    culprit = diagnosis.culprit
    if culprit is None:
        return f"{found.explanation.program.invocation.entry} changes a tensor in place that backward still needs"
    kept = f" that `{diagnosis.node}` saved" if diagnosis.node else " that backward still needs"
    return f"`{first_line(culprit)}` ({place(culprit)}) changes a tensor in place{kept}"


def explanation(found: Findings) -> str:
    """One paragraph that says what happened, in order; code in backticks."""
    diagnosis = found.explanation.diagnosis
    saved, culprit, needed = diagnosis.saved, diagnosis.culprit, diagnosis.needed
    tensor = tensor_in_words(found.explanation.failure)
    told = [
        f"Backward needs {tensor} as it was"
        + (f" when `{first_line(saved)}` ({place(saved)}) saved it" if saved else " when it was saved")
        + (f", as `{diagnosis.node}.{diagnosis.attribute}`." if diagnosis.node and diagnosis.attribute else ".")
    ]
    if culprit is not None:
        told.append(
            f"`{first_line(culprit)}` ({place(culprit)}) then changes it in place{_by(culprit)}{_rise(diagnosis)}."
        )
    if diagnosis.built is not None:
        told.append(f"The module that writes was built at {place(diagnosis.built)}: `{first_line(diagnosis.built)}`.")
    if needed is not None:
        told.append(f"`{first_line(needed)}` ({place(needed)}) finds the changed tensor and raises the error.")
    return " ".join(told)


def repaired(found: Findings) -> str | None:
    """What the repair of the script does and what is proven about it; None where there is none."""
    chosen = found.mending.chosen if found.mending else None
    if chosen is None:
        return None
    edits = "; ".join(repair.patch.label for repair in chosen.repairs)
    edits = edits[:1].upper() + edits[1:]
    if chosen.proof.complete:
        return f"{edits}. Proven by running it: the crash is gone, and loss, gradients and later losses are as meant."
    return f"{edits}. The crash is gone; that loss and gradients are as meant is not proven."


def how_found(found: Findings) -> Iterator[str]:
    """How the small program came about and what vouches for it, a sentence each."""
    result, reduced = found.result, found.reduced
    if result is not None and reduced is not None:
        counts = result.candidates
        yield (
            f"Reduced from {size(found.explanation.program)} to {size(reduced.program)} with {counts.run} runs in "
            f"{counts.seconds:.1f} s."
        )
        yield f"It failed with the same error in {reduced.fresh_failures} of {reduced.fresh_runs} fresh interpreters."
        if reduced.patches is not None:
            yield f"It is 1-minimal over {reduced.patches} patches: none that a pass proposes makes it smaller."
        if reduced.free:
            yield f"Free in it: {', '.join(reduced.free)}."
        if result.twin is not None:
            yield "It runs clean once the culprit does not write in place."
    yield f"Guard of the runs: {found.explanation.guard}."


def size(program: Program) -> str:
    """How large a program is, in words."""
    statements = sum(count_statements(file.text) for file in program)
    return f"{many(statements, 'statement')}, {program.tokens} tokens"


def many(count: int, noun: str) -> str:
    """A count and its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def error(failure: VersionMismatch) -> str:
    """PyTorch's text on one line without its hint."""
    return " ".join(failure.message.partition("Hint:")[0].split())


def first_line(statement: Statement) -> str:
    """The statement's text on one line, cut where it has more, without the sign that ends code in a sentence."""
    first, *more = statement.source.replace("`", "'").splitlines() or [""]
    return f"{first} ..." if more else first


def tensor_in_words(failure: VersionMismatch) -> str:
    """The tensor that the message means: "a tensor of shape [16, 24]", "a tensor" where its shape is not told."""
    shape = "" if failure.shape is None else f" of shape {list(failure.shape)}"
    return f"a tensor{shape}"


def _by(statement: Statement) -> str:
    """The torch function that was called, and from which library on the statement's behalf."""
    frame = statement.library_frame
    inside = f" in {installed(frame.file)}:{frame.line}" if frame and statement.operator else ""
    return f" by `{statement.operator}`{inside}" if statement.operator else ""


def installed(file: str) -> str:
    """The path of a library's file, without that of this installation."""
    return file.replace("\\", "/").rpartition("site-packages/")[2]


def _kept(diagnosis: Diagnosis) -> str:
    names = ".".join(name for name in (diagnosis.node, diagnosis.attribute) if name)
    return f", as `{names}` at version {diagnosis.failure.expected_version}" if names else ""


def _rise(diagnosis: Diagnosis) -> str:
    first = diagnosis.rises[0] if diagnosis.rises else None
    return f", from version {first.before} to {first.after}" if first else ""
