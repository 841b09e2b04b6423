"""kill -9 at any moment: no process stays, no file of the user has changed, nothing is left in the temporary folder."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sandbox import Sandbox, snapshot, within

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc"),
]

CASE = "005-resnet-residual-iadd"
MOMENTS = random.Random(768).sample(range(100), 20)
# Seconds; a longer reduction is killed within these.
LONGEST = 20.0


def start(sandbox: Sandbox) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        sandbox.command("train.py"),
        env=sandbox.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def duration(tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long the whole reduction takes, or LONGEST."""
    sandbox = Sandbox.of(CASE, tmp_path_factory.mktemp("whole"))
    started = time.monotonic()
    process = start(sandbox)
    try:
        process.wait(LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return time.monotonic() - started


@pytest.mark.parametrize("percent", MOMENTS)
def test_a_killed_reduction_leaves_nothing_behind(tmp_path: Path, duration: float, percent: float) -> None:
    sandbox = Sandbox.of(CASE, tmp_path)
    before = snapshot(sandbox.case)
    process = start(sandbox)
    time.sleep(0.2 + (duration - 0.2) * percent / 100)
    process.kill()
    process.wait()
    assert within(5, lambda: not sandbox.processes()), "a process goes on"
    assert snapshot(sandbox.case) == before
    assert list(sandbox.scratch.iterdir()) == []
