"""Writes the gallery, docs/gallery.md: programs of the corpus, what is wrong with them, and what becomes of them.

python docs/gallery.py --check    # each smallest program still fails, each line shown still stands in its program
python docs/gallery.py --write    # reduces every program again, which takes minutes
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shrinkrepro import Result, load_script, reduce
from shrinkrepro.diagnosis import Statement
from shrinkrepro.report import wording
from shrinkrepro.report.patch import source_diff
from shrinkrepro.results import findings, place
from shrinkrepro.runtime.messages import PHRASE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "gallery.md"
CASES = (
    "001-gan-step-order",
    "005-resnet-residual-iadd",
    "006-pos-encoding-iadd",
    "008-shared-relu-inplace",
    "012-seq2seq-attention-mask",
    "013-moco-queue",
    "016-wgan-weight-clip",
    "020-lstm-gate-slices",
    "022-checkpointed-block-project",
    "023-scratch-buffer-out",
    "201-notebook-with-magics",
)
INTRODUCTION = """\
# Gallery

Programs of the corpus: the lines that matter, the smallest program that fails in the same way, and the repair. This
page is written by `python docs/gallery.py --write`; that each smallest program fails is checked with every change.
"""

_SECTION = re.compile(r"^## .*? \{#(?P<case>[\w-]+)\}\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^(?P<file>\S+?)(?: cell (?P<cell>\d+))?:(?P<line>\d+) \| (?P<text>.*)$", re.MULTILINE)
_SMALLEST = re.compile(r"^The smallest program:\n\n```python\n(?P<text>.*?)```$", re.MULTILINE | re.DOTALL)


class Section(NamedTuple):
    """What the page says about one case: lines of the program by place, and its smallest program."""

    case: str
    shown: list[tuple[str, str]]
    smallest: str


def sections(page: str) -> list[Section]:
    """The sections of a page. Raises ValueError when one shows no smallest program."""
    found = []
    for match in _SECTION.finditer(page):
        smallest = _SMALLEST.search(match["body"])
        if smallest is None:
            raise ValueError(f"{match['case']} shows no smallest program")
        shown = [(line[0].partition(" | ")[0], line["text"]) for line in _SHOWN.finditer(match["body"])]
        found.append(Section(match["case"], shown, smallest["text"]))
    return found


def render(case: str, result: Result) -> str:
    """The section about one case."""
    found, label = findings(result), _label(case)
    assert result.reduced is not None, f"{case} has no smallest program"
    sizes = f"{wording.size(result.explanation.program)} became {wording.size(result.reduced.program)}"
    parts = [
        f"## {label['title']} {{#{case}}}",
        f"`corpus/{case}/{label['entry']}`: {sizes}. {wording.explanation(found)}",
        "```text\n" + "\n".join(_shown(result)) + "\n```",
        f"The smallest program:\n\n```python\n{result.reduced.program.entry.text}```",
    ]
    chosen = result.mending.chosen if result.mending else None
    if chosen is not None:
        diff = source_diff(result.explanation.program, chosen.program)
        parts.append(f"The repair: {wording.repaired(found)}\n\n```diff\n{diff}```")
    return "\n\n".join(parts) + "\n"


def _shown(result: Result) -> Iterator[str]:
    """The lines of the three statements, each with its place."""
    program = result.explanation.program
    for spot in wording.spots(result.explanation.diagnosis):
        lines = program[spot.statement.file].text.split("\n")
        for line in range(spot.statement.line, spot.statement.end_line + 1):
            yield f"{_place(spot.statement, line)} | {lines[line - 1]}"


def _place(statement: Statement, line: int) -> str:
    file, _, first = place(statement).rpartition(":")
    return f"{file}:{int(first) + line - statement.line}"


def problems(page: str) -> Iterator[str]:
    """What is wrong with a page: missing cases, lines that stand no more where it says, programs that do not fail."""
    known = sections(page)
    if [section.case for section in known] != list(CASES):
        yield "the cases are not those of docs/gallery.py"
    for section in known:
        program = load_script(str(REPOSITORY / "corpus" / section.case / _label(section.case)["entry"]))
        for where, text in section.shown:
            file, _, line = where.rpartition(":")
            path, _, cell = file.partition(" cell ")
            lines = program[path].text.split("\n")
            first = next((c.first for c in program[path].cells if str(c.number) == cell), 1)
            if lines[first + int(line) - 2].strip() != text.strip():
                yield f"{section.case}: {where} is not {text!r}"
        if PHRASE not in _error_of(section.smallest):
            yield f"{section.case}: the smallest program does not fail as it should"


def _error_of(program: str) -> str:
    """The message of the error that ends a program, empty if it ends well."""
    try:
        exec(compile(program, "smallest.py", "exec"), {"__name__": "__main__"})
    except RuntimeError as problem:
        return str(problem)
    return ""


def _label(case: str) -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "corpus" / case / "case.toml").read_text(encoding="utf-8"))


def _result(case: str) -> Result:
    label = _label(case)
    print(f"{case} ...", file=sys.stderr, flush=True)
    return reduce(load_script(str(REPOSITORY / "corpus" / case / label["entry"]), label["args"]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or write the page; 1 when it is not what it should be."""
    parser = argparse.ArgumentParser(description="Check or write docs/gallery.md.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail when the page shows what is not so")
    mode.add_argument("--write", action="store_true", help="reduce every program and write the page")
    if parser.parse_args(arguments).write:
        PAGE.write_text("\n".join([INTRODUCTION, *(render(case, _result(case)) for case in CASES)]), encoding="utf-8")
        return 0
    wrong = list(problems(PAGE.read_text(encoding="utf-8")))
    for problem in wrong:
        print(f"{PAGE}: {problem}; run `python docs/gallery.py --write`", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
