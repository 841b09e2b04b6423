"""A zygote for several threads: one thread of its own starts it, sends it jobs and hands out the reports."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from threading import Lock, Thread

from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.runtime.messages import Job, Report

# Seconds without a job after which the zygote is ended: whoever sent the jobs may have been killed.
_IDLE = 300.0
_CHUNK = 1 << 12


@dataclass(frozen=True)
class _Request:
    """Something for the thread to do with its zygote, and what to do instead when there will be none any more."""

    act: Callable[[Zygote], None]
    drop: Callable[[], object]


def _warm() -> Zygote:
    return Zygote(ahead=["torch"])


class Keeper:
    """Keeps one zygote, for calls from any thread.

    The kernel ends a zygote with the thread that forked it, and only one thread may use it: the one that is kept here.
    After `idle` seconds without a job the zygote is ended; the next job starts another.
    """

    def __init__(self, start: Callable[[], Zygote] = _warm, idle: float = _IDLE) -> None:
        self._start, self._idle = start, idle
        self._lock = Lock()
        self._requests: deque[_Request] = deque()
        self._closed = False
        self._problem: OSError | None = None
        self._failed: dict[str, str] = {}
        self._imported: set[str] = set()
        self._running: dict[int, tuple[str, Future[Report]]] = {}
        self._cancelled: set[str] = set()
        self._bell, self._clapper = socket.socketpair()
        self._thread = Thread(target=self._keep, name="zygote", daemon=True)
        self._thread.start()

    def run(self, name: str, job: Job, modules: tuple[str, ...] = ()) -> Report:
        """The report of a job, run where `modules` are imported. `name`, used once, is what it can be cancelled by.

        Raises concurrent.futures.CancelledError when it is cancelled, or the keeper closed, and OSError when no zygote
        can be started.
        """
        report: Future[Report] = Future()

        def begin(zygote: Zygote) -> None:
            if name in self._cancelled:
                self._cancelled.remove(name)
                report.cancel()
                return
            self._import(zygote, modules)
            self._running[zygote.submit(job)] = name, report

        self._ask(_Request(begin, report.cancel))
        try:
            return report.result()
        except CancelledError:
            if self._problem is not None:
                raise self._problem from None
            raise

    def cancel(self, name: str) -> None:
        """End a job, or have it end as soon as it comes."""

        def end(zygote: Zygote) -> None:
            found = next((ticket for ticket, (known, _) in self._running.items() if known == name), None)
            if found is None:
                self._cancelled.add(name)
            else:
                zygote.cancel(found)
                self._running.pop(found)[1].cancel()

        self._ask(_Request(end, lambda: None))

    def preload(self, modules: tuple[str, ...]) -> Future[dict[str, str]]:
        """Import modules ahead of the jobs; those that cannot be, with the reason. Cancelled when it is not to be."""
        failed: Future[dict[str, str]] = Future()
        self._ask(_Request(lambda zygote: failed.set_result(self._import(zygote, modules)), failed.cancel))
        return failed

    def close(self) -> None:
        """End every job and the zygote, and leave nothing behind."""
        with self._lock:
            self._closed = True
        self._ring()
        self._thread.join()

    def _ask(self, request: _Request) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                self._requests.append(request)
        if closed:
            request.drop()
        else:
            self._ring()

    def _ring(self) -> None:
        with suppress(OSError):  # it rings already, or nobody listens any more
            self._clapper.send(b".", socket.MSG_DONTWAIT)

    def _keep(self) -> None:
        """What the thread does: have a zygote as long as there is work for it."""
        try:
            while not self._closed:
                with self._start() as zygote:
                    self._serve(zygote)
                if not self._closed:
                    wait([self._bell])
        except OSError as problem:
            self._problem = problem
        finally:
            self._give_up()

    def _serve(self, zygote: Zygote) -> None:
        """Do what is asked for, until nothing has been for long."""
        self._failed, self._imported = {}, set()
        while not self._closed:
            channel = zygote.fileno()
            ready = wait([self._bell, channel], None if self._running else self._idle)
            if not ready:
                return
            if channel in ready:
                zygote.receive()
            if self._bell in ready:
                self._bell.recv(_CHUNK)
                self._act(zygote)
            for ticket in zygote.ended():
                self._running.pop(ticket)[1].set_result(zygote.wait(ticket))

    def _act(self, zygote: Zygote) -> None:
        while self._requests:
            self._requests[0].act(zygote)  # stays there meanwhile: should that fail, it is dropped like those behind it
            self._requests.popleft()

    def _give_up(self) -> None:
        with self._lock:
            self._closed = True
        for request in self._requests:
            request.drop()
        for _, report in self._running.values():
            report.cancel()
        self._bell.close()
        self._clapper.close()

    def _import(self, zygote: Zygote, modules: tuple[str, ...]) -> dict[str, str]:
        """Import those of the modules that have not been tried; all that cannot be imported, with the reason."""
        new = tuple(name for name in modules if name not in self._imported)
        if new:
            self._imported.update(new)
            self._failed.update(zygote.preload(new))
        return {name: self._failed[name] for name in modules if name in self._failed}
