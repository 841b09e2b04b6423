"""One zygote for several threads: what it answers, how its jobs are ended, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sandbox import within

from shrinkrepro.isolation.keeper import Keeper
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.runtime.messages import Job, Limits

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the zygote forks")


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    with closing(Keeper()) as keeper:
        yield keeper


def job(folder: Path, text: str) -> Job:
    return Job({"a.py": text}, str(folder), "a.py", str(folder), limits=Limits(wall=60.0, cpu=60.0))


class Zygotes:
    """Starts zygotes and remembers them."""

    def __init__(self) -> None:
        self.started: list[Zygote] = []

    def __call__(self) -> Zygote:
        self.started.append(Zygote())
        return self.started[-1]

    def ended(self) -> list[bool]:
        return [zygote._process.poll() is not None and not Path(zygote._folder).exists() for zygote in self.started]


def test_jobs_of_several_threads_get_their_own_reports(keeper: Keeper, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        reports = threads.map(
            lambda number: keeper.run(f"own {number}", job(tmp_path, f"raise ValueError({number})")), range(12)
        )
        assert [report.error for report in reports] == [str(number) for number in range(12)]


def test_a_job_finds_its_modules_imported(keeper: Keeper, tmp_path: Path) -> None:
    text = "import sys\nraise ValueError('wave' in sys.modules)\n"
    assert keeper.run("modules", job(tmp_path, text), ("wave",)).error == "True"


def test_what_cannot_be_imported_is_told_each_time(keeper: Keeper) -> None:
    for _ in range(2):
        failed = keeper.preload(("no_such_module", "json")).result(30)
        assert list(failed) == ["no_such_module"] and "ModuleNotFoundError" in failed["no_such_module"]


def test_a_job_that_is_cancelled_ends_and_others_go_on(keeper: Keeper, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(keeper.run, "endless", job(tmp_path, "while True: pass"))
        time.sleep(0.2)
        keeper.cancel("endless")
        with pytest.raises(CancelledError):
            running.result(30)
    assert keeper.run("after", job(tmp_path, "")).outcome == "finished"


def test_a_job_that_was_cancelled_before_it_came_is_not_run(keeper: Keeper, tmp_path: Path) -> None:
    keeper.cancel("early")
    with pytest.raises(CancelledError):
        keeper.run("early", job(tmp_path, "while True: pass"))


def test_a_zygote_that_dies_is_replaced_and_its_jobs_are_run_again(tmp_path: Path) -> None:
    zygotes = Zygotes()
    with closing(Keeper(zygotes)) as keeper, ThreadPoolExecutor(1) as threads:
        report = threads.submit(keeper.run, "slow", job(tmp_path, "import time\ntime.sleep(1)\n"))
        assert within(30, lambda: bool(zygotes.started and zygotes.started[0]._jobs))
        os.kill(zygotes.started[0]._process.pid, signal.SIGKILL)
        assert report.result(30).outcome == "finished"


def test_closing_ends_the_jobs_and_the_zygote(tmp_path: Path) -> None:
    zygotes = Zygotes()
    keeper = Keeper(zygotes)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(keeper.run, "endless", job(tmp_path, "while True: pass"))
        assert within(30, lambda: bool(zygotes.started and zygotes.started[0]._jobs))
        keeper.close()
        with pytest.raises(CancelledError):
            running.result(30)
    with pytest.raises(CancelledError):
        keeper.run("late", job(tmp_path, ""))
    assert zygotes.ended() == [True]


def test_an_idle_zygote_is_ended_and_the_next_job_starts_another(tmp_path: Path) -> None:
    zygotes = Zygotes()
    with closing(Keeper(zygotes, idle=0.05)) as keeper:
        assert within(30, lambda: zygotes.ended() == [True])
        assert keeper.run("later", job(tmp_path, "")).outcome == "finished"
    assert zygotes.ended() == [True, True]


def test_a_zygote_that_cannot_be_started_is_told_to_everyone_who_asks(tmp_path: Path) -> None:
    def fail() -> Zygote:
        raise OSError("no more processes")

    with closing(Keeper(fail)) as keeper:
        for name in ("first", "second"):
            with pytest.raises(OSError, match="no more processes"):
                keeper.run(name, job(tmp_path, ""))
