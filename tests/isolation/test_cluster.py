"""Jobs on a real Dask cluster of two worker processes: the same reports as here, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import SCRIPT
from sandbox import within

from shrinkrepro.cli import main
from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.pipeline import Event, Options, reduce
from shrinkrepro.program.source import Program
from shrinkrepro.reduction.engine import Adopted
from shrinkrepro.results import Result
from shrinkrepro.runtime import guard
from shrinkrepro.runtime.messages import Job, Limits, Report

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

from shrinkrepro.isolation import cluster as module  # noqa: E402
from shrinkrepro.isolation.cluster import Cluster  # noqa: E402

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the process tree")

ENDLESS = "import time\nwhile True: time.sleep(1)\n"
NOTED = "import os, time\nos.write(os.open({path!r}, os.O_WRONLY | os.O_APPEND), b'begun ')\n"
KILL_THE_WORKER = """
import os, signal
with open(f"/proc/{os.getppid()}/stat") as file:
    worker = int(file.read().rpartition(")")[2].split()[1])
os.kill(worker, signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the scheduler of two workers listens, who run a job again once when it was on a worker that died."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as local,
    ):
        yield local.scheduler_address


@pytest.fixture(scope="module")
def connected(address: str) -> Iterator[Cluster]:
    with closing(Cluster(address)) as connected:
        yield connected


@pytest.fixture
def cluster(connected: Cluster) -> Cluster:
    """Both workers are there, also when the last test has killed one, and have imported PyTorch."""
    assert within(60, lambda: connected.threads == 2)
    assert connected.preload(("torch",)) == {}
    return connected


def job(folder: Path, text: str, **more: object) -> Job:
    one = Job({"a.py": text}, str(folder), "a.py", str(folder), limits=Limits(wall=300.0, cpu=300.0))
    return replace(one, **more)  # type: ignore[arg-type]


def workers(cluster: Cluster) -> list[int]:
    """The processes of the workers."""
    found: dict[str, int] = cluster._client.run(os.getpid)
    return list(found.values())


def below(processes: list[int]) -> set[int]:
    """What the processes have started and has not ended."""
    return {child for process in processes for child in guard.descendants(process)}


def told(result: Result) -> object:
    """All of a result but times and counts."""
    reduced, mending = result.reduced, result.mending
    assert reduced is not None and mending is not None and mending.chosen is not None
    return (
        result.explanation.diagnosis,
        reduced.program.texts,
        reduced.diagnosis,
        reduced.patches,
        reduced.free,
        result.twin and result.twin.texts,
        mending.chosen.program.texts,
        [(step.name, step.program.texts) for step in result.steps],
        result.stopped,
    )


@pytest.mark.slow
def test_a_reduction_ends_as_it_does_here_even_when_a_worker_is_killed(
    cluster: Cluster, address: str, tmp_path: Path
) -> None:
    program = Program.of(SCRIPT, "train.py")
    program = replace(program, invocation=replace(program.invocation, root=str(tmp_path), cwd=str(tmp_path)))
    killed: list[int] = []

    def kill(event: Event) -> None:
        if isinstance(event, Adopted) and not killed:
            killed.extend(workers(cluster)[:1])
            os.kill(killed[0], signal.SIGKILL)

    there = reduce(program, Options(jobs=2), [kill], start=lambda: Cluster(address))
    assert killed
    assert told(there) == told(reduce(program, Options(jobs=2), start=Zygote))


def test_each_job_gets_its_own_report(cluster: Cluster, tmp_path: Path) -> None:
    tickets = [cluster.submit(job(tmp_path, f"raise ValueError({number})")) for number in range(8)]
    assert [cluster.wait(ticket).error for ticket in tickets] == [str(number) for number in range(8)]


def test_modules_are_imported_ahead_on_every_worker(cluster: Cluster, tmp_path: Path) -> None:
    failed = cluster.preload(("wave", "no_such_module"))
    assert list(failed) == ["no_such_module"] and "ModuleNotFoundError" in failed["no_such_module"]
    text = "import sys\nraise ValueError('wave' in sys.modules)\n"
    assert {cluster.wait(cluster.submit(job(tmp_path, text))).error for _ in range(4)} == {"True"}


def test_jobs_that_are_cancelled_make_room_for_others(cluster: Cluster, tmp_path: Path) -> None:
    endless = [cluster.submit(job(tmp_path, ENDLESS + f"# {number}")) for number in range(3)]
    time.sleep(0.5)
    for ticket in endless:
        cluster.cancel(ticket)
    after = cluster.submit(job(tmp_path, ""))
    assert within(100, cluster._futures[after].done)
    assert cluster.wait(after).outcome == "finished"


