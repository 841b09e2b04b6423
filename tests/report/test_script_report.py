from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.source import Invocation, Program, SourceFile
from shrinkrepro.report.script import (
    MARK,
    Draft,
    check_output,
    command,
    default_output,
    destination,
    header,
    marked,
    write,
)
from shrinkrepro.results import Explanation, Result


@pytest.fixture
def program(tmp_path: Path) -> Program:
    (tmp_path / "train.py").write_text("import torch\n", encoding="utf-8")
    invocation = Invocation(str(tmp_path), "train.py", str(tmp_path))
    return Program((SourceFile.original("train.py", "import torch\n"),), invocation)


def refusal(program: Program, output: Path) -> Exit:
    with pytest.raises(ShrinkReproError) as problem:
        check_output(program, output)
    return problem.value.exit


def test_the_default_output_is_named_after_the_script_and_in_the_current_folder() -> None:
    assert default_output("runs/train.py") == Path("train_repro.py")


def test_a_free_path_is_fine_and_stays_free(program: Program, tmp_path: Path) -> None:
    check_output(program, tmp_path / "out.py")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_file_of_somebody_else_is_not_replaced(program: Program, tmp_path: Path) -> None:
    (tmp_path / "out.py").write_text("precious", encoding="utf-8")
    assert refusal(program, tmp_path / "out.py") is Exit.OUTPUT_EXISTS


def test_a_file_of_ours_may_be_replaced(program: Program, tmp_path: Path) -> None:
    (tmp_path / "out.py").write_text(f"{MARK}an earlier result\n", encoding="utf-8")
    check_output(program, tmp_path / "out.py")


def test_the_script_itself_is_not_replaced_even_if_it_was_ours(program: Program, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{MARK}an earlier result\n", encoding="utf-8")
    assert refusal(program, tmp_path / "train.py") is Exit.OUTPUT_EXISTS


def test_a_folder_is_no_output(program: Program, tmp_path: Path) -> None:
    assert refusal(program, tmp_path) is Exit.OUTPUT_UNWRITABLE


def test_a_folder_that_does_not_exist_cannot_be_written_to(program: Program, tmp_path: Path) -> None:
    assert refusal(program, tmp_path / "missing" / "out.py") is Exit.OUTPUT_UNWRITABLE


def test_the_header_is_short_and_made_of_comments(result: Result, explanation: Explanation) -> None:
    assert result.reduced is not None
    lines = header(result.reduced, explanation).splitlines()
    assert len(lines) <= 6
    assert all(line.startswith("# ") for line in lines)


def test_the_header_names_the_culprits_line_in_the_written_file(
    result: Result, explanation: Explanation, tmp_path: Path
) -> None:
    assert result.reduced is not None
    path = write(result.reduced, explanation, tmp_path / "out.py")
    lines = path.read_text(encoding="utf-8").splitlines()
    culprit = next(line for line in lines if line.startswith("# Culprit: line "))
    assert lines[int(culprit.split()[3].rstrip(",")) - 1].startswith("y += 1")
    assert culprit.endswith("which was train.py:5")


def test_the_header_ends_with_the_command(result: Result, explanation: Explanation) -> None:
    assert result.reduced is not None
    called = replace(explanation.program.invocation, argv=("--name", "two words"))
    asked = replace(explanation, program=replace(explanation.program, invocation=called))
    assert header(result.reduced, asked).splitlines()[-1] == "# Made by: shrinkrepro train.py -- --name 'two words'"


def test_the_command_of_a_module_names_the_module() -> None:
    program = of_files(train="x = 1\n")
    assert command(replace(program, invocation=replace(program.invocation, module="pkg.train"))) == (
        "shrinkrepro -m pkg.train"
    )


def test_the_lines_that_save_and_change_are_marked(result: Result) -> None:
    assert result.reduced is not None
    assert marked(result.reduced).entry.text == (
        "import torch\n"
        "y = torch.ones(1, requires_grad=True).exp()  # saves it for backward\n"
        "y += 1  # changes it in place\n"
        "y.sum().backward()\n"
    )


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("y += 1; z = 1\n", 1, "y += 1; z = 1  # changes it in place\n"),
        ("f(\n  y\n)\n", 3, "f(\n  y\n)  # changes it in place\n"),
        ('y += 1; z = """\n"""\n', 1, 'y += 1; z = """\n"""\n'),
        ("y += 1; z = \\\n  1\n", 1, "y += 1; z = \\\n  1\n"),
    ],
)
def test_a_line_is_marked_only_where_that_is_a_comment(result: Result, source: str, line: int, text: str) -> None:
    assert result.reduced is not None
    culprit = result.reduced.diagnosis.culprit
    assert culprit is not None
    there = replace(result.reduced.diagnosis, saved=None, culprit=replace(culprit, line=1, end_line=line))
    one = replace(result.reduced, program=Program.of(source, "train.py"), diagnosis=there)
    assert marked(one).entry.text == text


