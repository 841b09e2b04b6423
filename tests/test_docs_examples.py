from __future__ import annotations

from pathlib import Path

import examples
import pytest

PAGE = (
    "Text.\n\n```console\n$ shrinkrepro explain train.py\nsaved at line 3 (0.8 s)\n```\n\n```sh\n$ rm everything\n```\n"
)


@pytest.mark.parametrize(
    ("monday", "tuesday"),
    [
        ("reduced in 12.4 s", "reduced in 9 s"),
        ("first run: 812 ms", "first run: 1,204 ms"),
        ("elapsed 0:01:07", "elapsed 0:00:59"),
        ("1,204 candidates, 93/s", "987 candidates, 101.5/s"),
        ("candidates: 31  cached 4", "candidates: 7  cached 11"),
        ("PyTorch 2.13.0+cpu, Python 3.11.7", "PyTorch 2.13.0+cu126, Python 3.12.1"),
        ("12 s      left", "9 s  left"),
        ("a line   \n", "a line"),
    ],
)
def test_two_good_runs_normalise_to_the_same_text(monday: str, tuesday: str) -> None:
    assert examples.normalise(monday) == examples.normalise(tuesday)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("changed at train.py:82", "changed at train.py:83"),
        ("changed at train.py:82:12", "changed at train.py:83:12"),
        ("is at version 1; expected version 0", "is at version 2; expected version 0"),
        ("torch.FloatTensor [16, 24, 8, 8]", "torch.FloatTensor [16, 24, 8, 9]"),
        ("155 lines became 4 statements", "155 lines became 5 statements"),
        ("    x += 1", "    x += 2"),
        ("PyTorch 2.13.0+cpu", "PyTorch 2.12.0+cpu"),
    ],
)
def test_a_different_finding_stays_different(right: str, wrong: str) -> None:
    assert examples.normalise(right) != examples.normalise(wrong)


def test_tidied_output_shows_no_colours_and_no_paths_of_this_machine(tmp_path: Path) -> None:
    printed = (
        f"\x1b[1mwrote\x1b[0m {tmp_path}/out/repro.py  \nin /opt/py/lib/python3.11/site-packages/torch/optim/sgd.py\n"
    )
    assert examples.tidy(printed, tmp_path) == "wrote out/repro.py\nin site-packages/torch/optim/sgd.py"


def test_a_page_that_tells_the_truth_is_left_as_it_is() -> None:
    assert examples.render(PAGE, lambda command: "saved at line 3 (1.1 s)") == PAGE


def test_a_page_that_is_wrong_gets_what_the_command_prints() -> None:
    assert examples.render(PAGE, lambda command: "saved at line 4 (1.1 s)") == PAGE.replace("3 (0.8 s)", "4 (1.1 s)")


def test_only_console_blocks_are_run_and_in_order() -> None:
    page = "```console\n$ first\n$ second\n```\n```sh\n$ never\n```\n```console\n$ third\n```\n"
    commands: list[str] = []

    def run(command: str) -> str:
        commands.append(command)
        return ""

    examples.render(page, run)
    assert commands == ["first", "second", "third"]


def test_a_block_in_a_list_keeps_its_indentation() -> None:
    page = "- item\n\n  ```console\n  $ show\n  old\n  ```\n"
    assert examples.render(page, lambda command: "new\n  deeper") == page.replace("  old\n", "  new\n    deeper\n")


def test_a_block_without_a_command_is_an_error() -> None:
    with pytest.raises(examples.ExampleError, match="must start with a command"):
        examples.render("```console\noutput of nothing\n```\n", lambda command: "")


def test_a_block_that_is_never_closed_is_an_error() -> None:
    with pytest.raises(examples.ExampleError, match="not closed"):
        examples.render("```console\n$ show\n", lambda command: "")


def test_a_command_shows_both_of_its_streams_and_may_fail(tmp_path: Path) -> None:
    assert examples.run_command("echo out; echo problem >&2; exit 3", tmp_path, 30) == "out\nproblem"


def test_a_command_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(examples.ExampleError, match="exit status 127"):
        examples.run_command("no-such-command-here", tmp_path, 30)


def test_a_command_that_takes_too_long_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(examples.ExampleError, match=r"longer than 0\.2 s"):
        examples.run_command("sleep 5; true", tmp_path, 0.2)


def page_about(tmp_path: Path, command: str, shown: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n$ {command}\n{shown}\n```\n", encoding="utf-8")
    return page


def test_checking_a_wrong_page_fails_and_shows_the_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = page_about(tmp_path, "echo new", "old")
    assert examples.main(["--check", str(page)]) == 1
    assert "-old\n+new\n" in capsys.readouterr().out


def test_checking_a_page_never_changes_it(tmp_path: Path) -> None:
    page = page_about(tmp_path, "echo new", "old")
    before = page.read_bytes()
    examples.main(["--check", str(page)])
    assert page.read_bytes() == before


def test_a_rewritten_page_passes_the_check(tmp_path: Path) -> None:
    page = page_about(tmp_path, "ls corpus/103-rmtree-cleanup", "(to be written)")
    assert examples.main(["--write", str(page)]) == 0
    assert examples.main(["--check", str(page)]) == 0


def test_a_page_whose_command_is_missing_has_its_own_exit_status(tmp_path: Path) -> None:
    page = page_about(tmp_path, "no-such-command-here", "")
    assert examples.main(["--write", str(page)]) == 2
