from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from shrinkrepro.diagnosis import Statement
from shrinkrepro.oracle import Counts, Judgement, Verdict
from shrinkrepro.pipeline import Explained, Searching, Verifying
from shrinkrepro.program.source import Program, Size, SourceFile
from shrinkrepro.reduction.engine import Adopted, PassFinished, Started
from shrinkrepro.report.console import Progress, explanation_text, result_text, show, sparkline
from shrinkrepro.results import Explanation, Result
from shrinkrepro.stability import Stability

PROGRAM = Program.of("import torch\n", "train.py")


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def printed(renderable: RenderableType, *, terminal: bool = False) -> str:
    file = io.StringIO()
    show(Console(file=file, force_terminal=terminal, width=60), renderable)
    return file.getvalue()


def explained(explanation: Explanation) -> str:
    return printed(explanation_text(explanation))


def test_the_three_places_are_shown_with_file_line_function_and_source(explanation: Explanation) -> None:
    lines = explained(explanation).splitlines()
    assert lines[3:12] == [
        "saved    train.py:4 in step, exp, as ExpBackward0._saved_result",
        "      4 | y = x.exp()",
        "        | ^^^^^^^^^^^",
        "changed  train.py:5 in step, add_ in torch/optim/sgd.py:440  <- the culprit",
        "      5 | y += 1",
        "        | ^^^^^^",
        "needed   train.py:9",
        "      9 | step(torch.ones(1, requires_grad=True)).sum().backward()",
        "        |                                               ^^^^^^^^^^",
    ]


@pytest.mark.parametrize(
    ("line", "column", "end", "underline"),
    [
        ("a = 1; x += 1  # why", 7, 13, "       ^^^^^^"),
        ("\tif a: x += 1", 7, 13, "      ^^^^^^"),
        ("f('形状'); x += 1", 9, 15, "           ^^^^^^"),
    ],
)
def test_only_the_statement_is_underlined(
    explanation: Explanation, line: str, column: int, end: int, underline: str
) -> None:
    culprit = replace(statement_of(explanation), line=1, end_line=1, column=column, end_column=end)
    there = replace(explanation.diagnosis, saved=None, needed=None, culprit=culprit)
    text = explained(replace(explanation, program=Program.of(line + "\n", "train.py"), diagnosis=there))
    assert f"      1 | {line.strip()}\n        | {underline}\n" in text


def statement_of(explanation: Explanation) -> Statement:
    assert explanation.diagnosis.culprit is not None
    return explanation.diagnosis.culprit


def test_the_error_is_shown_on_one_line_without_its_hint(explanation: Explanation) -> None:
    error = explained(explanation).splitlines()[1]
    assert error.endswith("is at version 1; expected version 0 instead.")


def test_a_culprit_that_wrote_several_times_is_counted(explanation: Explanation) -> None:
    culprit = explanation.diagnosis.culprit
    assert culprit is not None
    often = replace(culprit, count=6, library_frame=None)
    text = explained(replace(explanation, diagnosis=replace(explanation.diagnosis, culprit=often)))
    assert "train.py:5 in step, add_ (6 times)  <- the culprit" in text


def test_later_writes_are_counted(explanation: Explanation) -> None:
    assert "changed again at train.py:7 (4 times)" in explained(explanation)


def test_notes_are_shown(explanation: Explanation) -> None:
    assert "note: Something was slow." in explained(explanation)


def test_a_place_that_is_not_known_is_said_to_be_missing(explanation: Explanation) -> None:
    unknown = replace(explanation, diagnosis=replace(explanation.diagnosis, culprit=None))
    assert "changed  not found" in explained(unknown)


def test_a_long_statement_is_cut(explanation: Explanation) -> None:
    source = "f(\n" + "".join(f"    {number},\n" for number in range(20)) + ")\n"
    long = replace(statement_of(explanation), line=1, end_line=22, column=0, end_column=1)
    there = replace(explanation.diagnosis, saved=None, needed=None, culprit=long)
    text = explained(replace(explanation, program=Program.of(source, "train.py"), diagnosis=there))
    assert "      6 |     4,\n        |     ^^\n        | ...\nneeded" in text


