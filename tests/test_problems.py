from __future__ import annotations

from dataclasses import replace

import pytest

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.problems import failure_in
from shrinkrepro.program.source import Program
from shrinkrepro.runtime.messages import Frame, Report

PROGRAM = Program.of("import torch\n", "train.py")
LINE_3 = Frame("train.py", 3, "main")


def problem(report: Report, program: Program = PROGRAM) -> ShrinkReproError:
    with pytest.raises(ShrinkReproError) as raised:
        failure_in(report, program, 60)
    return raised.value


def raised(error_type: str, error: str) -> Report:
    return Report("raised", error_type=error_type, error=error, error_frame=LINE_3)


def test_a_run_that_failed_gives_its_failure() -> None:
    text = (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.FloatTensor [3]] is at version 9; expected version 6 instead."
    )
    assert failure_in(Report("failed", failure=text), PROGRAM, 60).version == 9


@pytest.mark.parametrize(
    ("report", "status", "words"),
    [
        (Report("finished"), Exit.NOT_REPRODUCED, ["train.py", "ran to its end", "--"]),
        (Report("timeout"), Exit.TIMEOUT, ["60 s", "--timeout"]),
        (Report("killed", error="killed by signal 9"), Exit.OTHER_ERROR, ["killed by signal 9"]),
        (Report("invalid", error="bad input"), Exit.SYNTAX, ["bad input"]),
        (Report("failed", failure="modified by an inplace operation!"), Exit.NOT_EXPLAINED, ["unknown way"]),
        (raised("ValueError", "first\nlast"), Exit.OTHER_ERROR, ["train.py:3", "ValueError: last"]),
        (raised("KeyboardInterrupt", ""), Exit.OTHER_ERROR, ["KeyboardInterrupt"]),
        (raised("SystemExit", "2"), Exit.OTHER_ERROR, ["train.py:3", "status 2", "--"]),
        (raised("ModuleNotFoundError", "No module named 'pandas'"), Exit.MISSING_MODULE, ["train.py:3", "'pandas'"]),
        (raised("AssertionError", "Torch not compiled with CUDA enabled"), Exit.NEEDS_GPU, ["train.py:3", "GPU"]),
        (raised("RuntimeError", "No CUDA GPUs are available"), Exit.NEEDS_GPU, ["GPU"]),
        (raised("KeyError", "'HF_TOKEN'"), Exit.OTHER_ERROR, ["train.py:3", "HF_TOKEN", "--env HF_TOKEN"]),
        (raised("KeyError", "'epochs'"), Exit.OTHER_ERROR, ["KeyError: 'epochs'"]),
        (
            raised("FileNotFoundError", "[Errno 2] No such file or directory: 'config.json'"),
            Exit.OTHER_ERROR,
            ["train.py:3", "No such file or directory: 'config.json'"],
        ),
        (raised("EOFError", "EOF when reading a line"), Exit.OTHER_ERROR, ["train.py:3", "standard input", "--stdin"]),
        (
            raised("DistNetworkError", "The server socket has failed to bind. message: permission denied"),
            Exit.OTHER_ERROR,
            ["--allow-network"],
        ),
        (raised("PermissionError", "[Errno 13] Permission denied: '/x'"), Exit.OTHER_ERROR, ["scratch folder"]),
    ],
)
def test_each_other_end_has_its_own_status_and_says_why(report: Report, status: Exit, words: list[str]) -> None:
    found = problem(report)
    assert found.exit is status
    assert [word for word in words if word not in str(found)] == []


def test_every_problem_is_one_sentence_on_one_line() -> None:
    assert "\n" not in str(problem(raised("ValueError", "first\nlast")))


def test_arguments_are_not_suggested_to_those_who_gave_some() -> None:
    program = replace(PROGRAM, invocation=replace(PROGRAM.invocation, argv=("--fast",)))
    assert "--" not in str(problem(Report("finished"), program))
