"""Reports that are known are not asked for again, and every other one is written down."""

from __future__ import annotations

from collections import defaultdict, deque

import pytest
from isolation.fakes import FakeBackend

from shrinkrepro.isolation.journaled import Journaled
from shrinkrepro.runtime.messages import Job, Limits, Report


class Notes:
    """What was written down, by job, as a journal keeps it."""

    def __init__(self) -> None:
        self.reports: dict[str, deque[str]] = defaultdict(deque)

    def __call__(self, job: str, report: str) -> None:
        self.reports[job].append(report)


def job(name: str, **more: object) -> Job:
    return Job(files={"a.py": name}, root="/", entry="a.py", cwd="/", **more)  # type: ignore[arg-type]


def counting() -> FakeBackend:
    """Says how many-th run of all each one is."""
    turn = iter(range(100))
    return FakeBackend(lambda job: Report("finished", output=f"{job.files['a.py']}{next(turn)}"))


def run(backend: Journaled, one: Job) -> str:
    return backend.wait(backend.submit(one)).output


@pytest.fixture
def notes() -> Notes:
    return Notes()


def test_a_known_report_is_given_without_a_run(notes: Notes) -> None:
    first = run(Journaled(counting(), notes), job("a"))
    backend = counting()
    assert run(Journaled(backend, Notes(), notes.reports), job("a")) == first
    assert backend.submitted == []


def test_a_job_that_differs_in_anything_is_run(notes: Notes) -> None:
    run(Journaled(counting(), notes), job("a"))
    backend = counting()
    others = [job("b"), job("a", argv=("1",)), job("a", watch="trace"), job("a", limits=Limits(wall=3.0))]
    for other in others:
        run(Journaled(backend, Notes(), notes.reports), other)
    assert backend.submitted == others


def test_reports_of_one_job_come_in_their_order_and_then_from_new_runs(notes: Notes) -> None:
    recording = Journaled(counting(), notes)
    run(recording, job("a")), run(recording, job("a"))
    resumed = Journaled(counting(), Notes(), notes.reports)
    assert [run(resumed, job("a")) for _ in range(3)] == ["a0", "a1", "a0"]


def test_a_known_report_whose_job_was_cancelled_is_there_for_the_next(notes: Notes) -> None:
    run(Journaled(counting(), notes), job("a"))
    backend = counting()
    resumed = Journaled(backend, Notes(), notes.reports)
    resumed.cancel(resumed.submit(job("a")))
    assert run(resumed, job("a")) == "a0" and backend.submitted == []


def test_a_job_under_way_is_cancelled_where_it_runs(notes: Notes) -> None:
    backend = counting()
    recording = Journaled(backend, notes)
    recording.cancel(recording.submit(job("a")))
    assert backend.running == [] and not notes.reports


def test_what_was_given_from_memory_is_not_written_down_again(notes: Notes) -> None:
    run(Journaled(counting(), notes), job("a"))
    again = Notes()
    run(Journaled(counting(), again, notes.reports), job("a"))
    assert not again.reports


def test_a_run_that_was_killed_is_tried_again(notes: Notes) -> None:
    run(Journaled(FakeBackend(lambda job: Report("killed")), notes), job("a"))
    assert not notes.reports