def test_markup_in_the_script_is_text(explanation: Explanation) -> None:
    culprit = replace(statement_of(explanation), line=1, end_line=1)
    there = replace(explanation.diagnosis, saved=None, needed=None, culprit=culprit)
    odd = Program.of("x[bold] = '[red]'\n", "train.py")
    assert "x[bold] = '[red]'" in explained(replace(explanation, program=odd, diagnosis=there))


def test_the_smallest_program_is_shown_as_it_is(result: Result) -> None:
    assert result.reduced is not None
    assert result.reduced.program.entry.text in printed(result_text(result, colour=False))


def test_of_several_files_each_is_shown_under_its_name(result: Result) -> None:
    assert result.reduced is not None
    files = (SourceFile.original("models/net.py", "import json\n"), *result.reduced.program.files)
    several = replace(result.reduced, program=replace(result.reduced.program, files=files))
    text = printed(result_text(replace(result, reduced=several, twin=None), colour=False))
    assert "models/net.py:\nimport json\n\ntrain.py:\nimport torch\n" in text


def test_sizes_before_and_after_are_shown(result: Result) -> None:
    assert "4 statements, 30 tokens; 7 statements, 45 tokens before" in printed(result_text(result, colour=False))


def test_where_it_is_and_how_it_was_verified_is_shown(result: Result) -> None:
    text = printed(result_text(result, colour=False))
    assert "written to train_repro.py\n" in text
    assert "fails in 3 of 3 fresh interpreters" in text


def test_the_twin_is_shown_as_the_lines_that_differ(result: Result) -> None:
    assert "    - y += 1\n    + y = y + 1\n" in printed(result_text(result, colour=False))


def test_a_result_that_nothing_verifies_shows_why_and_no_program(result: Result) -> None:
    assert printed(result_text(replace(result, reduced=None), colour=False)) == "note: Something was undone.\n"


def test_without_a_terminal_there_are_no_escape_codes(result: Result) -> None:
    assert "\x1b" not in printed(result_text(result, colour=False)) + explained(result.explanation)


def test_on_a_terminal_the_program_is_highlighted(result: Result) -> None:
    assert "\x1b[" in printed(result_text(result, colour=True), terminal=True)


