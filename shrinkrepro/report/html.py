"""What was found as one HTML file that needs no network: drawings, the script with what was removed, the replay."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from shrinkrepro.report import drawing, replay, wording
from shrinkrepro.report.patch import source_diff
from shrinkrepro.report.templates import templates
from shrinkrepro.results import Findings, Step, location, place

# Longer programs are not shown step by step: they would make the file large, and nobody reads them.
_LONGEST = 20_000


@dataclass(frozen=True)
class _Frame:
    """A step of the replay: its number, the pass in words, what was left then, and its program unless it is long."""

    number: int
    name: str
    tokens: int
    seconds: float
    run: int
    files: tuple[tuple[str, str], ...] | None


def html(found: Findings) -> str:
    """The whole page."""
    known, reduced, mending = found.explanation, found.reduced, found.mending
    program, diagnosis = known.program, known.diagnosis
    spots = list(wording.spots(diagnosis))
    steps = found.result.steps if found.result and reduced else ()
    frames = [_frame(number, step, len(steps)) for number, step in enumerate(steps)]
    chosen = mending.chosen if mending else None
    programs = [step.program for step in steps] or [program]
    return (
        templates(autoescape=True)
        .get_template("report.html")
        .render(
            title=wording.title(found),
            explanation=wording.explanation(found),
            error=wording.error(known.failure),
            facts=_facts(found),
            spots=spots,
            timeline=drawing.timeline(diagnosis),
            graph=drawing.graph(diagnosis.graph) if diagnosis.graph else None,
            course=(
                drawing.course(steps, [frame.tokens for frame in frames], found.result.judged if found.result else ())
                if steps
                else None
            ),
            files=[(file.path, list(replay.lines(file, programs, spots)), file.cells) for file in program],
            positions={file.path: number for number, file in enumerate(program)},
            frames=frames,
            reduced=reduced,
            culprit=reduced.diagnosis.culprit if reduced else None,
            repair=wording.repaired(found),
            diff=source_diff(program, chosen.program) if chosen else "",
            how=list(wording.how_found(found)),
            notes=found.notes,
            versions=known.versions,
            # what the template calls
            code=_code,
            place=place,
            location=location,
            highlighted=replay.highlighted,
            first_line=wording.first_line,
            cell_at=lambda path, line: program[path].cell_at(line),
        )
    )


def _facts(found: Findings) -> list[tuple[str, str]]:
    """A few figures and what they count."""
    facts = []
    if found.reduced and found.result:
        before, after = found.explanation.program.tokens, found.reduced.program.tokens
        facts = [
            (f"{before:,} → {after:,}", "tokens"),
            (f"{found.result.candidates.run:,}", f"runs in {found.result.candidates.seconds:.1f} s"),
            (f"{found.reduced.fresh_failures} of {found.reduced.fresh_runs}", "fresh interpreters fail the same"),
        ]
        if found.result.twin is not None:
            facts.append(("clean", "with only the culprit out-of-place"))
    chosen = found.mending.chosen if found.mending else None
    if chosen:
        facts.append(("proven" if chosen.proof.complete else "not proven", "repair of the script"))
    return facts


def _frame(number: int, step: Step, count: int) -> _Frame:
    texts = tuple((file.path, file.text) for file in step.program)
    # the script itself stands beside the replay
    shown = number > 0 and sum(len(text) for _, text in texts) <= _LONGEST
    name = step.name.replace("_", " ") if number else "the script"
    return _Frame(number, name, step.program.tokens, step.seconds, step.run, texts if shown or count == 1 else None)


def _code(text: str) -> Markup:
    """Prose as HTML, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))
