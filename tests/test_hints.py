from __future__ import annotations

import pytest

from shrinkrepro.hints import hints
from shrinkrepro.program.source import Program


def test_an_assignment_to_anomaly_mode_is_told_with_its_line() -> None:
    (hint,) = hints(Program.of("import torch\ntorch.autograd.set_detect_anomaly = True\n"))
    assert hint.startswith("program.py:2 replaces set_detect_anomaly instead of calling it")


@pytest.mark.parametrize("text", ["torch.autograd.set_detect_anomaly(True)\n", "set_detect_anomaly = f\n", "x.y = 1\n"])
def test_nothing_is_said_otherwise(text: str) -> None:
    assert list(hints(Program.of(text))) == []
