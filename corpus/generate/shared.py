"""One warm backend for thousands of programs."""

from __future__ import annotations

from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.runtime.messages import Job, Report


class Shared:
    """A zygote that outlives every pipeline which is told to `start` it. End it with `end`, or as a context."""

    def __init__(self) -> None:
        self._zygote = Zygote()
        self._imported: set[str] = set()

    def __call__(self) -> Shared:
        """What a pipeline starts."""
        return self

    def submit(self, job: Job) -> int:
        """Start a job."""
        return self._zygote.submit(job)

    def wait(self, ticket: int) -> Report:
        """The report of a job."""
        return self._zygote.wait(ticket)

    def cancel(self, ticket: int) -> None:
        """End a job."""
        self._zygote.cancel(ticket)

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        """Import what was not imported for an earlier program."""
        new = tuple(name for name in modules if name not in self._imported)
        self._imported.update(new)
        return self._zygote.preload(new) if new else {}

    def close(self) -> None:
        """Nothing: the next program needs it."""

    def end(self) -> None:
        """End the zygote."""
        self._zygote.close()

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
