"""Runs that an earlier, interrupted search has made are not made again."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping

from shrinkrepro.isolation.backend import Backend
from shrinkrepro.runtime.messages import Job, Report, from_json, to_json


class Journaled:
    """A backend that hands every report to `record`, and gives what is `known` instead of running a job once more.

    Both name a job by the digest of all that it says, and give reports as JSON. Of a job that is run several times, the
    known reports are used up in their order.
    """

    def __init__(
        self, backend: Backend, record: Callable[[str, str], None], known: Mapping[str, deque[str]] | None = None
    ) -> None:
        self._backend, self._record = backend, record
        self._known = {job: deque(reports) for job, reports in (known or {}).items()}
        self._next = 0
        self._running: dict[int, tuple[int, str]] = {}
        self._remembered: dict[int, tuple[str, str]] = {}

    def submit(self, job: Job) -> int:
        """Start a job unless its report is known; the ticket to ask for its report with."""
        self._next += 1
        digest = hashlib.sha256(to_json(job).encode()).hexdigest()
        if self._known.get(digest):
            self._remembered[self._next] = digest, self._known[digest].popleft()
        else:
            self._running[self._next] = self._backend.submit(job), digest
        return self._next

    def wait(self, ticket: int) -> Report:
        """The report of a job, once it has ended or at once."""
        if ticket in self._remembered:
            return from_json(Report, self._remembered.pop(ticket)[1])
        inner, digest = self._running.pop(ticket)
        report = self._backend.wait(inner)
        if report.outcome != "killed":  # by the machine's troubles, maybe: to be tried again
            self._record(digest, to_json(report))
        return report

    def cancel(self, ticket: int) -> None:
        """End a job whose report nobody will ask for."""
        if ticket in self._remembered:
            digest, report = self._remembered.pop(ticket)
            self._known[digest].appendleft(report)
        elif ticket in self._running:
            self._backend.cancel(self._running.pop(ticket)[0])

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        """Import modules ahead of the jobs that need them; those that cannot be, with the reason."""
        return self._backend.preload(modules)

    def close(self) -> None:
        """End every job and leave nothing behind; what is written down stays."""
        self._backend.close()