def test_a_job_whose_worker_dies_is_run_again_and_the_zygote_dies_with_the_worker(
    cluster: Cluster, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.touch()
    text = NOTED.format(path=str(notes)) + "time.sleep(3)\nraise ValueError('the end')\n"
    ticket = cluster.submit(job(tmp_path, text, protection="off"))
    assert within(60, lambda: bool(notes.read_text()))
    started = {process: below([process]) for process in workers(cluster)}
    busy = next(process for process, children in started.items() if len(children) > 1)
    os.kill(busy, signal.SIGKILL)
    assert cluster.wait(ticket).error == "the end"
    assert notes.read_text() == "begun begun "
    assert within(60, lambda: not any(Path(f"/proc/{process}").exists() for process in started[busy]))


@pytest.mark.slow
def test_a_job_that_kills_each_worker_ends_as_killed(cluster: Cluster, tmp_path: Path) -> None:
    report = cluster.wait(cluster.submit(job(tmp_path, KILL_THE_WORKER, protection="off")))
    assert report.outcome == "killed" and "worker" in (report.error or "")
    assert cluster.wait(cluster.submit(job(tmp_path, ""))).outcome == "finished"


def test_the_jobs_of_a_client_that_has_gone_end(address: str, cluster: Cluster, tmp_path: Path) -> None:
    lost = Cluster(address)
    notes = tmp_path / "notes"
    notes.touch()
    lost.submit(job(tmp_path, NOTED.format(path=str(notes)) + ENDLESS, protection="off"))
    assert within(60, lambda: bool(notes.read_text()))
    before = len(below(workers(cluster)))
    lost._client.close()
    assert within(60, lambda: len(below(workers(cluster))) < before)
    cluster._client.unregister_worker_plugin(lost._name)


def test_closing_ends_every_job_and_every_zygote(address: str, cluster: Cluster, tmp_path: Path) -> None:
    before = below(workers(cluster))
    other = Cluster(address)
    for number in range(2):
        other.submit(job(tmp_path, ENDLESS + f"# {number}"))
    assert within(60, lambda: len(below(workers(cluster))) >= len(before) + 3)
    other.close()
    other.close()
    assert within(60, lambda: below(workers(cluster)) <= before)


# ---- what goes wrong -------------------------------------------------------------------------------------------


def problem(act: Callable[[], object]) -> str:
    with pytest.raises(ShrinkReproError) as raised:
        act()
    assert raised.value.exit is Exit.NO_CLUSTER
    return str(raised.value)


def test_a_folder_that_the_workers_do_not_see_is_named(cluster: Cluster, tmp_path: Path) -> None:
    missing = tmp_path / "only here"
    said = problem(lambda: cluster.wait(cluster.submit(job(missing, ""))))
    assert str(missing) in said and "worker" in said


def test_other_versions_on_a_worker_are_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_versions", lambda: {"Python": "3.99.1", "shrinkrepro": "99"})
    said = problem(lambda: Cluster(address))
    assert "worker" in said and "not 3.99.1" in said and "not 99" in said


def test_a_worker_that_cannot_guard_runs_is_refused_when_the_guard_is_asked_for(address: str) -> None:
    if guard.capabilities().landlock_abi:
        Cluster(address, kernel=True).close()
    else:
        assert "guard" in problem(lambda: Cluster(address, kernel=True))


def test_a_cluster_without_workers_is_refused() -> None:
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as local:
        assert "no workers" in problem(lambda: Cluster(local.scheduler_address))


def test_a_cluster_that_is_lost_ends_the_wait(tmp_path: Path) -> None:
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50) as local:
        cluster = Cluster(local.scheduler_address)
        ticket = cluster.submit(job(tmp_path, ENDLESS))
        local.close()
        assert "lost" in problem(lambda: cluster.wait(ticket))
        cluster.close()


def test_a_cluster_whose_workers_all_leave_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GLANCE", 0.1)
    monkeypatch.setattr(module, "_FORSAKEN", 1.0)
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50) as local,
        closing(Cluster(local.scheduler_address)) as cluster,
    ):
        ticket = cluster.submit(job(tmp_path, ENDLESS))
        local.scale(0)
        assert "no workers" in problem(lambda: cluster.wait(ticket))


def test_silence_is_no_scheduler() -> None:
    assert "tcp://127.0.0.1:1" in problem(lambda: Cluster("tcp://127.0.0.1:1", patience=0.5))


@pytest.mark.parametrize("command", [[], ["explain"], ["bisect"]])
def test_an_address_that_is_none_gets_its_exit_status_and_one_sentence(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    assert main([*command, str(tmp_path / "train.py"), "--dask", "nonsense"]) == Exit.NO_CLUSTER
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "no Dask scheduler answers at nonsense" in said.err


def test_where_dask_is_not_installed_it_is_said_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "shrinkrepro.isolation.cluster")
    (tmp_path / "train.py").write_text(SCRIPT)
    assert main([str(tmp_path / "train.py"), "--dask", "tcp://127.0.0.1:1"]) == Exit.NO_CLUSTER
    assert 'pip install "shrinkrepro[dask]"' in capsys.readouterr().err


def test_the_command_explains_a_script_that_runs_on_a_cluster(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    assert main(["explain", str(tmp_path / "train.py"), "--dask", address]) == Exit.DONE
    assert "<- the culprit" in capsys.readouterr().out


def test_a_reduction_that_lost_its_cluster_can_be_resumed(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: Cluster, ticket: int) -> Report:
        raise ShrinkReproError(Exit.NO_CLUSTER, "the cluster was lost")

    monkeypatch.setenv("SHRINKREPRO_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(Cluster, "wait", lost)
    (tmp_path / "train.py").write_text(SCRIPT)
    out = str(tmp_path / "out.py")
    assert main([str(tmp_path / "train.py"), "--output", out, "--dask", address]) == Exit.NO_CLUSTER
    main(["list"])
    assert "train.py: cut off" in capsys.readouterr().out
