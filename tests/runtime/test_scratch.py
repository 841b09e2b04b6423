"""What a run sees of the user's folder, and how the scratch folder goes away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shrinkrepro.runtime import guard
from shrinkrepro.runtime.messages import Limits
from shrinkrepro.runtime.scratch import build_view, make_own, open_up, remove_tree

pytestmark = pytest.mark.skipif(os.rename not in os.supports_dir_fd, reason="links and folder descriptors are POSIX")

NOBODY = 65534


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def write(path: Path, text: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def is_link(path: Path, to: Path) -> bool:
    return path.is_symlink() and path.readlink() == to


# ---- the view --------------------------------------------------------------------------------------------------


def test_files_are_shown_as_links_at_every_depth(source: Path, target: Path) -> None:
    top, deep = write(source / "a.txt"), write(source / "data" / "train" / "b.txt")

    build_view(str(source), str(target))

    assert is_link(target / "a.txt", to=top)
    assert is_link(target / "data" / "train" / "b.txt", to=deep)


def test_new_files_in_a_mirrored_folder_do_not_reach_the_source(source: Path, target: Path) -> None:
    write(source / "data" / "b.txt")
    build_view(str(source), str(target))

    write(target / "data" / "new.txt")

    assert names(source / "data") == {"b.txt"}


def test_an_empty_folder_is_a_real_folder(source: Path, target: Path) -> None:
    (source / "runs").mkdir()

    build_view(str(source), str(target))

    assert (target / "runs").is_dir()
    assert not (target / "runs").is_symlink()


def test_a_hidden_folder_is_linked_as_a_whole(source: Path, target: Path) -> None:
    write(source / ".git" / "HEAD")

    build_view(str(source), str(target))

    assert is_link(target / ".git", to=source / ".git")


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta"])
def test_an_environment_is_linked_as_a_whole(mark: str, source: Path, target: Path) -> None:
    write(source / "env" / mark)

    build_view(str(source), str(target))

    assert is_link(target / "env", to=source / "env")


def test_links_are_not_followed_even_in_a_loop(source: Path, target: Path) -> None:
    (source / "sub").mkdir()
    (source / "sub" / "up").symlink_to("..")

    build_view(str(source), str(target))

    assert is_link(target / "sub" / "up", to=source / "sub" / "up")


def test_a_relative_link_still_leads_where_it_led(source: Path, target: Path) -> None:
    write(source.parent / "beside.txt", "beside")
    (source / "near.txt").symlink_to("../beside.txt")

    build_view(str(source), str(target))

    assert (target / "near.txt").read_text() == "beside"


def test_a_broken_link_does_not_stop_the_view(source: Path, target: Path) -> None:
    (source / "broken").symlink_to("nowhere")

    build_view(str(source), str(target))

    assert is_link(target / "broken", to=source / "broken")


def test_a_folder_that_is_opened_up_is_real_and_shows_the_same(source: Path, target: Path) -> None:
    nets = write(source / ".pkg" / "deep" / "nets.py", "x = 1")
    build_view(str(source), str(target))

    assert open_up(str(target), ".pkg/deep/new") == str(target / ".pkg" / "deep" / "new")

    assert is_link(target / ".pkg" / "deep" / "nets.py", to=nets)
    assert not any((target / place).is_symlink() for place in (".pkg", ".pkg/deep", ".pkg/deep/new"))
    assert names(source / ".pkg" / "deep") == {"nets.py"}


def test_a_folder_that_would_pass_the_bound_is_linked_as_a_whole(source: Path, target: Path) -> None:
    for number in range(6):
        write(source / "big" / f"{number}.txt")
    small = write(source / "small" / "a.txt")

    build_view(str(source), str(target), most=5)

    assert is_link(target / "big", to=source / "big")
    assert is_link(target / "small" / "a.txt", to=small)


def test_upper_folders_are_mirrored_before_deeper_ones(source: Path, target: Path) -> None:
    for name in ("a/deep/1.txt", "a/deep/2.txt", "b/3.txt"):
        write(source / name)

    build_view(str(source), str(target), most=5)

    assert is_link(target / "a" / "deep", to=source / "a" / "deep")
    assert is_link(target / "b" / "3.txt", to=source / "b" / "3.txt")


def test_the_top_folder_is_shown_in_full_whatever_the_bound(source: Path, target: Path) -> None:
    for number in range(10):
        write(source / f"{number}.txt")

    build_view(str(source), str(target), most=3)

    assert names(target) == names(source)


def test_a_target_inside_the_source_is_left_out(source: Path) -> None:
    write(source / "a.txt")
    inside = source / "tmp" / "scratch"
    inside.mkdir(parents=True)

    build_view(str(source), str(inside))

    assert sorted(path.relative_to(inside).as_posix() for path in inside.rglob("*")) == ["a.txt", "tmp"]


def test_a_source_that_is_not_there_is_an_error(source: Path, target: Path) -> None:
    with pytest.raises(FileNotFoundError):
        build_view(str(source / "absent"), str(target))


@pytest.mark.parametrize("landlock", [True, False])
def test_writing_through_a_link_reaches_a_copy_under_the_guard(landlock: bool, source: Path, target: Path) -> None:
    mine = write(source / "data" / "a.txt", "precious")
    build_view(str(source), str(target))

    child = os.fork()
    if child == 0:
        guard.restrict(str(target), Limits(), landlock=landlock)
        (target / "data" / "a.txt").write_text("gone")
        os._exit(13)
    status = os.waitpid(child, 0)[1]

    assert (os.waitstatus_to_exitcode(status), mine.read_text()) == (13, "precious")
    assert (target / "data" / "a.txt").read_text() == "gone"


# ---- copies ----------------------------------------------------------------------------------------------------


def own(target: Path, path: str, largest: int = 100) -> None:
    make_own(str(target), str(target / path), lambda place: place.startswith(str(target)), largest)


def test_links_on_the_way_to_a_file_become_folders_of_links_and_the_file_a_copy(source: Path, target: Path) -> None:
    mine, other = write(source / "deep" / "er" / "a.txt", "precious"), write(source / "deep" / "b.txt")
    (target / "deep").symlink_to(source / "deep")

    own(target, "deep/er/a.txt")

    copy = target / "deep" / "er" / "a.txt"
    assert (copy.is_symlink(), copy.read_text(), copy.stat().st_mtime) == (False, "precious", mine.stat().st_mtime)
    assert (target / "deep" / "b.txt").readlink() == other


def test_a_copy_can_be_written_where_the_file_cannot(source: Path, target: Path) -> None:
    write(source / "a.txt").chmod(0o444)
    (target / "a.txt").symlink_to(source / "a.txt")

    own(target, "a.txt")

    assert (target / "a.txt").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("shown", ["large.bin", "absent", "pipe"])
def test_links_to_what_cannot_be_copied_stay(shown: str, source: Path, target: Path) -> None:
    write(source / "large.bin", "x" * 101)
    os.mkfifo(source / "pipe")
    (target / "link").symlink_to(source / shown)

    own(target, "link")

    assert (target / "link").readlink() == source / shown


def test_links_within_the_view_stay_links(source: Path, target: Path) -> None:
    write(target / "here" / "a.txt", "mine")
    (target / "link").symlink_to("here")

    own(target, "link/a.txt")

    assert ((target / "link").is_symlink(), (target / "here" / "a.txt").read_text()) == (True, "mine")


# ---- removal ---------------------------------------------------------------------------------------------------


def test_a_view_is_removed_and_the_source_stays(source: Path, target: Path) -> None:
    mine = write(source / "data" / "a.txt", "precious")
    (source / "linked").symlink_to("data")
    build_view(str(source), str(target))

    remove_tree(str(target))

    assert (target.exists(), mine.read_text()) == (False, "precious")


def test_a_link_to_a_folder_is_not_removed_as_a_tree(source: Path, target: Path) -> None:
    write(source / "a.txt")
    link = target / "link"
    link.symlink_to(source)

    with pytest.raises(NotADirectoryError):
        remove_tree(str(link))

    assert (source / "a.txt").exists()


def test_a_tree_deeper_than_any_path_or_stack_is_removed(target: Path) -> None:
    folder = os.open(target, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("down", dir_fd=folder)
        deeper = os.open("down", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)

    remove_tree(str(target))

    assert not target.exists()


def test_a_wide_tree_is_removed(target: Path) -> None:
    for number in range(300):
        write(target / f"{number}" / "same" / "a.txt")

    remove_tree(str(target))

    assert not target.exists()


def test_sockets_and_pipes_are_removed(target: Path) -> None:
    os.mkfifo(target / "pipe")

    remove_tree(str(target))

    assert not target.exists()


def test_folders_without_permissions_are_removed(tmp_path: Path) -> None:
    public = tmp_path / "public"
    folder = public / "closed" / "inner"
    write(folder / "a.txt")
    for path in (public, public / "closed", folder, folder / "a.txt"):
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)
    folder.chmod(0)
    (public / "closed").chmod(0)
    above = os.open(public, os.O_RDONLY)

    child = os.fork()
    if child == 0:
        # Modes mean nothing to root.
        os.fchdir(above)
        if os.getuid() == 0:
            os.setuid(NOBODY)
        remove_tree("closed")
        os._exit(0)
    status = os.waitpid(child, 0)[1]

    assert (status, names(public)) == (0, set())
