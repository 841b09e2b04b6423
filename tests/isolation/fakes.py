"""A backend without processes, for tests of what stands on one."""

from __future__ import annotations

from collections.abc import Callable

from shrinkrepro.runtime.messages import Job, Report


class FakeBackend:
    """Answers each job with what `answer` says, when it is waited for, and remembers what it was asked to do."""

    def __init__(self, answer: Callable[[Job], Report]) -> None:
        self._answer = answer
        self._jobs: dict[int, Job] = {}
        self.submitted: list[Job] = []
        self.cancelled: list[Job] = []
        self.most_at_once = 0

    def submit(self, job: Job) -> int:
        self.submitted.append(job)
        ticket = len(self.submitted)
        self._jobs[ticket] = job
        self.most_at_once = max(self.most_at_once, len(self._jobs))
        return ticket

    def wait(self, ticket: int) -> Report:
        return self._answer(self._jobs.pop(ticket))

    def cancel(self, ticket: int) -> None:
        self.cancelled.append(self._jobs.pop(ticket))

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        return {}

    def close(self) -> None:
        self._jobs.clear()

    @property
    def running(self) -> list[Job]:
        """The jobs that were submitted, and neither waited for nor cancelled."""
        return list(self._jobs.values())
