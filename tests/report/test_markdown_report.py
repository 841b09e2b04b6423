from __future__ import annotations

from dataclasses import replace

import pytest

from shrinkrepro.program.source import Program, SourceFile
from shrinkrepro.report.environment import environment, telling
from shrinkrepro.report.markdown import fenced, markdown
from shrinkrepro.report.privacy import Private
from shrinkrepro.results import Explanation, Result, findings

NOBODY = Private((), (), ())
TEMPLATES = ["pytorch", "github", "plain"]


def written(found: Result | Explanation, template: str = "pytorch", hidden: Private = NOBODY) -> str:
    return markdown(findings(found), template, ["OS: Linux"], hidden)  # type: ignore[arg-type]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_form_has_title_program_error_places_repair_and_environment(result: Result, template: str) -> None:
    text = written(result, template)
    assert result.reduced is not None
    parts = [
        "# `y += 1` (train.py:5) changes a tensor in place that `ExpBackward0` saved\n",
        f"```python\n{result.reduced.program.entry.text}```",
        f"```text\nRuntimeError: {result.explanation.failure.message}\n```",
        "**train.py:4**: saved here",
        "**train.py:5**: changed here",
        "**train.py:9**: needed here",
        "```diff\n--- a/train.py\n+++ b/train.py\n",
        "```text\nOS: Linux\n```",
    ]
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_pytorchs_form_has_the_headings_of_its_template(result: Result) -> None:
    lines = written(result).splitlines()
    assert [line for line in lines if line.startswith("### ")] == ["### 🐛 Describe the bug", "### Versions"]


def test_the_places_and_the_way_are_folded_where_html_is_understood(result: Result) -> None:
    assert [written(result, template).count("<details>") for template in TEMPLATES] == [2, 2, 0]


def test_what_was_not_looked_for_is_left_out(explanation: Explanation) -> None:
    text = written(explanation, "github")
    assert "To reproduce" not in text
    assert "Repair" not in text
    assert "**train.py:5**: changed here" in text


def test_an_unknown_culprit_is_not_named(explanation: Explanation) -> None:
    unknown = replace(explanation, diagnosis=replace(explanation.diagnosis, culprit=None))
    assert written(unknown).startswith("# train.py changes a tensor in place that backward still needs\n")


def test_each_of_several_files_has_its_name_and_its_block(result: Result) -> None:
    assert result.reduced is not None
    files = (*result.reduced.program.files, SourceFile.original("net.py", "x = 1\n"))
    several = replace(result.reduced.program, files=files)
    text = written(replace(result, reduced=replace(result.reduced, program=several)))
    assert "`net.py`:\n\n```python\nx = 1\n```\n" in text


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("a ```` b\n", "python") == "`````python\na ```` b\n`````"


def test_nothing_in_it_says_who_or_where_the_author_is(result: Result) -> None:
    """The user is called like a variable of the script and like its folder, the host like a word of a comment."""
    assert result.reduced is not None
    source = "import torch  # by y on gpu7\nx = '/vol/y/data'\ny = x\n"
    program = Program.of(source, "y/train.py")
    reduced = replace(result.reduced, program=program)
    notes = ("Files of /vol/y/exp on gpu7.lab are needed.",)
    text = written(
        replace(result, reduced=reduced, notes=notes), hidden=Private(("/vol/y",), ("y",), ("gpu7.lab", "gpu7"))
    )
    assert "import torch  # by user on host\nx = '~/data'\ny = x\n" in text
    assert "- Files of ~/exp on host are needed." in text
    assert "gpu7" not in text
    assert "/vol" not in text


def test_of_pytorchs_own_report_only_what_matters_is_kept() -> None:
    report = (
        "PyTorch version: 2.13.0\nCUDA used to build PyTorch: Could not collect\nOS: Debian\nGCC version: 12\n"
        "GPU 0: NVIDIA H200\nHIP runtime version: N/A\nModel name: Xeon\n[pip3] mypy==1\n[pip3] torchvision==0.28\n"
    )
    assert list(telling(report)) == [
        "PyTorch version: 2.13.0",
        "OS: Debian",
        "GPU 0: NVIDIA H200",
        "[pip3] torchvision==0.28",
    ]


def test_where_pytorch_cannot_report_that_is_said_and_the_known_versions_come_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert environment({"torch": "2.13.0"}) == ["torch.utils.collect_env failed: FileNotFoundError", "torch 2.13.0"]
