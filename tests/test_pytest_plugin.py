"""The option --shrinkrepro of pytest, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEST = """\
import torch

def test_step():
    h = torch.ones(2, requires_grad=True).exp()
    h += 1
    h.sum().backward()
"""


def output_of(folder: Path, *options: str) -> str:
    (folder / "test_it.py").write_text(TEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "shrinkrepro.pytest_plugin", *options, "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    ).stdout


@pytest.mark.slow
def test_a_test_that_fails_with_the_error_is_explained(tmp_path: Path) -> None:
    assert "changed  test_it.py:5 in test_step: h += 1  <- the culprit" in output_of(tmp_path, "--shrinkrepro")


@pytest.mark.slow
def test_nothing_is_watched_without_the_option(tmp_path: Path) -> None:
    output = output_of(tmp_path)
    assert "1 failed" in output
    assert "culprit" not in output