def test_no_color_is_obeyed(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(result_text(result, colour=True), terminal=True)


def started(progress: Progress) -> None:
    progress(Searching(Counts(run=30)))
    progress(Started(PROGRAM, Size(1, 200, 20, 30, 900, 40, 7)))


def test_progress_says_how_much_is_left_how_fast_it_goes_and_how_long_it_took() -> None:
    clock = Clock()
    progress = Progress(Console(file=io.StringIO()), "train.py", clock=clock)
    started(progress)
    progress(Adopted(PROGRAM, Judgement(Verdict.SAME), Size(1, 90, 9, 12, 400, 20, 3), "delete_statements"))
    clock.now += 3
    assert progress.line() == "9 statements left, 30 candidates run, 10/s, 3 s: running train.py"


def test_with_a_budget_it_is_said_how_long_the_search_may_take() -> None:
    clock = Clock()
    progress = Progress(Console(file=io.StringIO()), "train.py", budget=60, clock=clock)
    started(progress)
    assert progress.line().endswith("0 s of at most 60: running train.py")


def viewed(explanation: Explanation, *, height: int = 24, encoding: str = "utf-8") -> list[str]:
    """What stands on a terminal once a program of 40 lines has been adopted, whose culprit is on line 30."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, force_terminal=True, width=80, height=height)
    progress = Progress(console, "train.py", clock=Clock())
    started(progress)
    culprit = replace(statement_of(explanation), line=30, end_line=30)
    judgement = Judgement(Verdict.SAME, diagnosis=replace(explanation.diagnosis, culprit=culprit))
    program = Program.of("".join(f"x{number} = '{'long ' * 20}'\n" for number in range(1, 41)), "train.py")
    progress(Adopted(program, judgement, Size(1, 90, 9, 12, 400, 20, 3), "delete_statements"))
    with console.capture() as captured:
        console.print(progress.view())
    return Text.from_ansi(captured.get()).plain.splitlines()


def test_on_a_terminal_the_smallest_program_is_shown_around_its_culprit(explanation: Explanation) -> None:
    lines = viewed(explanation)
    assert lines[0].split() == ["running", "train.py", "9", "statements,", "90", "tokens", "left", "█▁"]
    assert "❱ 30 x30 = " in "".join(lines)
    assert lines[-1] == "30 candidates run, 0/s, 0 s"


@pytest.mark.parametrize("height", [4, 10, 24])
def test_what_is_shown_fits_the_terminal(explanation: Explanation, height: int) -> None:
    lines = viewed(explanation, height=height)
    assert len(lines) < height
    assert max(map(len, lines)) <= 80


def test_a_terminal_that_cannot_show_bars_gets_none(explanation: Explanation) -> None:
    assert viewed(explanation, encoding="ascii")[0].rstrip().endswith("90 tokens left")


@pytest.mark.parametrize(
    ("numbers", "bars"), [([5], "▁"), ([7, 7], "▁▁"), ([1000, 100, 10], "█▅▁"), ([8, 0, 1], "█▁▁")]
)
def test_numbers_are_drawn_as_bars(numbers: list[int], bars: str) -> None:
    assert sparkline(numbers) == bars


def test_a_log_gets_a_line_for_each_pass_that_made_the_program_smaller() -> None:
    file = io.StringIO()
    with Progress(Console(file=file), "train.py", clock=Clock()) as progress:
        started(progress)
        progress(PassFinished("unwrap_blocks", 4, adopted=False))
        progress(PassFinished("delete_statements", 4, adopted=True))
        progress(Verifying(PROGRAM))
    assert file.getvalue().splitlines() == [
        "running train.py",
        "20 statements left, 30 candidates run, 0/s, 0 s: delete statements",
        "verifying the smallest program in fresh interpreters",
    ]


def test_the_explanation_is_shown_before_the_reduction_starts(explanation: Explanation) -> None:
    found: list[Explanation] = []
    Progress(Console(file=io.StringIO()), "train.py", found.append)(Explained(explanation))
    assert found == [explanation]


def test_a_quiet_console_shows_no_progress() -> None:
    file = io.StringIO()
    with Progress(Console(file=file, quiet=True, force_terminal=True), "train.py") as progress:
        started(progress)
    assert file.getvalue() == ""


def test_a_terminal_is_left_clean() -> None:
    file = io.StringIO()
    with Progress(Console(file=file, force_terminal=True, legacy_windows=False), "train.py") as progress:
        started(progress)
    assert file.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("stability", "line"),
    [
        (
            Stability(runs=20, failures=10, tries=10),
            "fails in 10 of 20 runs; 10 tries of each candidate miss one that fails as often with probability 0.001",
        ),
        (
            Stability(runs=20, failures=6, tries=10, seed=3),
            "fails in 6 of 20 runs, by the random seed; seed 3, with which it fails, is pinned",
        ),
    ],
)
def test_how_often_the_script_fails_is_said(explanation: Explanation, stability: Stability, line: str) -> None:
    assert line in explained(replace(explanation, stability=stability)).splitlines()


def test_a_reduction_without_a_repair_says_where_to_look_for_one(result: Result) -> None:
    assert result.mending is not None
    without = replace(result, mending=replace(result.mending, chosen=None))
    assert "no repair was found with 5 runs; shrinkrepro bisect looks further" in printed(
        result_text(without, colour=False)
    )
