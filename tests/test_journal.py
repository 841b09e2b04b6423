"""A reduction that was cut off at any moment is taken up again and ends where it would have ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import reduce_with
from isolation.fakes import FakeBackend

from shrinkrepro.facts import Facts
from shrinkrepro.isolation.journaled import Journaled
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.journal import Journal, all_in, clean, identity
from shrinkrepro.oracle import job_for
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program, Size
from shrinkrepro.runtime.messages import Job, Report

TEXT = "".join(f"x{number} = {number}\n" for number in range(12))
NEEDED = ("x3 ", "x7 ")
PROGRAM = Program.of(TEXT)


class Cut(BaseException):
    """The machine goes down."""


def delete_statements(program: Program, facts: Facts) -> Iterator[Patch]:
    for statement in reversed(facts.trees[0].statements):
        yield Patch((statement.delete(),))


def search(backend: Journaled) -> str:
    """What is left of TEXT when the backend is asked of every candidate whether it still fails."""
    workers = Workers(backend, 1)
    return reduce_with(
        [delete_statements], TEXT, lambda text: workers.run(job_for(Program.of(text))).outcome == "failed"
    )[0]


def behave(job: Job) -> Report:
    text = next(iter(job.files.values()))
    return Report("failed" if all(name in text for name in NEEDED) else "finished")


def begin(folder: Path, same: str = "same") -> Journal:
    return Journal.begin(folder, PROGRAM, same, "train.py")


def cut_off_after(folder: Path, runs: int) -> None:
    """A search that ends with the machine after some runs."""
    left = iter(range(runs))

    def until(job: Job) -> Report:
        if next(left, None) is None:
            raise Cut
        return behave(job)

    journal = begin(folder)
    with pytest.raises(Cut):
        search(Journaled(FakeBackend(until), journal.report))
    journal.close(done=False)


@pytest.mark.parametrize("runs", range(0, 14, 2))
def test_a_search_taken_up_again_ends_where_the_whole_one_does_and_repeats_no_run(tmp_path: Path, runs: int) -> None:
    whole = FakeBackend(behave)
    expected = search(Journaled(whole, lambda job, report: None))
    cut_off_after(tmp_path, runs)
    found = Journal.resume(tmp_path, "same")
    assert found is not None
    rest = FakeBackend(behave)
    assert search(Journaled(rest, found[0].report, found[1])) == expected
    assert len(rest.submitted) == len(whole.submitted) - runs


def test_a_search_can_be_cut_off_more_than_once(tmp_path: Path) -> None:
    cut_off_after(tmp_path, 4)
    found = Journal.resume(tmp_path, "same")
    assert found is not None
    expected = search(Journaled(FakeBackend(behave), found[0].report, found[1]))
    found[0].close(done=False)
    again = Journal.resume(tmp_path, "same")
    assert again is not None
    backend = FakeBackend(behave)
    assert search(Journaled(backend, again[0].report, again[1])) == expected and backend.submitted == []


def test_a_line_that_was_cut_off_is_dropped_and_what_follows_is_whole(tmp_path: Path) -> None:
    cut_off_after(tmp_path, 3)
    path = all_in(tmp_path)[0].path
    path.write_bytes(path.read_bytes()[:-5])
    found = Journal.resume(tmp_path, "same")
    assert found is not None
    found[0].report("1", "{}")
    found[0].close(done=False)
    assert [json.loads(line) for line in path.read_text().splitlines()][-1] == {"job": "1", "report": {}}


def test_a_journal_that_is_being_written_is_nobody_elses(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    assert Journal.resume(tmp_path, "same") is None
    journal.close(done=False)
    assert Journal.resume(tmp_path, "same") is not None


def test_only_a_journal_of_the_same_run_is_taken_up(tmp_path: Path) -> None:
    begin(tmp_path, "other").close(done=False)
    assert Journal.resume(tmp_path, "same") is None


def test_a_journal_of_a_finished_reduction_is_gone(tmp_path: Path) -> None:
    begin(tmp_path).close(done=True)
    assert list(tmp_path.iterdir()) == []


def test_unfinished_reductions_are_listed_with_their_size(tmp_path: Path) -> None:
    journal = begin(tmp_path)
    for text in (TEXT, "x = 1\n"):
        journal.adopted(Size.of(Program.of(text)))
    (found,) = all_in(tmp_path)
    assert (found.heading.script, found.statements, found.tokens, found.running) == ("train.py", 1, 3, True)


@pytest.mark.parametrize("content", ["", "{}\n", "[]\n", "null\n", "no json\n", '{"schema": 99}\n', '{"schema": 1}\n'])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "notes.jsonl").write_text(content)
    assert all_in(tmp_path) == [] and clean(tmp_path) == 0
    assert (tmp_path / "notes.jsonl").exists()


def test_cleaning_spares_what_is_being_written(tmp_path: Path) -> None:
    begin(tmp_path).close(done=False)
    journal = begin(tmp_path)
    assert clean(tmp_path) == 1
    assert [found.path for found in all_in(tmp_path)] == [journal.path]


def test_a_folder_that_does_not_exist_holds_no_journals(tmp_path: Path) -> None:
    assert all_in(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("text", "settings", "versions"),
    [("y = 1\n", (1,), {"torch": "2"}), (TEXT, (2,), {"torch": "2"}), (TEXT, (1,), {"torch": "3"})],
    ids=["other text", "other settings", "another torch"],
)
def test_what_may_change_a_report_changes_the_identity(
    text: str, settings: tuple[int, ...], versions: dict[str, str]
) -> None:
    assert identity(Program.of(text), settings, versions) != identity(PROGRAM, (1,), {"torch": "2"})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_journal_and_not_the_run(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb", buffering=0) as file:
        journal = Journal(tmp_path / "journal.jsonl", file)
        journal.report("1", "{}")
        assert journal.problem is not None
        journal.close(done=True)