def test_a_statement_that_saves_what_it_changes_has_one_mark(result: Result) -> None:
    assert result.reduced is not None
    there = replace(result.reduced.diagnosis, saved=result.reduced.diagnosis.culprit)
    text = marked(replace(result.reduced, diagnosis=there)).entry.text
    assert "y += 1  # saves it for backward, changes it in place\n" in text


def test_a_header_without_a_culprit_leaves_it_out(result: Result, explanation: Explanation) -> None:
    assert result.reduced is not None
    unknown = replace(result.reduced, diagnosis=replace(result.reduced.diagnosis, culprit=None))
    assert "Culprit" not in header(unknown, explanation)


def test_what_is_written_can_be_replaced_later(
    result: Result, explanation: Explanation, program: Program, tmp_path: Path
) -> None:
    assert result.reduced is not None
    check_output(program, write(result.reduced, explanation, tmp_path / "out.py"))


def test_writing_leaves_no_other_file(result: Result, explanation: Explanation, tmp_path: Path) -> None:
    assert result.reduced is not None
    write(result.reduced, explanation, tmp_path / "out.py")
    assert [path.name for path in tmp_path.iterdir()] == ["out.py"]


def test_several_files_go_to_a_folder(program: Program, tmp_path: Path) -> None:
    files = (*program.files, SourceFile.original("models/net.py", "import torch\n"))
    several = replace(program, files=files)
    assert destination(several, tmp_path / "out.py") == tmp_path / "out" / "train.py"


def test_each_of_several_files_is_written_below_that_folder(
    result: Result, explanation: Explanation, tmp_path: Path
) -> None:
    assert result.reduced is not None
    files = (*result.reduced.program.files, SourceFile.original("models/net.py", "import torch\n"))
    several = replace(result.reduced, program=replace(result.reduced.program, files=files))
    write(several, explanation, tmp_path / "out.py")
    assert (tmp_path / "out" / "models" / "net.py").read_text(encoding="utf-8") == "import torch\n"
    assert (tmp_path / "out" / "train.py").read_text(encoding="utf-8").startswith(MARK)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def of_files(**texts: str) -> Program:
    files = tuple(SourceFile.original(f"{name}.py".replace("__", "/"), text) for name, text in texts.items())
    return Program(files, Invocation("/", files[0].path, "/"))


def test_the_smallest_program_so_far_says_what_it_is(explanation: Explanation, tmp_path: Path) -> None:
    draft = Draft(tmp_path / "out.py")
    draft.keep(of_files(train="x = 1\n"), explanation)
    text = (tmp_path / "out.py").read_text()
    assert text.startswith(f"{MARK}the smallest program so far")
    assert text.endswith("\nx = 1\n")
    assert draft.file == tmp_path / "out.py"


def test_of_an_earlier_draft_only_what_the_next_one_has_stays(explanation: Explanation, tmp_path: Path) -> None:
    draft = Draft(tmp_path / "out.py")
    draft.keep(of_files(train="import lib.a\n", lib__a="a = 1\n", lib__b="b = 1\n"), explanation)
    assert files_in(tmp_path) == {"out/train.py", "out/lib/a.py", "out/lib/b.py"}
    draft.keep(of_files(train="import lib.a\n", lib__a="a = 1\n"), explanation)
    assert files_in(tmp_path) == {"out/train.py", "out/lib/a.py"}
    draft.keep(of_files(train="a = 1\n"), explanation)
    assert [path.name for path in tmp_path.iterdir()] == ["out.py"]


def test_files_of_others_beside_a_draft_stay(explanation: Explanation, tmp_path: Path) -> None:
    draft = Draft(tmp_path / "out.py")
    draft.keep(of_files(train="import lib.a\n", lib__a="a = 1\n"), explanation)
    (tmp_path / "out" / "lib" / "notes.txt").write_text("mine")
    draft.keep(of_files(train="a = 1\n"), explanation)
    assert files_in(tmp_path) == {"out.py", "out/lib/notes.txt"}


def test_a_draft_goes_when_no_program_holds(explanation: Explanation, tmp_path: Path) -> None:
    draft = Draft(tmp_path / "out.py")
    draft.keep(of_files(train="a = 1\n"), explanation)
    draft.replaced_by(None)
    assert list(tmp_path.iterdir()) == []


def test_a_draft_that_cannot_be_written_is_given_up(explanation: Explanation, tmp_path: Path) -> None:
    draft = Draft(tmp_path / "missing" / "deeper" / "out.py")
    (tmp_path / "missing").write_text("a file")
    draft.keep(of_files(train="a = 1\n"), explanation)
    assert draft.problem is not None and draft.file is None


def test_a_folder_with_other_files_is_no_place_for_a_program_of_several(program: Program, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    several = replace(program, files=(*program.files, SourceFile.original("lib.py", "a = 1\n")))
    assert refusal(several, tmp_path / "out.py") is Exit.OUTPUT_EXISTS
