"""For programs that fail only now and then: a run counts as failed when one of a few tries fails."""

from __future__ import annotations

from dataclasses import replace

from shrinkrepro.isolation.backend import Backend
from shrinkrepro.runtime.messages import Job, Report


class Persistent:
    """A backend that runs each job on another one up to `tries` times, until it fails with a version mismatch.

    Each further try of a job without a seed has one of its own: runs of one warm process draw the same numbers else.
    """

    def __init__(self, backend: Backend, tries: int) -> None:
        self._backend, self._tries = backend, tries
        self._jobs: dict[int, Job] = {}

    def submit(self, job: Job) -> int:
        """Start a job; the ticket to ask for its report with."""
        ticket = self._backend.submit(job)
        self._jobs[ticket] = job
        return ticket

    def wait(self, ticket: int) -> Report:
        """The report of the try that failed, else of the last one."""
        job = self._jobs.pop(ticket)
        report = self._backend.wait(ticket)
        for seed in range(1, self._tries):
            if report.outcome == "failed":
                break
            again = job if job.seed is not None else replace(job, seed=seed)
            report = self._backend.wait(self._backend.submit(again))
        return report

    def cancel(self, ticket: int) -> None:
        """End a job whose report nobody will ask for."""
        self._jobs.pop(ticket, None)
        self._backend.cancel(ticket)

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        """Import modules ahead of the jobs that need them; those that cannot be, with the reason."""
        return self._backend.preload(modules)

    def close(self) -> None:
        """End every job and leave nothing behind."""
        self._backend.close()
