"""Several jobs at once: never another answer, only an earlier one."""

from __future__ import annotations

import os

import pytest
from isolation.fakes import FakeBackend

from shrinkrepro.isolation.workers import Workers, processors
from shrinkrepro.runtime.messages import Job, Report


def job(name: str) -> Job:
    return Job(files={"a.py": name}, root="/", entry="a.py", cwd="/")


def names(jobs: list[Job]) -> list[str]:
    return [job.files["a.py"] for job in jobs]


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend(lambda job: Report("finished", output=job.files["a.py"]))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_reports_do_not_depend_on_the_number_of_workers(backend: FakeBackend, count: int) -> None:
    workers = Workers(backend, count)
    reports = [workers.run(job(str(n)), map(job, ("x", str(n + 1), str(n + 2)))) for n in range(6)]
    assert [report.output for report in reports] == list("012345")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_all_reports_come_in_the_order_of_the_jobs(backend: FakeBackend, count: int) -> None:
    reports = Workers(backend, count).run_all(map(job, "abcdefg"))
    assert [report.output for report in reports] == list("abcdefg")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_no_more_jobs_run_at_once_than_there_are_workers(backend: FakeBackend, count: int) -> None:
    workers = Workers(backend, count)
    for n in range(4):
        workers.run(job(str(n)), map(job, "abcdefgh"))
    workers.run_all(map(job, "abcdefgh"))
    assert backend.most_at_once == count


def test_one_worker_starts_nothing_early(backend: FakeBackend) -> None:
    Workers(backend, 1).run(job("a"), map(job, "bcd"))
    assert names(backend.submitted) == ["a"]


def test_idle_workers_start_on_the_first_jobs_ahead(backend: FakeBackend) -> None:
    Workers(backend, 3).run(job("a"), map(job, "bcd"))
    assert names(backend.submitted) == ["a", "b", "c"]


def test_a_job_started_early_is_not_started_again(backend: FakeBackend) -> None:
    workers = Workers(backend, 3)
    workers.run(job("a"), map(job, "bc"))
    workers.run(job("b"), map(job, "cd"))
    assert names(backend.submitted) == ["a", "b", "c", "d"]


def test_early_jobs_that_are_no_longer_expected_are_cancelled(backend: FakeBackend) -> None:
    workers = Workers(backend, 3)
    workers.run(job("a"), map(job, "bc"))
    workers.run(job("x"), map(job, "cy"))
    assert names(backend.cancelled) == ["b"]
    assert names(backend.running) == ["c", "y"]


def test_a_run_that_says_nothing_about_what_comes_next_leaves_early_jobs_alone(backend: FakeBackend) -> None:
    workers = Workers(backend, 3)
    workers.run(job("a"), map(job, "bc"))
    workers.run(job("in between"))
    assert names(backend.cancelled) == []
    assert names(backend.running) == ["b", "c"]


def test_what_lies_further_ahead_than_there_are_workers_is_never_looked_at(backend: FakeBackend) -> None:
    def endless() -> object:
        yield job("b")
        raise AssertionError("looked too far ahead")

    Workers(backend, 2).run(job("a"), endless())  # type: ignore[arg-type]
    assert names(backend.submitted) == ["a", "b"]


@pytest.mark.parametrize("count", [1, 2])
def test_what_was_begun_reports_in_the_order_of_the_jobs(backend: FakeBackend, count: int) -> None:
    reports = Workers(backend, count).begin([job("a"), job("b")]).reports()
    assert [report.output for report in reports] == ["a", "b"]


def test_what_was_begun_runs_while_others_are_asked_for(backend: FakeBackend) -> None:
    workers = Workers(backend, 2)
    workers.begin([job("a"), job("b")])
    workers.run(job("c"))
    assert names(backend.submitted) == ["a", "b", "c"]


def test_one_worker_begins_only_when_asked_for_the_reports(backend: FakeBackend) -> None:
    workers = Workers(backend, 1)
    begun = workers.begin([job("a"), job("b")])
    workers.run(job("c"))
    begun.reports()
    assert names(backend.submitted) == ["c", "a", "b"]


def test_what_was_begun_can_be_cancelled(backend: FakeBackend) -> None:
    Workers(backend, 2).begin([job("a"), job("b")]).cancel()
    assert names(backend.cancelled) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no such limit here")
def test_processors_that_this_process_may_not_use_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 7})
    assert processors() == 2


def test_where_no_such_limit_can_be_asked_for_all_processors_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert processors() == 64
