"""Writes the catalogue of passes, docs/passes.md, from the passes themselves.

    python docs/catalogue.py --check    # fail when the page is not what the passes say
    python docs/catalogue.py --write

A pass is documented by its docstring: prose, and examples that show a program before and after one of its patches.
`tests/passes/test_examples.py` runs every example, so what the page shows is what the pass does.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from shrinkrepro.passes import PASSES

PAGE = Path(__file__).resolve().parent / "passes.md"

INTRODUCTION = """\
# The passes

A pass proposes changes that make a program smaller or plainer. Each change is tried: it stays when the program still
fails in the same way, and is dropped when it does not. The passes take turns in the order below, again and again,
until no change of any pass stays.

The examples show one of the changes that a pass proposes. They are run as tests. This page is written by
`python docs/catalogue.py --write` from the docstrings of the passes.
"""

_EXAMPLE = re.compile(
    r"^(?P<indent> *)Before:\n(?P<before>(?:(?P=indent) +\S.*\n|\s*\n)+?)(?P=indent)After:\n"
    r"(?P<after>(?:(?P=indent) +\S.*(?:\n|\Z)|[^\S\n]*\n)*)",
    re.MULTILINE,
)


class Example(NamedTuple):
    """A program, and what one patch of a pass makes of it."""

    before: str
    after: str


def examples_of(documented: Callable[..., object]) -> list[Example]:
    """The examples in the docstring of a pass, dedented."""
    found = _EXAMPLE.finditer(inspect.getdoc(documented) or "")
    return [Example(_block(match["before"]), _block(match["after"])) for match in found]


def prose_of(documented: Callable[..., object]) -> str:
    """The docstring of a pass without its examples."""
    paragraphs = _EXAMPLE.sub("\n", inspect.getdoc(documented) or "").split("\n\n")
    return "\n\n".join(paragraph.strip("\n") for paragraph in paragraphs if paragraph.strip())


def page(passes: Sequence[Callable[..., object]]) -> str:
    """The catalogue of these passes, in their order, as Markdown."""
    return "\n".join([INTRODUCTION, *(_section(number, pass_) for number, pass_ in enumerate(passes, 1))])


def _section(number: int, pass_: Callable[..., object]) -> str:
    """One pass: its name in plain words, what it does, where it is, its examples."""
    title = pass_.__name__.replace("_", " ").capitalize()
    place = f"`{pass_.__name__}` in `{pass_.__module__.replace('.', '/')}.py`"
    examples = (f"```diff\n{difference(example)}```\n" for example in examples_of(pass_))
    return "\n".join([f"## {number}. {title}\n", f"{prose_of(pass_)}\n", f"{place}\n", *examples])


def difference(example: Example) -> str:
    """Both programs as one text: lines that go are marked `-`, lines that come `+`, the others indented alike."""
    before, after = example.before.splitlines(), example.after.splitlines()
    return "".join(f"{line.rstrip()}\n" for line in _marked(before, after))


def _marked(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            yield from (f"  {line}" for line in before[first:last])
        else:
            yield from (f"- {line}" for line in before[first:last])
            yield from (f"+ {line}" for line in after[start:end])


def _block(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or write the page; 1 when it is not what it should be."""
    parser = argparse.ArgumentParser(description="Check or write docs/passes.md.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail when the page is not what the passes say")
    mode.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args(arguments)

    wanted = page(PASSES)
    if options.write:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{PAGE} is out of date: run `python docs/catalogue.py --write`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
