"""The reports that a command line asks for: which there are, whether they can be written, and writing them.

What makes a report is imported only when it is asked for: templates and highlighting take time to import.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.source import Program
from shrinkrepro.report.patch import replace_file
from shrinkrepro.results import Findings

if TYPE_CHECKING:
    from shrinkrepro.report.annotations import Style
    from shrinkrepro.report.markdown import Template

Annotations = Literal["auto", "github", "lines", "none"]


@dataclass(frozen=True)
class Reports:
    """The files to write beside what is printed, the form of the Markdown, and which lines for machines to print."""

    markdown: Path | None = None
    template: Template = "pytorch"
    html: Path | None = None
    sarif: Path | None = None
    annotations: Annotations = "auto"

    @property
    def files(self) -> dict[str, Path]:
        """The files that are asked for, by the option that names them."""
        named = {"--markdown": self.markdown, "--html": self.html, "--sarif": self.sarif}
        return {option: path for option, path in named.items() if path is not None}


def check_reports(reports: Reports, program: Program) -> None:
    """Raise ShrinkReproError when a report cannot be written, or would take the place of a file of the program."""
    own = {Path(program.invocation.root, file.path).resolve() for file in program}
    for option, path in reports.files.items():
        if path.resolve() in own:
            raise ShrinkReproError(Exit.OUTPUT_EXISTS, f"{path} belongs to the script; name another file with {option}")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as problem:
            raise _unwritable(option, path, problem) from problem


def write_reports(reports: Reports, found: Findings) -> Iterator[str]:
    """Write each report, at once or not at all; a line for each that says where it is.

    Raises ShrinkReproError when one cannot be written.
    """
    for option, path in reports.files.items():
        try:
            replace_file(path, _WRITERS[option](reports, found).encode())
        except OSError as problem:
            raise _unwritable(option, path, problem) from problem
        yield f"{option.removeprefix('--')} report written to {path}"


def annotation_lines(reports: Reports, found: Findings) -> Iterator[str]:
    """The lines for machines: by default those of GitHub Actions where that runs us, else none."""
    from shrinkrepro.report.annotations import annotate

    on_github = os.environ.get("GITHUB_ACTIONS") == "true"
    automatic: Style = "github" if on_github else "none"
    style = automatic if reports.annotations == "auto" else reports.annotations
    return annotate(found, style, _workspace() if style == "github" else Path.cwd())


def _workspace() -> Path:
    """The folder that code hosts take the paths of files to be relative to."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())


def _markdown(reports: Reports, found: Findings) -> str:
    from shrinkrepro.report.environment import environment
    from shrinkrepro.report.markdown import markdown
    from shrinkrepro.report.privacy import private

    return markdown(found, reports.template, environment(found.explanation.versions), private())


def _html(reports: Reports, found: Findings) -> str:
    from shrinkrepro.report.html import html

    return html(found)


def _sarif(reports: Reports, found: Findings) -> str:
    from shrinkrepro.report.sarif import sarif

    return json.dumps(sarif(found, _workspace()), indent=2) + "\n"


_WRITERS: dict[str, Callable[[Reports, Findings], str]] = {
    "--markdown": _markdown,
    "--html": _html,
    "--sarif": _sarif,
}


def _unwritable(option: str, path: Path, problem: OSError) -> ShrinkReproError:
    return ShrinkReproError(
        Exit.OUTPUT_UNWRITABLE, f"{path} cannot be written: {problem.strerror}; name another file with {option}"
    )
