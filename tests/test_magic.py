"""The cell magic in a real IPython shell, where that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

FAILS = """\
import torch
x = torch.ones(1, requires_grad=True)
y = x.exp()
y += 1
y.backward()
"""


@pytest.fixture
def shell() -> Iterator[Any]:
    started = InteractiveShell()
    started.run_line_magic("load_ext", "shrinkrepro")
    yield started
    started.reset()


def printed(shell: Any, cell: str) -> str:
    with capture_output() as captured:
        shell.run_cell(cell)
    text: str = captured.stdout + captured.stderr
    return text


def test_a_cell_that_fails_is_explained_below_its_traceback(shell: Any) -> None:
    text = printed(shell, "%%shrinkrepro\n" + FAILS)
    told = text[text.index("shrinkrepro: the tensor was") :]
    assert [line.split()[0] for line in told.splitlines()[1:4]] == ["saved", "changed", "needed"]
    assert "y += 1" in told


def test_a_cell_without_the_magic_is_left_alone(shell: Any) -> None:
    assert "shrinkrepro" not in printed(shell, FAILS)


def test_names_that_a_cell_binds_are_there_in_the_next(shell: Any) -> None:
    printed(shell, "%%shrinkrepro\na = 7\n")
    assert shell.user_ns["a"] == 7
