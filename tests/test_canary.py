"""A program that deletes a folder by a computed path is reduced, and the folder beside it stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from sandbox import Sandbox, snapshot

pytestmark = pytest.mark.slow

CASE = "103-rmtree-cleanup"


def plant(folder: Path) -> None:
    """Make a tree with what a careless `rmtree` or `chmod` would change: nested files, modes, links, old times."""
    (folder / "deep" / "deeper").mkdir(parents=True)
    for name, mode in (("a.txt", 0o644), ("deep/b.txt", 0o444), ("deep/deeper/run.sh", 0o755)):
        (folder / name).write_text(f"canary {name}")
        (folder / name).chmod(mode)
    (folder / "link").symlink_to("deep")
    os.utime(folder / "a.txt", (1, 1))
    (folder / "deep").chmod(0o700)


def test_nothing_outside_the_scratch_folder_changes(tmp_path: Path) -> None:
    sandbox = Sandbox.of(CASE, tmp_path)
    folders = (sandbox.case / "canary", tmp_path / "beside", tmp_path / "home")
    for folder in folders:
        folder.mkdir()
        plant(folder)
    before = [snapshot(sandbox.case), *map(snapshot, folders)]
    (script,) = (path.name for path in sandbox.case.glob("*.py") if path.name != "golden.py")
    done = subprocess.run(
        sandbox.command(script, "--json"),
        env={**sandbox.environment(), "HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["reduced"]["fresh_failures"] == report["reduced"]["fresh_runs"] > 0
    assert [snapshot(sandbox.case), *map(snapshot, folders)] == before
    assert list(sandbox.scratch.iterdir()) == []
