"""Several candidates at once, while the answers come in the order in which they are asked for."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shrinkrepro.isolation.backend import Backend
from shrinkrepro.runtime.messages import Job, Report


@dataclass(frozen=True)
class Begun:
    """Jobs that run meanwhile: `reports` waits for them, in order; `cancel` ends them. Call one of the two, once."""

    reports: Callable[[], list[Report]]
    cancel: Callable[[], None]


def processors() -> int:
    """How many processors this process may use: fewer than the machine has under `taskset`, cpusets or Slurm."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS and Windows


class Workers:
    """Runs jobs on a backend, at most `count` at a time, starting early on those that will probably be asked for.

    What was started early and is then not asked for in time is cancelled. Looking ahead changes only when a job
    runs, never what it is or what its report says, so results do not depend on `count`.
    """

    def __init__(self, backend: Backend, count: int) -> None:
        self.backend = backend
        self._count = max(1, count)
        self._early: list[tuple[Job, int]] = []

    def run(self, job: Job, ahead: Iterable[Job] | None = None) -> Report:
        """The report of `job`. While it runs, idle workers start on the jobs in `ahead`, first ones first.

        Jobs started early before and not in `ahead` any more are cancelled; None leaves them as they are.
        """
        ticket = self._take(job)
        if ticket is None:
            ticket = self.backend.submit(job)
        if ahead is not None:
            self._start_early(list(itertools.islice(ahead, self._count - 1)))
        return self.backend.wait(ticket)

    def _start_early(self, wanted: list[Job]) -> None:
        for early, started in self._early:
            if early not in wanted:
                self.backend.cancel(started)
        self._early = [(early, started) for early, started in self._early if early in wanted]
        known = [early for early, _ in self._early]
        self._early += [(early, self.backend.submit(early)) for early in wanted if early not in known]

    def run_all(self, jobs: Iterable[Job]) -> list[Report]:
        """The reports of all jobs, in their order, at most `count` at a time."""
        self._start_early([])
        reports: list[Report] = []
        waiting: list[int] = []
        for job in jobs:
            if len(waiting) == self._count:
                reports.append(self.backend.wait(waiting.pop(0)))
            waiting.append(self.backend.submit(job))
        return reports + [self.backend.wait(ticket) for ticket in waiting]

    def begin(self, jobs: Sequence[Job]) -> Begun:
        """Start jobs that run while others are asked for.

        A single worker starts them only when it is asked for the reports.
        """
        if self._count == 1:
            return Begun(lambda: self.run_all(jobs), lambda: None)
        tickets = [self.backend.submit(job) for job in jobs]

        def cancel() -> None:
            for ticket in tickets:
                self.backend.cancel(ticket)

        return Begun(lambda: [self.backend.wait(ticket) for ticket in tickets], cancel)

    def _take(self, job: Job) -> int | None:
        for index, (early, ticket) in enumerate(self._early):
            if early == job:
                del self._early[index]
                return ticket
        return None
