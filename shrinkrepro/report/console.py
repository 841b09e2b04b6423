"""What people read: progress while it goes on (for standard error), what was found (for standard output)."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.syntax import Syntax
from rich.text import Text

from shrinkrepro.diagnosis import Statement
from shrinkrepro.oracle import Counts
from shrinkrepro.pipeline import Event, Explained, Repairing, Searching, Verifying
from shrinkrepro.program.source import Program, count_statements, count_tokens
from shrinkrepro.reduction.engine import Adopted, Judged, PassFinished, Started
from shrinkrepro.report.mending import mending_text
from shrinkrepro.results import Explanation, Reduced, Result, place

_LONGEST_SOURCE = 6
_MOST_MUTATIONS = 5


def show(console: Console, renderable: RenderableType) -> None:
    """Print without wrapping: a log, a pipe or a terminal gets the lines as they are."""
    console.print(renderable, soft_wrap=True, highlight=False)


def explanation_text(explanation: Explanation) -> Text:
    """The error and its three places, each with file:line and the source."""
    diagnosis = explanation.diagnosis
    text = Text()
    text.append(f"{explanation.program.invocation.entry} fails in backward:\n", "bold")
    text.append(f"    {' '.join(explanation.failure.message.partition('Hint:')[0].split())}\n\n")
    kept = ".".join(name for name in (diagnosis.node, diagnosis.attribute) if name)
    saved, culprit, needed = diagnosis.saved, diagnosis.culprit, diagnosis.needed
    _append_place(text, "saved", saved, _by(saved) + (f", as {kept}" if kept else ""), "cyan")
    _append_place(text, "changed", culprit, f"{_by(culprit)}  <- the culprit", "bold red")
    _append_place(text, "needed", needed, "", "cyan")
    others = [f"{place(statement)}{_times(statement.count)}" for statement in diagnosis.other_mutations]
    if others:
        more = f" and {len(others) - _MOST_MUTATIONS} more" if len(others) > _MOST_MUTATIONS else ""
        text.append(f"changed again at {', '.join(others[:_MOST_MUTATIONS])}{more}\n")
    text.append_text(notes_text(explanation.notes))
    text.rstrip()
    return text


def notes_text(notes: Iterable[str]) -> Text:
    """One line for each thing that could not be done, or that the reader must know."""
    return Text("".join(f"note: {note}\n" for note in notes), "yellow")


def result_text(result: Result, *, colour: bool) -> RenderableType:
    """The smallest program, where it is, how it was verified, and its twin; highlighted when `colour`."""
    reduced = result.reduced
    notes = notes_text(result.notes)
    notes.rstrip()
    if reduced is None:
        return notes
    parts: list[RenderableType] = [
        Text(),
        Text(f"The smallest program: {_size(reduced.program)}; {_size(result.explanation.program)} before", "bold"),
        Text(),
        *_sources(reduced.program, colour=colour),
        Text("\n".join(_facts(reduced, result.twin))),
        *([notes] if notes else []),
    ]
    if result.mending is not None and result.mending.chosen is not None:
        parts += [Text(), mending_text(result.explanation.program, result.mending, colour=colour, table=False)]
    return Group(*parts)


def _sources(program: Program, *, colour: bool) -> Iterator[RenderableType]:
    """The text of each file, under its name where there are several."""
    for file in program:
        if len(program.files) > 1:
            yield Text(f"{file.path}:", "bold")
        source = file.text.rstrip("\n")
        yield Syntax(source, "python", theme="ansi_dark", background_color="default") if colour else Text(source)
        yield Text()


def _facts(reduced: Reduced, twin: Program | None) -> Iterator[str]:
    others = len(reduced.program.files) - 1
    if reduced.path is not None:
        yield f"written to {reduced.path}" + (f" and {others} files beside it" if others else "")
    yield f"verified: fails in {reduced.fresh_failures} of {reduced.fresh_runs} fresh interpreters with the same error"
    if reduced.patches is not None:
        yield f"1-minimal over {reduced.patches} patches: no edit that any pass proposes makes it smaller"
    if reduced.free:
        yield f"free: {', '.join(reduced.free)}"
    if twin is not None:
        yield "confirmed: it runs clean once the culprit does not write in place:"
        for file in reduced.program:
            yield from (f"    {line}" for line in _changes(file.text, twin[file.path].text))


def _changes(before: str, after: str) -> Iterator[str]:
    """The lines that differ, "-" before those that go and "+" before those that come."""
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        if line.startswith(("- ", "+ ")):
            yield line


class Progress:
    """A listener that shows how far things are: one line that is redrawn on a terminal, else a line for each step made.

    To be used as a context manager around the work. `found` is told of the explanation as soon as it is there.
    """

    def __init__(
        self,
        console: Console,
        script: str,
        found: Callable[[Explanation], None] = lambda explanation: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console, self._found, self._clock = console, found, clock
        self._status = f"running {script}"
        self._counts = Counts()
        self._started = clock()
        self._statements: int | None = None
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        self._show()
        if self._live is None:
            self._say(self._status)
        return self

    def __exit__(self, *exception: object) -> None:
        self._hide()

    def __call__(self, event: Event) -> None:
        """Take note of an event, and show it."""
        match event:
            case Explained(explanation):
                self._hide()
                self._found(explanation)
                self._show()
            case Searching(counts):
                self._counts, self._started = counts, self._clock()
            case Started(size=size) | Adopted(size=size):
                self._statements = size.statements
            case Judged(step=step):
                self._status = _in_words(step)
            case PassFinished(step=step, adopted=True) if self._live is None:
                self._status = _in_words(step)
                self._say(self.line())
            case Verifying():
                self._statements = None
                self._say_status("verifying the smallest program in fresh interpreters")
            case Repairing():
                self._statements = None
                self._say_status("trying repairs of the script")

    def line(self) -> str:
        """Where things stand, in one line."""
        seconds = self._clock() - self._started
        if self._statements is None:
            return f"{self._status}: {seconds:.0f} s"
        run = self._counts.run
        rate = run / seconds if seconds > 0 else 0.0
        return (
            f"{_many(self._statements, 'statement')} left, {run} candidates run, {rate:.0f}/s, "
            f"{seconds:.0f} s: {self._status}"
        )

    def _say_status(self, status: str) -> None:
        self._status = status
        if self._live is None:
            self._say(status)

    def _say(self, line: str) -> None:
        show(self._console, Text(line))

    def _show(self) -> None:
        if self._console.is_terminal and not self._console.is_dumb_terminal and not self._console.quiet:
            self._live = Live(
                console=self._console,
                get_renderable=lambda: Text(self.line(), no_wrap=True, overflow="ellipsis", style="dim"),
                refresh_per_second=8,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _append_place(text: Text, role: str, statement: Statement | None, remark: str, style: str) -> None:
    text.append(f"{role:<9}", style)
    if statement is None:
        text.append("not found\n")
        return
    text.append(place(statement), "bold")
    text.append("" if statement.function == "<module>" else f" in {statement.function}")
    text.append(f"{remark}\n")
    lines = statement.source.splitlines()
    for line in [*lines[:_LONGEST_SOURCE], *(["..."] if len(lines) > _LONGEST_SOURCE else [])]:
        text.append(f"             {line}\n")


def _by(statement: Statement | None) -> str:
    """The torch function that was called, and from where in a library, without the path of this installation."""
    if statement is None or not statement.operator:
        return ""
    frame = statement.library_frame
    inside = f" in {frame.file.rpartition('site-packages/')[2]}:{frame.line}" if frame else ""
    return f", {statement.operator}{inside}{_times(statement.count)}"


def _size(program: Program) -> str:
    texts: Sequence[str] = [file.text for file in program]
    return f"{_many(sum(map(count_statements, texts)), 'statement')}, {sum(map(count_tokens, texts))} tokens"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _times(count: int) -> str:
    return "" if count == 1 else f" ({count} times)"


def _in_words(step: str) -> str:
    return step.replace("_", " ")
