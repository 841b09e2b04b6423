"""What every way of running programs apart from us has in common."""

from __future__ import annotations

from typing import Protocol

from shrinkrepro.runtime.messages import Job, Report


class Backend(Protocol):
    """Runs jobs in isolated processes, several at once."""

    def submit(self, job: Job) -> int:
        """Start a job; the ticket to ask for its report with."""

    def wait(self, ticket: int) -> Report:
        """The report of a job, once it has ended. Each ticket can be asked for once."""

    def cancel(self, ticket: int) -> None:
        """End a job whose report nobody will ask for."""

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        """Import modules ahead of the jobs that need them; those that cannot be, with the reason."""

    def close(self) -> None:
        """End every job and leave nothing behind."""
