"""The comparison with other reducers counts, resumes and sums up rightly; that needs no reducer and no torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peers
from benchmarks.peers import OURS, PEERS, Peer, Row

ROW = Row(
    case="001-a",
    tool=OURS,
    cap=60,
    plain=2.0,
    seconds=10.0,
    capped=False,
    tests=100,
    before=500,
    tokens=40,
    culprit="same",
    load=1.0,
)
TOLD = {"entry": "train.py", "args": ["--steps", "3"]}
# stands in for an interpreter: what it is given fails where the word "bad" is left
PYTHON = """\
#!/bin/sh
test "$2 $3" = "--steps 3" || exit 1
grep -q bad "$1" && echo "RuntimeError: ... has been modified by an inplace operation: ..." >&2
"""
# a reducer that drops each line in turn, from the last, and then waits as long as it is told to
REDUCER = """\
import subprocess, sys, time
from pathlib import Path
test, path, wait = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
lines = path.read_text().splitlines(True)
for index in reversed(range(len(lines))):
    shorter = lines[:index] + lines[index + 1 :]
    path.write_text("".join(shorter))
    if subprocess.run([test, path]).returncode == 0:
        lines = shorter
path.write_text("")
time.sleep(wait)
path.write_text("".join(lines))
"""

needs_commands = pytest.mark.skipif(
    not (shutil.which("timeout") and shutil.which("pkill")), reason="needs timeout and pkill"
)


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def case(tmp_path: Path) -> Path:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "train.py").write_text("one = 1\nbad = 2\nthree = 3\n", encoding="utf-8")
    (folder / "case.toml").write_text("", encoding="utf-8")
    return folder


def reducer(wait: float) -> Peer:
    return Peer(
        "drop",
        lambda found, test, candidate: [found, "reducer.py", test, candidate, str(wait)],
        files=(("reducer.py", REDUCER),),
    )


@needs_commands
def test_a_reducer_is_timed_and_its_tests_are_counted(case: Path, tmp_path: Path) -> None:
    python = str(executable(tmp_path / "python", PYTHON))
    ended = peers.theirs(reducer(0), sys.executable, case, TOLD, python, 60, 1.0)
    assert (ended.text, ended.tests, ended.capped) == ("bad = 2\n", 3, False)
    assert 0 < ended.seconds < 60


@needs_commands
def test_a_reducer_that_is_stopped_counts_with_its_smallest_candidate_and_the_cap(case: Path, tmp_path: Path) -> None:
    python = str(executable(tmp_path / "python", PYTHON))
    ended = peers.theirs(reducer(600), sys.executable, case, TOLD, python, 5.0, 1.0)
    assert ended == peers.Ended(seconds=5.0, capped=True, tests=3, text="bad = 2\n")


@needs_commands
def test_a_reducer_that_never_saw_the_failure_has_no_result(case: Path, tmp_path: Path) -> None:
    python = str(executable(tmp_path / "python", "#!/bin/sh\nexit 1\n"))
    ended = peers.theirs(reducer(600), sys.executable, case, TOLD, python, 3.0, 1.0)
    assert ended.capped
    assert ended.text is None


@needs_commands
def test_the_test_of_a_candidate_takes_a_path_or_looks_in_its_folder(tmp_path: Path) -> None:
    python = str(executable(tmp_path / "python", PYTHON))
    script = peers.interesting(tmp_path, python, ["--steps", "3"], 5)
    (tmp_path / "good.py").write_text("fine = 1\n")
    (tmp_path / "candidate.py").write_text("bad = 1\n")
    run = [subprocess.run([script, *given], cwd=tmp_path, check=False).returncode for given in ([], ["good.py"])]
    assert run == [0, 1]
    assert peers.calls(tmp_path) == 2
    assert peers.smallest_held(tmp_path) == "bad = 1\n"


def test_no_calls_and_nothing_held_at_first(tmp_path: Path) -> None:
    peers.interesting(tmp_path, "python", [], 5)
    assert peers.calls(tmp_path) == 0
    assert peers.smallest_held(tmp_path) is None


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    lithium = executable(tmp_path / "bin" / "lithium", "")
    found, absent = peers.installed(["picire", "lithium", "cvise"], [tmp_path])
    assert found == {"lithium": str(lithium)}
    assert absent == ["picire", "cvise"]


def test_the_driver_runs_in_the_environment_of_the_command_that_was_found() -> None:
    found = Path("env", "bin", "pysource-minimize")
    command = PEERS["pysource-minimize"].start(str(found), "test", "candidate.py")
    assert command[0] == str(found.with_name("python"))


@pytest.mark.parametrize(
    ("told", "beside", "taken"),
    [
        ({}, [], True),
        ({}, ["golden.py", "fix.patch", "fix-only-1.patch"], True),
        ({}, ["data.json"], False),
        ({"module": "train"}, [], False),
        ({"entry": "train.ipynb"}, [], False),
        ({"features": ["swallowed"]}, [], True),
        ({"features": ["writes-and-deletes-files"]}, [], False),
    ],
)
def test_only_cases_of_one_file_are_taken(case: Path, told: dict[str, Any], beside: list[str], taken: bool) -> None:
    for name in beside:
        (case / name).write_text("", encoding="utf-8")
    if "entry" in told:
        (case / "train.py").rename(case / told["entry"])
    assert peers.suitable(case, {"entry": "train.py", **told}) is taken


def test_a_culprit_is_the_same_other_or_nothing() -> None:
    document = {
        "failure": {"node": "SigmoidBackward0", "attribute": "_saved_result"},
        "culprit": {"operator": "add_"},
    }
    original = peers.suspect(document)
    assert original == ("SigmoidBackward0", "_saved_result", "add_")
    assert peers.verdict(original, original) == "same"
    other = ("SigmoidBackward0", "_saved_result", "mul_")
    assert peers.verdict(original, other) == "other: SigmoidBackward0._saved_result by mul_"
    assert peers.verdict(original, (None, None, "")) == "other: hidden.hidden by no call"
    assert peers.verdict(original, peers.suspect({"schema": 1, "status": "no-failure", "error": "…"})) == "nothing"


def test_rows_come_back_from_the_file_and_are_measured_anew_only_with_another_cap(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    assert peers.known(out) == []
    peers.save(out, [ROW, replace(ROW, tool="lithium", tokens=None)])
    rows = peers.known(out)
    assert rows == [ROW, replace(ROW, tool="lithium", tokens=None)]
    wanted = [("001-a", OURS), ("001-a", "picire"), ("002-b", OURS)]
    assert peers.missing(wanted, rows, 60) == wanted[1:]
    assert peers.missing(wanted, rows, 90) == wanted


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def measured(case: Path, tool: str, found: str, python: str, cap: float) -> Row:
        asked.append((case.name[:3], tool))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return replace(ROW, case=case.name, tool=tool, cap=cap)

    monkeypatch.setattr(peers, "measured", measured)
    command = ["--only", "011", "013", "--tools", OURS, "--out", str(tmp_path / "rows.json")]
    with pytest.raises(KeyboardInterrupt):
        peers.main(command)
    peers.main(command)
    assert asked == [("011", OURS), ("013", OURS), ("013", OURS)]
    assert len(peers.known(tmp_path / "rows.json")) == 2


def test_a_run_skips_and_names_what_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    peers.main(["--only", "011", "--tools", "lithium", "picire"])
    assert capsys.readouterr().out.startswith("lithium: not installed, skipped\npicire: not installed, skipped\n")


def test_the_fastest_of_those_whose_result_is_not_smaller_counts() -> None:
    rows = [
        ROW,
        replace(ROW, tool="lithium", seconds=400, tokens=40),
        replace(ROW, tool="picire", seconds=300, tokens=39),
        replace(ROW, tool="cvise", seconds=200, tokens=None),
        replace(ROW, tool="shrinkray", seconds=1200, tokens=90, capped=True),
        replace(ROW, case="002-b", seconds=20),
        replace(ROW, case="002-b", tool="shrinkray", seconds=1200, tokens=90, capped=True),
        replace(ROW, case="003-c"),
        replace(ROW, case="003-c", tool="picire", tokens=12),
        replace(ROW, case="004-d", tokens=None),
    ][::-1]
    compared = [(own.case, other and other.tool) for own, other in peers.ratios(rows)]
    assert compared == [("001-a", "lithium"), ("002-b", "shrinkray"), ("003-c", None)]
    assert peers.summary(rows).splitlines() == [
        "001-a: 40.0 times as fast as lithium, 40 tokens against 40",
        "002-b: more than 60.0 times as fast as shrinkray, 40 tokens against 90",
        "003-c: nothing to compare with",
        "median of 2: 50.0 times as fast (those stopped at the cap count with the cap)",
    ]


def test_the_table_shows_the_cap_and_what_has_no_result() -> None:
    rows = [replace(ROW, tool="cvise", cap=1200, capped=True, tokens=None, culprit="nothing"), ROW]
    assert peers.table(rows).splitlines()[2:] == [
        "| 001-a | shrinkrepro | 10.0 s | 100 | 500 → 40 | same | 2.0 s | 1.0 |",
        "| 001-a | cvise | > 1200 s | 100 | 500 → none | nothing | 2.0 s | 1.0 |",
    ]
