"""A Dask cluster runs the jobs: every worker of it has a zygote, and what a lost one had begun is run by another.

Importing this needs the package `distributed`. On the workers, and on the scheduler, this very module must be there.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from distributed import (
    Client,
    Future,
    KilledWorker,
    Reschedule,
    Security,
    Worker,
    WorkerPlugin,
    get_worker,
    rpc,
)

import shrinkrepro
from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.isolation.keeper import Keeper
from shrinkrepro.runtime.guard import capabilities
from shrinkrepro.runtime.messages import NOWHERE, Job, Report, from_json, to_json

# Seconds within which a scheduler must answer.
_PATIENCE = 10.0
# How often, in seconds, is looked whether there are workers while a job runs, and how long there may be none.
_GLANCE, _FORSAKEN = 2.0, 60.0
# The priority of patient jobs.
_LATER = -1
# What a worker calls a job that it runs.
_UNDER_WAY = ("executing", "long-running")


class _Warm(WorkerPlugin):  # type: ignore[misc]
    """What a worker keeps for one client: its zygote. Workers that join the cluster later get theirs then."""

    def __init__(self, name: str, expected: dict[str, str], *, kernel: bool) -> None:
        self._name, self._expected, self._kernel = name, expected, kernel
        self.unfit: str | None = None

    def setup(self, worker: Worker) -> None:
        """Begin to import PyTorch in a zygote."""
        self.unfit = _unfit(worker.address, self._expected, kernel=self._kernel)
        self.keeper = Keeper()

    async def teardown(self, worker: Worker) -> None:
        """End the zygote and every job."""
        await asyncio.to_thread(self.keeper.close)

    def transition(self, key: object, start: str, finish: str, **more: Any) -> None:
        """End a job that was cancelled, or whose client has gone: Dask itself never ends what has begun."""
        if str(key).startswith(self._name) and start in _UNDER_WAY and finish in ("released", "cancelled"):
            self.keeper.cancel(str(key))


class Cluster:
    """A backend that sends jobs to the Dask cluster whose scheduler listens at `address`.

    `kernel`: only workers will do whose kernel can guard the runs.
    Raises ShrinkReproError when it cannot be used: when it does not answer, has no workers, or other versions of what
    matters than there are here. So does waiting for a report, when the cluster is lost or a folder is not there.
    """

    def __init__(self, address: str, *, kernel: bool = False, patience: float = _PATIENCE) -> None:
        self._address = address
        self._name = f"shrinkrepro-{uuid.uuid4().hex}"
        self._next = 0
        self._modules: tuple[str, ...] = ()
        self._futures: dict[int, Future[dict[str, str]]] = {}
        self._client = _connected(address, patience)
        try:
            with self._there():
                self._prepare(kernel=kernel)
        except BaseException:
            self.close()
            raise

    @property
    def threads(self) -> int:
        """How many jobs the workers run at once."""
        with self._there():
            return sum(self._client.nthreads().values())

    def submit(self, job: Job) -> int:
        """Start a job; the ticket to ask for its report with."""
        self._next += 1
        key, urgency = f"{self._name}-{self._next}", _LATER if job.patient else 0
        with self._there():
            self._futures[self._next] = self._client.submit(
                _run, self._name, self._modules, to_json(job), key=key, pure=False, priority=urgency
            )
        return self._next

    def wait(self, ticket: int) -> Report:
        """The report of a job, once it has ended."""
        future = self._futures.pop(ticket)
        try:
            with self._there():
                answer = self._answer(future)
        except KilledWorker:
            return Report("killed", error="every worker that ran it died")
        if "unfit" in answer:
            raise _unusable(answer["unfit"])
        return from_json(Report, answer["report"])

    def cancel(self, ticket: int) -> None:
        """End a job whose report nobody will ask for."""
        future = self._futures.pop(ticket, None)
        if future is not None:
            with self._there():
                future.cancel()

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        """Have every zygote import modules; those that one cannot import, with the reason.

        What all of them can import is imported by workers that join later as well.
        """
        failed: dict[str, str] = {}
        with self._there():
            for answer in self._client.run(_preload, self._name, modules, on_error="ignore").values():
                failed.update(answer)
        self._modules += tuple(name for name in modules if name not in failed and name not in self._modules)
        return failed

    def close(self) -> None:
        """End every job and every zygote, and leave the cluster."""
        if self._client.status == "closed":
            return
        if self._client.status == "running":  # else the cluster is lost, and would be waited for
            with suppress(ShrinkReproError, OSError, ValueError, KeyError):  # not all workers were given a zygote
                for ticket in list(self._futures):
                    self.cancel(ticket)
                self._client.unregister_worker_plugin(self._name)
        self._client.close()

    @contextmanager
    def _there(self) -> Iterator[None]:
        """Within, a cluster that is lost is said to be."""
        try:
            yield
        except (CancelledError, asyncio.CancelledError) as problem:
            raise self._lost("its scheduler has gone, or has dropped the runs") from problem
        except (OSError, asyncio.TimeoutError) as problem:
            raise self._lost(_said(problem)) from problem

    def _lost(self, why: str) -> ShrinkReproError:
        return _unusable(
            f"the cluster at {self._address} was lost: {why}; a reduction goes on from there with --resume"
        )

    def _prepare(self, *, kernel: bool) -> None:
        """Give every worker a zygote, once it is known that there are some and that they will do."""
        if not self._client.nthreads():
            raise _unusable(f"the cluster at {self._address} has no workers; start one: dask worker {self._address}")
        for place in self._without_us():
            raise _unusable(f"{place} cannot import shrinkrepro; install version {shrinkrepro.__version__} there")
        expected = _versions()
        there = self._client.run_on_scheduler(_versions)
        if differing := _differing(there, {name: expected[name] for name in expected if name != "torch"}):
            raise _unusable(f"the scheduler at {self._address} {differing}")
        self._client.register_plugin(_Warm(self._name, expected, kernel=kernel), name=self._name)
        for fault in self._client.run(_fault, self._name).values():
            if fault is not None:
                raise _unusable(fault)

    def _without_us(self) -> list[str]:
        """Where this package is not installed."""

        def there() -> bool:  # a function within another one is sent as code: nothing of ours is imported for it
            return find_spec("shrinkrepro") is not None

        found: dict[str, bool] = self._client.run(there, on_error="ignore")
        lacking = [f"the worker {worker}" for worker, known in found.items() if not known]
        if not self._client.run_on_scheduler(there):
            lacking.append(f"the scheduler at {self._address}")
        return lacking

    def _answer(self, future: Future[dict[str, str]]) -> dict[str, str]:
        """What a job has answered; waits as long as there are workers, who may lose even an answer that is there."""
        forsaken = 0.0
        while forsaken < _FORSAKEN:
            try:
                answer: dict[str, str] = future.result(timeout=_GLANCE)
            except asyncio.TimeoutError:
                forsaken = 0.0 if self._client.nthreads() else forsaken + _GLANCE
            else:
                return answer
        raise OSError(f"there have been no workers for {forsaken:.0f} s")


def _connected(address: str, patience: float) -> Client:
    for name in ("distributed", "distributed.client"):  # what must be said is said in one sentence, by us
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are compared later
            asyncio.run(asyncio.wait_for(_greet(address), patience))  # a client that finds nobody takes long to go
            return Client(address, timeout=patience, set_as_default=False)
    except (OSError, ValueError, asyncio.TimeoutError) as problem:
        why = f"{patience:g} s" if isinstance(problem, asyncio.TimeoutError) else _said(problem)
        raise _unusable(
            f"no Dask scheduler answers at {address} ({why}); give the address that `dask scheduler` prints"
        ) from problem


async def _greet(address: str) -> None:
    """Have the scheduler say who it is."""
    async with rpc(address, connection_args=Security().get_connection_args("client")) as scheduler:
        await scheduler.identity()


def _unusable(sentence: str) -> ShrinkReproError:
    return ShrinkReproError(Exit.NO_CLUSTER, sentence)


def _said(problem: BaseException) -> str:
    """What an exception says, in one line."""
    return " ".join(str(problem).split()) or type(problem).__name__


def _versions() -> dict[str, str]:
    """The versions here of what must be the same everywhere. Builds of PyTorch may differ: GPUs may be there only."""
    names = ("torch", "distributed")
    installed = {name: found for name in names if (found := _installed(name)) is not None}
    return {"Python": platform.python_version(), "shrinkrepro": shrinkrepro.__version__, **installed}


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def _differing(there: dict[str, str], expected: dict[str, str]) -> str:
    """Which versions are other ones there, in words; nothing when none is."""
    other = [
        f"{name} {there.get(name, 'nowhere')}, not {version}"
        for name, version in expected.items()
        if there.get(name) != version
    ]
    return f"has other versions than here: {'; '.join(other)}" if other else ""


def _unfit(address: str, expected: dict[str, str], *, kernel: bool) -> str | None:
    """Why the worker that this runs on will not do."""
    if differing := _differing(_versions(), expected):
        return f"the worker {address} {differing}"
    if kernel and not capabilities().landlock_abi:
        return f"the worker {address} has a kernel that cannot guard the runs; leave --guard out, or that worker"
    return None


def _fault(name: str, dask_worker: Worker) -> str | None:
    """Why a worker will not do: runs there."""
    fault: str | None = dask_worker.plugins[name].unfit
    return fault


async def _preload(name: str, modules: tuple[str, ...], dask_worker: Worker) -> dict[str, str]:
    """Have the zygote of a worker import modules: runs there."""
    keeper: Keeper = dask_worker.plugins[name].keeper
    return await asyncio.wrap_future(keeper.preload(modules))


def _run(name: str, modules: tuple[str, ...], text: str) -> dict[str, str]:
    """Run a job in the zygote of a worker: runs there. The "report", or why the worker is "unfit" to make one."""
    worker, job = get_worker(), from_json(Job, text)
    warm: _Warm | None = worker.plugins.get(name)
    if warm is None:  # the client is leaving
        return {"unfit": f"the worker {worker.address} has no zygote"}
    if warm.unfit is not None:
        return {"unfit": warm.unfit}
    for folder in (job.root, job.cwd):
        if folder != NOWHERE and not Path(folder).is_dir():
            return {"unfit": f"the worker {worker.address} has no folder {folder}; it must be there on every worker"}
    try:
        report = warm.keeper.run(str(worker.get_current_task()), job, modules)
    except CancelledError:  # nobody asks for it, or the worker is about to end
        raise Reschedule from None
    except OSError as problem:
        return {"unfit": f"the worker {worker.address} cannot start a zygote: {problem}"}
    return {"report": to_json(report)}
