"""The labels of every corpus case agree with its files. Reads the folders only; the slow tests run programs."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corpus.cases import CORPUS, cases, labels, program
from corpus.generate.shared import Shared
from shrinkrepro.pipeline import Options, explain

CASES = cases()

NOT_THE_PROGRAM = {"case.toml", "golden.py", "fix.patch", "fix-only-1.patch", "fix-only-2.patch"}
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
OPTIONAL_FIELDS = {
    "module",
    "environment",
    "stdin",
    "network",
    "expect.note",
    "expect.culprit_end_line",
    "expect.culprit_cell",
    "expect.saved_cell",
    "expect.anomaly_cell",
    "expect.also_culprit",
    "expect.also_culprit.file",
    "expect.also_culprit.line",
    "expect.also_culprit.source",
}
ERROR = re.compile(
    r"modified by an inplace operation: \[(?P<type>\S+) \[(?P<shape>[\d, ]*)\]\]"
    r"(?:, which is output \d+ of (?P<operator>[\w:]+?)(?:Backward\d*)?,)? is at version (?P<version>\d+)"
)

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def fields(table: Any, prefix: str = "") -> set[str]:
    """The dotted names of all fields of a table, those of tables inside it included."""
    if isinstance(table, list):
        return set().union(*(fields(item, prefix) for item in table))
    if not isinstance(table, dict):
        return set()
    names = {f"{prefix}{name}" for name, value in table.items() if prefix or not isinstance(value, dict)}
    return names.union(*(fields(value, f"{prefix}{name}.") for name, value in table.items()))


def every_field(case: Path) -> set[str]:
    told = labels(case)
    return fields(told) | {name for name, value in told.items() if not isinstance(value, dict)}


def code_cells(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def line_at(case: Path, file: str, line: int, cell: int | None) -> str:
    path = case / file
    text = path.read_text(encoding="utf-8") if cell is None else code_cells(path)[cell - 1]
    return text.splitlines()[line - 1].strip()


def program_files(case: Path) -> list[Path]:
    own = (path for path in case.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [path for path in own if path.name not in NOT_THE_PROGRAM]


def count_lines(path: Path) -> int:
    texts = code_cells(path) if path.suffix == ".ipynb" else [path.read_text(encoding="utf-8")]
    return sum(len(text.splitlines()) for text in texts)


def count_statements(source: str) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(source)))


def count_tokens(source: str) -> int:
    return sum(token.type not in LAYOUT for token in tokenize.generate_tokens(io.StringIO(source).readline))


def hunks(patch: str) -> list[tuple[str, int, list[str]]]:
    """(file, first line, lines that must stand there) of every hunk of a unified diff."""
    found: list[tuple[str, int, list[str]]] = []
    file = ""
    for line in patch.splitlines():
        if line.startswith("--- "):
            file = line.removeprefix("--- a/")
        elif start := re.match(r"@@ -(\d+)", line):
            found.append((file, int(start[1]), []))
        elif line.startswith((" ", "-")):
            found[-1][2].append(line[1:])
    return found


def run_python(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )


def test_the_corpus_is_there() -> None:
    assert len(CASES) >= 45


@each_case
def test_a_case_has_the_documented_fields_and_no_others(case: Path) -> None:
    required = every_field(CORPUS / "005-resnet-residual-iadd")
    assert required <= every_field(case) <= required | OPTIONAL_FIELDS


def test_every_field_is_explained_in_the_readme() -> None:
    readme = (CORPUS / "README.md").read_text(encoding="utf-8")
    named = {name.rpartition(".")[2] for case in CASES for name in every_field(case)}
    assert sorted(name for name in named if f"`{name}`" not in readme) == []


@each_case
def test_a_case_has_all_its_files(case: Path) -> None:
    truth = labels(case)
    named = [truth["entry"], truth["golden"]["file"], truth["expect"]["fix_patch"], truth.get("stdin", "case.toml")]
    assert [name for name in named if not (case / name).is_file()] == []


@each_case
@pytest.mark.parametrize("role", ["culprit", "saved"])
def test_a_labelled_line_reads_as_labelled(case: Path, role: str) -> None:
    expect = labels(case)["expect"]
    line = line_at(case, expect[f"{role}_file"], expect[f"{role}_line"], expect.get(f"{role}_cell"))
    assert line == expect[f"{role}_source"]


@each_case
def test_the_line_that_anomaly_mode_reports_exists(case: Path) -> None:
    expect = labels(case)["expect"]
    assert line_at(case, expect["anomaly_file"], expect["anomaly_line"], expect.get("anomaly_cell"))


@each_case
def test_further_culprits_read_as_labelled(case: Path) -> None:
    further = labels(case)["expect"].get("also_culprit", [])
    found = [line_at(case, culprit["file"], culprit["line"], None) for culprit in further]
    assert found == [culprit["source"] for culprit in further]


@each_case
def test_the_culprit_came_after_the_tensor_was_saved(case: Path) -> None:
    expect = labels(case)["expect"]
    assert expect["version"] > expect["expected_version"]
    assert expect.get("culprit_end_line", expect["culprit_line"]) >= expect["culprit_line"]


@each_case
def test_both_names_of_the_operator_agree(case: Path) -> None:
    expect = labels(case)["expect"]
    printed = re.sub(r"Backward(\d*)$", lambda match: match[1].lstrip("0"), expect["error_op"])
    assert printed == expect["error_op_printed"]


@each_case
def test_only_a_swallowed_error_leaves_exit_status_zero(case: Path) -> None:
    expect = labels(case)["expect"]
    assert expect["swallowed"] == (expect["exit_code"] == 0)


@each_case
def test_the_size_is_that_of_the_program(case: Path) -> None:
    size, files = labels(case)["size"], program_files(case)
    assert (len(files), sum(count_lines(path) for path in files)) == (size["files"], size["lines"])


@each_case
def test_the_golden_program_has_the_stated_size(case: Path) -> None:
    golden = labels(case)["golden"]
    source = (case / golden["file"]).read_text(encoding="utf-8")
    assert (count_statements(source), count_tokens(source)) == (golden["golden_statements"], golden["golden_tokens"])


@each_case
def test_every_patch_fits_the_program(case: Path) -> None:
    for patch in sorted(case.glob("*.patch")):
        for file, first, expected in hunks(patch.read_text(encoding="utf-8")):
            present = (case / file).read_text(encoding="utf-8").splitlines()[first - 1 : first - 1 + len(expected)]
            assert present == expected, f"{patch.name}, {file}:{first}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["005-resnet-residual-iadd", "102-class-weights-in-a-loop"])
def test_a_golden_program_fails_at_the_labelled_operator(name: str, tmp_path: Path) -> None:
    expect = labels(CORPUS / name)["expect"]
    done = run_python(str(CORPUS / name / "golden.py"), tmp_path)
    error = ERROR.search(done.stderr)
    assert error is not None, done.stderr
    operator = re.sub(r"Backward\d*$", "", expect["error_op"]) or None
    assert (error["type"], error["operator"]) == (expect["tensor_type"], operator)


@pytest.mark.slow
def test_a_script_that_clears_computed_paths_leaves_its_folder_as_it_was(tmp_path: Path) -> None:
    case = CORPUS / "103-rmtree-cleanup"
    shutil.copy(case / "crossval.py", tmp_path)
    (tmp_path / "canary.txt").write_text("alive", encoding="utf-8")
    done = run_python("crossval.py", tmp_path)
    assert ERROR.search(done.stderr), done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["canary.txt", "crossval.py"]


@pytest.fixture(scope="module")
def backend() -> Iterator[Shared]:
    with Shared() as shared:
        yield shared


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if "205" <= case.name < "212"], ids=lambda case: case.name)
def test_however_a_program_is_run_its_culprit_is_named(case: Path, backend: Shared) -> None:
    expect = labels(case)["expect"]
    found = explain(program(case), Options(timeout=120, jobs=1), start=backend).diagnosis
    assert found.culprit is not None
    assert found.saved is not None
    assert (found.culprit.file, found.culprit.line) == (expect["culprit_file"], expect["culprit_line"])
    assert (found.saved.file, found.saved.line) == (expect["saved_file"], expect["saved_line"])
    assert (found.node, found.attribute) == (expect["failing_node"], expect["failing_attr"])
