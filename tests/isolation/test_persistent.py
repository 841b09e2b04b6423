from __future__ import annotations

from dataclasses import replace

from isolation.fakes import FakeBackend

from shrinkrepro.isolation.persistent import Persistent
from shrinkrepro.runtime.messages import Job, Report

JOB = Job({"train.py": ""}, "/", "train.py", "/")


def seeds_tried(job: Job, failing: int | None) -> list[int | None]:
    backend = FakeBackend(lambda job: Report("failed" if job.seed == failing else "finished"))
    persistent = Persistent(backend, 4)
    persistent.wait(persistent.submit(job))
    return [tried.seed for tried in backend.submitted]


def test_each_further_try_has_a_seed_of_its_own_until_one_fails() -> None:
    assert seeds_tried(JOB, failing=2) == [None, 1, 2]


def test_the_seed_of_a_job_is_kept() -> None:
    assert seeds_tried(replace(JOB, seed=9), failing=5) == [9, 9, 9, 9]
