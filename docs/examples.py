"""Keeps the examples in the documentation true: runs their commands and compares, or rewrites, the output shown.

    python docs/examples.py --check README.md docs/*.md
    python docs/examples.py --write README.md

An example is a fenced block marked `console`. In it, each line that starts with `$ ` is a command, and the lines up
to the next command are what it prints on standard output and standard error. The commands of one document run in
order, in a folder of their own that holds a copy of `corpus/`. What may differ from run to run (times, how many
candidates were run, versions of a build) does not count as a difference, and is not rewritten.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PROMPT = "$ "

ANSI_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
LIBRARIES = re.compile(r"(?:[A-Za-z]:)?[\w.~+/\\-]*[/\\]site-packages[/\\]")

VARYING = (
    (re.compile(r"(?<![\w.:])\d+:\d\d(?::\d\d)?(?:\.\d+)?\b(?!:)"), "<clock>"),
    (re.compile(r"\b\d[\d,]*(?:\.\d+)?\s?(?:/s\b|(?:a|per) second\b)"), "<rate>"),
    (re.compile(r"\b\d[\d,]*(?:\.\d+)?\s?(?:[µn]s|ms|s|sec|seconds?|min|minutes?)\b"), "<time>"),
    (re.compile(r"\b\d[\d,]*(?= (?:candidates?|runs?|accepted|cached|rejected)\b)"), "<count>"),
    (
        re.compile(r"\b(?P<word>candidates?|runs?|accepted|cached|rejected)(?P<colon>:?) +\d[\d,]*\b"),
        r"\g<word>\g<colon> <count>",
    ),
    (re.compile(r"\b(?P<release>\d+\.\d+\.\d+)\+\w+"), r"\g<release>"),
    (re.compile(r"\b(?P<name>Python|Linux) \d+(?:\.\d+)+\S*"), r"\g<name> <version>"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
    (re.compile(r"[ \t]{2,}"), "  "),
)


class ExampleError(Exception):
    """A command in the documentation could not be run, so its output means nothing."""


def tidy(output: str, folder: Path) -> str:
    """What a command printed, fit for a page: no colours, no trailing blanks, no paths of this machine.

    `folder` is where the command ran: paths below it become relative, those of installed libraries start at
    "site-packages".
    """
    text = ANSI_ESCAPE.sub("", output).replace("\r\n", "\n")
    for place in sorted({str(folder), str(folder.resolve())}, key=len, reverse=True):
        text = text.replace(place + os.sep, "").replace(place, ".")
    text = LIBRARIES.sub("site-packages/", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def normalise(output: str) -> str:
    """`output` with all that may differ between two good runs (times, rates, counters, builds) replaced by a word."""
    for pattern, word in VARYING:
        output = pattern.sub(word, output)
    return output.strip("\n")


def render(document: str, run: Callable[[str], str]) -> str:
    """`document` as it should read: each example's output replaced by what `run(command)` gives, where that differs."""
    lines = iter(document.splitlines(keepends=True))
    return "".join(_rendered(lines, run))


def _rendered(lines: Iterator[str], run: Callable[[str], str]) -> Iterator[str]:
    for line in lines:
        yield line
        opening = re.match(r"(?P<indent> *)(?P<fence>`{3,})console\s*$", line)
        if opening:
            yield from _block(lines, opening["indent"], opening["fence"], run)


def _block(lines: Iterator[str], indent: str, fence: str, run: Callable[[str], str]) -> Iterator[str]:
    """The lines of a block after its opening fence, the closing one included."""
    command: str | None = None
    shown: list[str] = []
    for line in lines:
        text = line.rstrip("\n").removeprefix(indent)
        closing = text.startswith(fence)
        if closing or text.startswith(PROMPT):
            if command is not None:
                yield from _output(run(command), shown, indent)
            yield line
            command, shown = text.removeprefix(PROMPT), []
            if closing:
                return
        elif command is None:
            raise ExampleError(f"an example must start with a command after {PROMPT!r}, not with {text!r}")
        else:
            shown.append(line)
    raise ExampleError(f"the example that ends with {command!r} is not closed by {fence!r}")


def _output(actual: str, shown: list[str], indent: str) -> list[str]:
    """The lines shown where they say the same as `actual`, else those of `actual`."""
    before = "".join(line.removeprefix(indent) for line in shown)
    if normalise(before) == normalise(actual):
        return shown
    return [f"{indent}{line}".rstrip() + "\n" for line in actual.splitlines()]


def run_command(command: str, folder: Path, seconds: float) -> str:
    """What `command` prints, tidied, when a shell runs it in `folder` with this Python's programs first in the path.

    Raises ExampleError when it is not found, is killed, or takes longer than `seconds`. Another exit status than
    0 is fine: some examples show an error.
    """
    programs = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    plain = {"PATH": programs, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command,
        shell=True,
        cwd=folder,
        env=os.environ | plain,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as problem:
            os.killpg(process.pid, signal.SIGKILL)  # the shell's children would keep the pipe open
            raise ExampleError(f"`{command}` took longer than {seconds:g} s") from problem
    status = process.returncode
    if status < 0 or status >= 126:
        raise ExampleError(f"`{command}` could not be run (exit status {status}):\n{output}")
    return tidy(output, folder)


def refresh(path: Path, seconds: float) -> tuple[str, str]:
    """The text of the document at `path` now, and as it should read."""
    document = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="examples-") as scratch:
        folder = Path(scratch)
        shutil.copytree(REPOSITORY / "corpus", folder / "corpus")
        return document, render(document, lambda command: run_command(command, folder, seconds))


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or rewrite the documents that `arguments` name; 1 when one is wrong, 2 when an example cannot run."""
    parser = argparse.ArgumentParser(description="Check or rewrite the output of the examples in Markdown documents.")
    parser.add_argument("documents", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0, help="longest that one command may take")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail where the output shown is not what the command prints")
    mode.add_argument("--write", action="store_true", help="put what the commands print into the documents")
    options = parser.parse_args(arguments)

    wrong = 0
    for path in options.documents:
        try:
            before, after = refresh(path, options.seconds)
        except ExampleError as problem:
            print(f"{path}: {problem}", file=sys.stderr)
            return 2
        if before == after:
            print(f"{path}: up to date")
        elif options.write:
            path.write_text(after, encoding="utf-8")
            print(f"{path}: rewritten")
        else:
            wrong += 1
            difference = difflib.unified_diff(
                before.splitlines(), after.splitlines(), f"{path} as it stands", f"{path} as it should be", lineterm=""
            )
            print("\n".join(difference))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
