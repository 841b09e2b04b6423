"""What was found as Markdown for a bug tracker. Nothing in it says who or where its author is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from shrinkrepro.report import wording
from shrinkrepro.report.patch import source_diff
from shrinkrepro.report.privacy import Private
from shrinkrepro.report.templates import templates
from shrinkrepro.results import Findings, place

Template = Literal["pytorch", "github", "plain"]


def markdown(found: Findings, template: Template, environment: Sequence[str], hidden: Private) -> str:
    """The issue to file: `environment` are lines about the machine, `hidden` is what must not be shown.

    `template` "pytorch" has the headings of PyTorch's form for bugs, "github" folds what is long, "plain" does without
    HTML.
    """
    original = found.explanation.program
    chosen = found.mending.chosen if found.mending else None
    repair = wording.repaired(found)
    forms = templates(autoescape=False)  # what stands in Markdown stands in code blocks
    forms.filters["fenced"] = fenced
    return forms.get_template("issue.md").render(
        template=template,
        title=hidden.sentence(wording.title(found)),
        explanation=hidden.sentence(wording.explanation(found)),
        entry=hidden.prose(original.invocation.entry),
        files=[(file.path, file.text) for file in hidden.program(found.reduced.program)] if found.reduced else [],
        error=hidden.paths(f"RuntimeError: {found.explanation.failure.message}"),
        spots=[
            {
                "role": spot.role,
                "where": hidden.prose(place(spot.statement)),
                "sentence": hidden.sentence(spot.sentence),
                "source": hidden.code(spot.statement.source),
            }
            for spot in wording.spots(found.explanation.diagnosis)
        ],
        repair=hidden.sentence(repair) if repair else None,
        diff=source_diff(hidden.program(original), hidden.program(chosen.program)) if chosen else "",
        how=[hidden.prose(sentence) for sentence in wording.how_found(found)],
        notes=[hidden.sentence(note) for note in found.notes],
        environment="\n".join(hidden.prose(line) for line in environment),
    )


def fenced(text: str, language: str) -> str:
    """A block of code, fenced by more backticks than the text has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"
