"""Throw-away layers over folders, as root and as somebody else, checked from inside a child process."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shrinkrepro.runtime import guard, layers
from shrinkrepro.runtime.system import control

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

NOBODY = 65534
PR_SET_DUMPABLE = 4


@pytest.mark.parametrize(
    ("folders", "mounted", "chosen"),
    [
        (["home", "tmp"], [], ["home", "tmp"]),
        (["home", "home/project"], [], ["home"]),
        (["home/project", "home"], [], ["home"]),
        (["home"], ["home/disk"], []),
        (["home"], ["home"], ["home"]),
        (["home", "home/project"], ["home/disk"], ["home/project"]),
        (["scratch/1", "tmp"], [], ["tmp"]),
        ([""], [], [""]),
        (["absent"], [], []),
        (["link"], [], ["home"]),
    ],
)
def test_outer_folders_that_are_whole_and_not_scratch_are_worth_a_layer(
    folders: list[str], mounted: list[str], chosen: list[str], tmp_path: Path
) -> None:
    for name in ("home/project", "home/disk", "tmp", "scratch/1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("home")

    found = layers.worth_a_layer(
        [str(tmp_path / name) for name in folders],
        str(tmp_path / "scratch"),
        [str(tmp_path / name) for name in mounted],
    )

    assert sorted(found) == [str(tmp_path / name) for name in chosen]


def test_mount_points_are_absolute_paths_without_the_root() -> None:
    points = layers.mount_points()
    assert "/proc" in points and "/" not in points


def code_of(action: Callable[[], object]) -> int:
    """Fork, call `action` in the child, and return 0 where that raises nothing, 9 where layers are not allowed."""
    child = os.fork()
    if child == 0:
        try:
            if not layers.own_mounts():
                os._exit(9)
            action()
        except BaseException:  # noqa: BLE001 - a forked child must not come back into pytest
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 9:
        pytest.skip("this system allows no layers")
    return code


def code_as(user: int, action: Callable[[], object], folder: Path) -> int:
    """Like `code_of`, with the rights of `user`, to whom `folder` and all below it are given."""
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    for above in (above for above in folder.parents if above.is_relative_to(tempfile.gettempdir())):
        above.chmod(above.stat().st_mode | 0o055)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
    child = os.fork()
    if child == 0:
        os.setgid(user)
        os.setuid(user)
        control(PR_SET_DUMPABLE, 1)
        os._exit(code_of(action))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


users = pytest.mark.parametrize("user", [0, NOBODY], ids=["root", "somebody else"])


@users
def test_what_is_written_over_a_folder_lands_in_the_layer(user: int, tmp_path: Path) -> None:
    home, place = tmp_path / "home: with, odd name", tmp_path / "place"
    for folder in (home, place):
        folder.mkdir()
    (home / "a.txt").write_text("precious")

    def write() -> None:
        assert layers.lay_over([str(home)], str(place), 1 << 20) == (str(home),)
        layers.give_up_mounting()
        assert (home / "a.txt").read_text() == "precious"
        (home / "a.txt").write_text("gone")
        (home / "new.txt").write_text("new")

    assert code_as(user, write, tmp_path) == 0
    assert [path.name for path in home.iterdir()] == ["a.txt"]
    assert (home / "a.txt").read_text() == "precious"
    assert list((place / "layers").iterdir()) == []


@users
def test_the_scratch_folder_stays_visible_where_a_layer_lies_over_it(user: int, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def write() -> None:
        assert layers.lay_over([str(tmp_path)], str(scratch), 1 << 20) == (str(tmp_path),)
        (tmp_path / "a.txt").write_text("gone")
        (scratch / "b.txt").write_text("kept")

    assert code_as(user, write, tmp_path) == 0
    assert sorted(path.name for path in tmp_path.rglob("*.txt")) == ["b.txt"]


def test_a_layer_holds_no_more_than_its_size(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "place").mkdir()

    def write() -> None:
        layers.lay_over([str(tmp_path / "home")], str(tmp_path / "place"), 1 << 20)
        with pytest.raises(OSError, match="No space"):
            (tmp_path / "home" / "a.txt").write_bytes(bytes(2 << 20))

    assert code_of(write) == 0


def test_a_folder_that_is_not_there_gets_no_layer(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()

    def try_it() -> None:
        assert layers.lay_over([str(tmp_path / "absent")], str(tmp_path / "place"), 1 << 20) == ()

    assert code_of(try_it) == 0


@users
def test_hidden_paths_are_empty(user: int, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "id").write_text("secret")
    (tmp_path / "file").write_text("secret")
    (tmp_path / "place").mkdir()

    def look() -> None:
        layers.hide([str(tmp_path / "keys"), str(tmp_path / "file")], str(tmp_path / "place"))
        assert list((tmp_path / "keys").iterdir()) == []
        assert (tmp_path / "file").read_text() == ""

    assert code_as(user, look, tmp_path) == 0


def test_who_is_not_root_cannot_mount_afterwards(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()

    def mount_again() -> None:
        layers.give_up_mounting()
        with pytest.raises(OSError, match="not permitted"):
            layers.hide([str(tmp_path)], str(tmp_path / "place"))

    assert code_as(NOBODY, mount_again, tmp_path) == 0


def test_who_dies_with_the_parent_still_does_with_mounts_of_its_own(tmp_path: Path) -> None:
    reader, writer = os.pipe()

    def leave_a_child() -> None:
        me = os.getpid()
        if os.fork() == 0:
            guard.die_with_parent(signal.SIGKILL, parent=me)
            os.write(writer, b"1" if layers.own_mounts() else b"0")
            time.sleep(20)
            os._exit(0)
        os.read(reader, 1)

    assert code_as(NOBODY, leave_a_child, tmp_path) == 0
    os.close(writer)
    started = time.monotonic()
    assert os.read(reader, 1) == b""  # the pipe ends when the last process that holds it has
    assert time.monotonic() - started < 10
    os.close(reader)
