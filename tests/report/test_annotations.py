from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shrinkrepro.program.source import Cell
from shrinkrepro.report.annotations import annotate
from shrinkrepro.report.files import Reports, annotation_lines
from shrinkrepro.results import Explanation, findings


def github(explanation: Explanation, folder: str = "/") -> list[str]:
    return list(annotate(findings(explanation), "github", Path(folder)))


def test_github_is_told_of_the_culprit_as_an_error_and_of_the_others_as_notices(explanation: Explanation) -> None:
    assert [line.partition(",")[0] for line in github(explanation)] == [
        "::error file=train.py",
        "::notice file=train.py",
        "::notice file=train.py",
    ]


def test_a_command_for_github_has_lines_and_columns(explanation: Explanation) -> None:
    error = github(explanation)[0]
    assert ",line=5,endLine=5,col=5,endColumn=10,title=tensor changed in place::changed here" in error


def test_what_means_something_in_a_command_is_escaped(explanation: Explanation) -> None:
    culprit = explanation.diagnosis.culprit
    assert culprit is not None
    odd = replace(culprit, file="a,b:c%.py", operator="x\ny")
    line = github(replace(explanation, diagnosis=replace(explanation.diagnosis, culprit=odd)))[0]
    assert "file=a%2Cb%3Ac%25.py," in line
    assert "x%0Ay" in line


def test_in_a_notebook_no_line_of_the_file_is_named(explanation: Explanation) -> None:
    culprit = explanation.diagnosis.culprit
    assert culprit is not None
    within = replace(explanation.diagnosis, culprit=replace(culprit, cell=Cell(2, 4)))
    line = github(replace(explanation, diagnosis=within))[0]
    assert "line=" not in line.partition("::changed")[0]
    assert "::cell 2, line 2: changed here" in line


def test_files_are_named_from_the_folder_of_the_repository(explanation: Explanation) -> None:
    deep = replace(explanation.program.invocation, root="/repo/exp")
    moved = replace(explanation, program=replace(explanation.program, invocation=deep))
    assert github(moved, "/repo")[0].startswith("::error file=exp/train.py,")


def test_editors_get_file_line_and_column(explanation: Explanation) -> None:
    lines = list(annotate(findings(explanation), "lines", Path("/")))
    assert lines[0].startswith("train.py:5:5: error: changed here in place by `add_`")
    assert [line.split(" ")[1] for line in lines[1:]] == ["note:", "note:"]


def test_where_github_runs_us_it_is_told_without_being_asked(
    explanation: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert next(annotation_lines(Reports(), findings(explanation))).startswith("::error ")
    assert list(annotation_lines(Reports(annotations="none"), findings(explanation))) == []


def test_elsewhere_nobody_is_told_who_did_not_ask(explanation: Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert list(annotation_lines(Reports(), findings(explanation))) == []
