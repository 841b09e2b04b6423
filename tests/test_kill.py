"""kill -9 at any moment: no process stays, no file of the user has changed, nothing is left in the temporary folder.

And what was found is not lost: `--resume` ends where an undisturbed run does.
"""

from __future__ import annotations

import json
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
    assert within(15, lambda: not sandbox.processes()), "a process goes on"
    assert snapshot(sandbox.case) == before
    assert list(sandbox.scratch.iterdir()) == []


def reduced(sandbox: Sandbox, *options: str) -> str:
    """The smallest program that a run to the end finds."""
    done = subprocess.run(
        sandbox.command("train.py", "--json", *options), env=sandbox.environment(), capture_output=True, check=True
    )
    source: str = json.loads(done.stdout)["reduced"]["source"]
    return source


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """What an undisturbed run finds, and in how many seconds."""
    started = time.monotonic()
    found = reduced(Sandbox.of(CASE, tmp_path_factory.mktemp("undisturbed")))
    return found, time.monotonic() - started


@pytest.mark.parametrize("percent", [40, 70])
def test_a_killed_reduction_can_be_taken_up_again(
    tmp_path: Path, undisturbed: tuple[str, float], percent: float
) -> None:
    expected, seconds = undisturbed
    sandbox = Sandbox.of(CASE, tmp_path)
    process = start(sandbox)
    time.sleep(seconds * percent / 100)
    process.kill()
    process.wait()
    assert reduced(sandbox, "--resume") == expected
