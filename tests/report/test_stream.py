from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from shrinkrepro.report.stream import enduring_output
with enduring_output():
    for number in range(20000):
        print("line", number)
    sys.stdout.flush()
open(sys.argv[1], "w").write("reached the end")
"""


def test_a_program_goes_on_when_nobody_reads_its_output(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "end")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    assert (process.wait(), said) == (0, b"")
    assert (tmp_path / "end").read_text() == "reached the end"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_still_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "end")]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, check=False, stdout=full, stderr=full)
    assert done.returncode != 0
    assert not (tmp_path / "end").exists()
