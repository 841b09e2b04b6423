"""What people read: progress while it goes on (for standard error), what was found (for standard output)."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.syntax import Syntax
from rich.text import Text

from shrinkrepro.diagnosis import Statement
from shrinkrepro.oracle import Counts
from shrinkrepro.pipeline import Event, Explained, Repairing, Searching, Verifying
from shrinkrepro.program.source import Program
from shrinkrepro.reduction.engine import Adopted, Judged, PassFinished, Started
from shrinkrepro.report.mending import mending_text
from shrinkrepro.report.wording import error, installed, many, size
from shrinkrepro.results import Explanation, Reduced, Result, place
from shrinkrepro.stability import Stability

_LONGEST_SOURCE = 6
_MOST_MUTATIONS = 5
# How many lines of a terminal are kept free around the program, and how many steps the sparkline shows.
_AROUND, _SPARKS = 4, 24
_BARS = "▁▂▃▄▅▆▇█"


def show(console: Console, renderable: RenderableType) -> None:
    """Print without wrapping: a log, a pipe or a terminal gets the lines as they are."""
    console.print(renderable, soft_wrap=True, highlight=False)


def explanation_text(explanation: Explanation) -> Text:
    """The error and its three places, each with file:line and the source."""
    diagnosis = explanation.diagnosis
    text = Text()
    text.append(f"{explanation.program.invocation.entry} fails in backward:\n", "bold")
    text.append(f"    {error(explanation.failure)}\n\n")
    kept = ".".join(name for name in (diagnosis.node, diagnosis.attribute) if name)
    saved, culprit, needed = diagnosis.saved, diagnosis.culprit, diagnosis.needed
    program = explanation.program
    _append_place(text, program, "saved", saved, _by(saved) + (f", as {kept}" if kept else ""), "cyan")
    _append_place(text, program, "changed", culprit, f"{_by(culprit)}  <- the culprit", "bold red")
    _append_place(text, program, "needed", needed, "", "cyan")
    others = [f"{place(statement)}{_times(statement.count)}" for statement in diagnosis.other_mutations]
    if others:
        more = f" and {len(others) - _MOST_MUTATIONS} more" if len(others) > _MOST_MUTATIONS else ""
        text.append(f"changed again at {', '.join(others[:_MOST_MUTATIONS])}{more}\n")
    if explanation.stability is not None:
        text.append(f"{stability_text(explanation.stability)}\n")
    text.append_text(notes_text(explanation.notes))
    text.rstrip()
    return text


def stability_text(stability: Stability) -> str:
    """How often the script fails, and what that means for the candidates."""
    often = f"fails in {stability.failures} of {stability.runs} runs"
    if stability.seed is not None:
        return f"{often}, by the random seed; seed {stability.seed}, with which it fails, is pinned"
    missed = 1 - stability.confidence
    tried = f"{stability.tries} tries of each candidate miss one that fails as often with probability {missed:.1g}"
    return f"{often}; {tried}"


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
        Text(f"The smallest program: {size(reduced.program)}; {size(result.explanation.program)} before", "bold"),
        Text(),
        *_sources(reduced.program, colour=colour),
        Text("\n".join(_facts(reduced, result.twin))),
        *([notes] if notes else []),
    ]
    if result.mending is not None and result.mending.chosen is None:
        parts += [
            Text(),
            Text(f"no repair was found with {result.mending.runs} runs; shrinkrepro bisect looks further"),
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
    """A listener that shows how far things are: a view that is redrawn on a terminal, else a line for each step made.

    To be used as a context manager around the work. `found` is told of the explanation as soon as it is there. `budget`
    is how many seconds the search may take at most, if that is known.
    """

    def __init__(
        self,
        console: Console,
        script: str,
        found: Callable[[Explanation], None] = lambda explanation: None,
        budget: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console, self._found, self._budget, self._clock = console, found, budget, clock
        self._status = f"running {script}"
        self._counts = Counts()
        self._started = clock()
        self._searching: _Searching | None = None
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
            case Started(program=program, size=size):
                self._searching = _Searching(program, None, size.statements, (size.tokens,))
            case Adopted(program=program, size=size, judgement=judgement):
                culprit = judgement.diagnosis.culprit if judgement.diagnosis else None
                before = self._searching.tokens if self._searching else ()
                self._searching = _Searching(program, culprit, size.statements, (*before, size.tokens))
            case Judged(step=step):
                self._status = _in_words(step)
            case PassFinished(step=step, adopted=True) if self._live is None:
                self._status = _in_words(step)
                self._say(self.line())
            case Verifying():
                self._go_on_to("verifying the smallest program in fresh interpreters")
            case Repairing():
                self._go_on_to("trying repairs of the script")

    def line(self) -> str:
        """Where things stand, in one line."""
        seconds = self._clock() - self._started
        if self._searching is None:
            return f"{self._status}: {seconds:.0f} s"
        return (
            f"{many(self._searching.statements, 'statement')} left, {self._pace(seconds)}, "
            f"{seconds:.0f} s{self._left(seconds)}: {self._status}"
        )

    def view(self) -> RenderableType:
        """Where things stand on a terminal: during the search with the smallest program so far, as much as fits."""
        seconds, now = self._clock() - self._started, self._searching
        if now is None:
            return Text(self.line(), no_wrap=True, overflow="ellipsis", style="dim")
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(f"{self._status:<24} ", "bold")
        head.append(f"{many(now.statements, 'statement')}, {now.tokens[-1]} tokens left ")
        if self._console.encoding.startswith("utf"):
            head.append(sparkline(now.tokens[-_SPARKS:]), "cyan")
        foot = Text(f"{self._pace(seconds)}, {seconds:.0f} s{self._left(seconds)}", "dim", no_wrap=True)
        return Group(head, *now.excerpt(self._console.height - _AROUND), foot)

    def _pace(self, seconds: float) -> str:
        rate = self._counts.run / seconds if seconds > 0 else 0.0
        return f"{self._counts.run} candidates run, {rate:.0f}/s"

    def _left(self, seconds: float) -> str:
        return "" if self._budget is None else f" of at most {self._budget:.0f}"

    def _go_on_to(self, status: str) -> None:
        self._searching, self._status = None, status
        if self._live is None:
            self._say(status)

    def _say(self, line: str) -> None:
        show(self._console, Text(line))

    def _show(self) -> None:
        if self._console.is_terminal and not self._console.is_dumb_terminal and not self._console.quiet:
            self._live = Live(
                console=self._console,
                get_renderable=self.view,
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


@dataclass(frozen=True)
class _Searching:
    """The smallest program so far: its culprit, its statements, and the tokens of all programs that led to it."""

    program: Program
    culprit: Statement | None
    statements: int
    tokens: tuple[int, ...]

    def excerpt(self, height: int) -> Iterator[RenderableType]:
        """`height` lines of the file that holds the culprit, those around it; nothing where there is no room."""
        culprit = self.culprit
        file = self.program.entry if culprit is None else self.program[culprit.file]
        text = file.text.rstrip("\n")
        count = text.count("\n") + 1
        if height < 1:
            return
        first = max(1, min((culprit.line if culprit else 1) - height // 2, count - height + 1))
        yield Syntax(
            text,
            "python",
            theme="ansi_dark",
            background_color="default",
            line_numbers=True,
            line_range=(first, first + height - 1),
            highlight_lines=set() if culprit is None else set(range(culprit.line, culprit.end_line + 1)),
        )


def sparkline(numbers: Sequence[int]) -> str:
    """Numbers as bars side by side, on a logarithmic scale; the largest is the highest."""
    most, least = math.log(max(numbers) or 1), math.log(max(1, min(numbers)))
    scale = (len(_BARS) - 1) / ((most - least) or 1.0)
    return "".join(_BARS[round((math.log(max(1, number)) - least) * scale)] for number in numbers)


def _append_place(
    text: Text, program: Program, role: str, statement: Statement | None, remark: str, style: str
) -> None:
    text.append(f"{role:<9}", style)
    if statement is None:
        text.append("not found\n")
        return
    text.append(place(statement), "bold")
    text.append("" if statement.function == "<module>" else f" in {statement.function}")
    text.append(f"{remark}\n")
    for number, line, underline in _excerpt(program, statement):
        text.append(f"{number:>7} | ", "dim")
        text.append(f"{line}\n")
        text.append(f"{'':>7} | ", "dim")
        text.append(f"{underline}\n", style)
    if statement.end_line - statement.line >= _LONGEST_SOURCE:
        text.append(f"{'':>7} | ...\n", "dim")


def _excerpt(program: Program, statement: Statement) -> Iterator[tuple[int, str, str]]:
    """The first lines that a statement stands on: the number, the text and what underlines the statement.

    What all of them are indented by is left out.
    """
    lines = program[statement.file].text.split("\n")[statement.line - 1 : statement.end_line]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for offset, line in enumerate(lines[:_LONGEST_SOURCE]):
        first, last = offset == 0, offset == len(lines) - 1
        start = statement.column if first else len(line) - len(line.lstrip())
        end = statement.end_column if last else len(line.rstrip())
        space = "".join("\t" if character == "\t" else " " * cell_len(character) for character in line[indent:start])
        yield statement.shown_line + offset, line[indent:].rstrip(), space + "^" * cell_len(line[start:end])


def _by(statement: Statement | None) -> str:
    """The torch function that was called, and from where in a library, without the path of this installation."""
    if statement is None or not statement.operator:
        return ""
    frame = statement.library_frame
    inside = f" in {installed(frame.file)}:{frame.line}" if frame else ""
    return f", {statement.operator}{inside}{_times(statement.count)}"


def _times(count: int) -> str:
    return "" if count == 1 else f" ({count} times)"


def _in_words(step: str) -> str:
    return step.replace("_", " ")
