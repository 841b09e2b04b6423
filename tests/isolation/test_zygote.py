"""Programs in forked children: how each ends, what it sees, and that nothing of it stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandbox import within

from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.runtime import guard
from shrinkrepro.runtime.messages import NOWHERE, Job, Limits, Protection, Report, Watch

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the zygote forks")
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs the process tree")

FAILS = """
import torch
x = torch.ones(3, requires_grad=True)
y = x.sigmoid()
y.add_(1)
y.sum().backward()
"""
# A run in these tests tells what it saw by raising it.
TELL = "\nimport json\nraise Exception(json.dumps({}))\n"


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with Zygote() as started:
        assert started.preload(("torch",)) == {}
        yield started


@pytest.fixture
def bare() -> Iterator[Zygote]:
    """A zygote of one's own that has imported nothing."""
    with Zygote() as started:
        yield started


def job(
    folder: Path,
    text: str,
    *,
    files: Mapping[str, str] | None = None,
    watch: Watch = "plain",
    argv: tuple[str, ...] = (),
    **limits: Any,
) -> Job:
    """The run of a script `train.py` with `text`, in and from `folder`, a minute at most."""
    return Job(
        files={"train.py": textwrap.dedent(text), **(files or {})},
        root=str(folder),
        entry="train.py",
        cwd=str(folder),
        argv=argv,
        watch=watch,
        limits=replace(Limits(wall=60.0, cpu=60.0), **limits),
    )


def run(zygote: Zygote, job: Job) -> Report:
    return zygote.wait(zygote.submit(job))


def told(zygote: Zygote, folder: Path, setup: str, expression: str, **details: Any) -> Any:
    """The value of `expression` at the end of the script `setup`."""
    report = run(zygote, job(folder, textwrap.dedent(setup) + TELL.format(expression), **details))
    assert report.error_type == "Exception", report
    return json.loads(report.error or "")


# ---- how a run ends --------------------------------------------------------------------------------------------


def test_the_error_is_reported_with_its_message(zygote: Zygote, tmp_path: Path) -> None:
    report = run(zygote, job(tmp_path, FAILS))
    assert report.outcome == "failed"
    assert "is at version 1; expected version 0" in (report.failure or "")
    assert report.guard


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    y.sum().backward()\nexcept RuntimeError as e:\n    print(e)\n",
        "try:\n    torch.autograd.grad(y.sum(), x)\nexcept Exception:\n    pass\n",
        "import threading\nt = threading.Thread(target=y.sum().backward)\nt.start()\nt.join()\n",
    ],
    ids=["printed", "swallowed", "in a thread"],
)
def test_an_error_that_does_not_end_the_script_counts(zygote: Zygote, tmp_path: Path, body: str) -> None:
    assert run(zygote, job(tmp_path, FAILS.replace("y.sum().backward()\n", body))).outcome == "failed"


def test_another_error_is_reported_with_its_place(zygote: Zygote, tmp_path: Path) -> None:
    report = run(zygote, job(tmp_path, "import json\ndef f():\n    json.loads('{')\nf()\n"))
    assert (report.outcome, report.error_type) == ("raised", "JSONDecodeError")
    frame = report.error_frame
    assert frame is not None and (frame.file, frame.line, frame.function) == ("train.py", 3, "f")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("x = 1\n", "finished"),
        ("raise SystemExit\n", "finished"),
        ("raise SystemExit(0)\n", "finished"),
        ("raise SystemExit('usage')\n", "raised"),
        ("raise KeyboardInterrupt\n", "raised"),
        ("import missing_module\n", "raised"),
        ("x = = 1\n", "invalid"),
        ("x = '\0'\n", "invalid"),
        ("import os\nos.abort()\n", "killed"),
        ("import os\nos._exit(0)\n", "killed"),
        ("import ctypes\nctypes.string_at(0)\n", "killed"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "killed"),
    ],
)
def test_every_other_end_has_its_outcome(zygote: Zygote, tmp_path: Path, text: str, outcome: str) -> None:
    assert run(zygote, job(tmp_path, text)).outcome == outcome


@pytest.mark.parametrize("text", ["while True: pass\n", "import time\ntime.sleep(1000)\n"], ids=["busy", "asleep"])
def test_a_run_that_takes_too_long_is_stopped(zygote: Zygote, tmp_path: Path, text: str) -> None:
    report = run(zygote, job(tmp_path, text, wall=0.3))
    assert report.outcome == "timeout"
    assert 0.3 <= report.seconds < 5


STEPS = """
import torch
x = torch.ones(3, requires_grad=True)
for step in range(5):
    x.exp().sum().backward()
"""


@pytest.mark.parametrize(("most", "outcome"), [(None, "finished"), (5, "finished"), (4, "exhausted"), (0, "exhausted")])
def test_more_backward_passes_than_allowed_end_a_run(
    zygote: Zygote, tmp_path: Path, most: int | None, outcome: str
) -> None:
    assert run(zygote, job(tmp_path, STEPS, backwards=most)).outcome == outcome


def test_backward_passes_are_counted(zygote: Zygote, tmp_path: Path) -> None:
    assert run(zygote, job(tmp_path, STEPS)).backwards == 5


def test_reports_come_for_each_job_whatever_the_order_of_asking(zygote: Zygote, tmp_path: Path) -> None:
    tickets = [zygote.submit(job(tmp_path, f"raise Exception({n})\n")) for n in range(6)]
    assert [zygote.wait(ticket).error for ticket in reversed(tickets)] == ["5", "4", "3", "2", "1", "0"]


def test_large_jobs_and_reports_cross_at_the_same_time(zygote: Zygote, tmp_path: Path) -> None:
    padding = "# " + "x" * 2_000_000 + "\n"
    tickets = [zygote.submit(job(tmp_path, padding + "raise Exception('y' * 2_000_000)\n")) for _ in range(4)]
    assert [len(zygote.wait(ticket).error or "") for ticket in tickets] == [2_000_000] * 4


# ---- what a program sees ---------------------------------------------------------------------------------------


def test_a_script_sees_what_python_would_show_it(zygote: Zygote, tmp_path: Path) -> None:
    seen = told(zygote, tmp_path, "import os, sys", "[__name__, sys.argv]", argv=("--epochs", "3"))
    assert seen == ["__main__", ["train.py", "--epochs", "3"]]


@pytest.mark.parametrize("text", ["", "größe 3\n4\n", "\udcff\udc80"])
def test_a_script_reads_the_standard_input_it_is_given(zygote: Zygote, tmp_path: Path, text: str) -> None:
    setup = "import os, sys\nread = sys.stdin.buffer.read()\n" + TELL.format("os.fsdecode(read)")
    report = run(zygote, replace(job(tmp_path, setup), stdin=text))
    assert json.loads(report.error or "") == text


def test_a_script_finds_itself_in_its_folder(zygote: Zygote, tmp_path: Path) -> None:
    folder, file, path, text = told(
        zygote, tmp_path, "import os, sys", "[os.getcwd(), __file__, sys.path[0], open('train.py').readline()]"
    )
    assert (file, path, text) == (f"{folder}/train.py", folder, "import os, sys\n")


def started_below(root: Path, text: str) -> Job:
    """The run of `scripts/train.py`, below the program's root, from its own folder, with a file beside that folder."""
    (root / "scripts").mkdir()
    (root / "data.txt").write_text("7", encoding="utf-8")
    below = job(root, text, files={"scripts/train.py": text})
    return replace(below, entry="scripts/train.py", cwd=str(root / "scripts"), folders=("scripts",))


def test_a_script_started_below_the_root_finds_what_is_above_it_and_can_write_there(
    zygote: Zygote, tmp_path: Path
) -> None:
    report = run(
        zygote,
        started_below(
            tmp_path,
            "import os, sys\nopen('../new.txt', 'w').close()\n" + TELL.format("[open('../data.txt').read(), sys.argv]"),
        ),
    )
    assert json.loads(report.error or "") == ["7", ["train.py"]]
    assert not (tmp_path / "new.txt").exists()


def fill(folder: Path) -> None:
    """More files than a view shows one by one."""
    for number in range(2100):
        (folder / f"{number}.txt").touch()


def test_too_big_a_folder_above_leaves_the_users_own_alone(zygote: Zygote, tmp_path: Path) -> None:
    text = "open('new.txt', 'w').close()\n" + TELL.format("open('train.py').readline()")
    below = started_below(tmp_path, text)
    fill(tmp_path / "scripts")
    assert json.loads(run(zygote, below).error or "") == "open('new.txt', 'w').close()\n"
    assert not (tmp_path / "scripts" / "new.txt").exists()
    assert not (tmp_path / "scripts" / "train.py").exists()


@pytest.mark.parametrize("kind", ["big", "link", "hidden"])
def test_no_file_of_a_program_replaces_one_of_the_users(zygote: Zygote, tmp_path: Path, kind: str) -> None:
    """Their folder is not shown file by file: what a candidate is made of must not be written through the link."""
    name = ".pkg" if kind == "hidden" else "pkg"
    users = tmp_path / ("elsewhere" if kind == "link" else name)
    users.mkdir()
    (users / "nets.py").write_text("value = 0\n", encoding="utf-8")
    if kind == "link":
        (tmp_path / name).symlink_to(users)
    elif kind == "big":
        fill(users)
    before = (users / "nets.py").stat()
    text = TELL.format(f"open('{name}/nets.py').read()")
    report = run(zygote, job(tmp_path, text, files={f"{name}/nets.py": "value = 1\n", f"{name}/new.py": ""}))
    assert json.loads(report.error or "") == "value = 1\n"
    assert (users / "nets.py").read_text(encoding="utf-8") == "value = 0\n"
    assert (users / "nets.py").stat().st_ino == before.st_ino
    assert not (users / "new.py").exists()


def test_classes_of_the_script_can_be_pickled(zygote: Zygote, tmp_path: Path) -> None:
    setup = "import pickle\nclass C:\n    x = 7\n"
    assert told(zygote, tmp_path, setup, "pickle.loads(pickle.dumps(C())).x") == 7


def test_nothing_of_one_run_reaches_the_next(zygote: Zygote, tmp_path: Path) -> None:
    run(zygote, job(tmp_path, "import os, sys\nos.environ['LEFT'] = '1'\nsys.left = 1\nopen('left', 'w').close()\n"))
    seen = "['LEFT' in os.environ, hasattr(sys, 'left'), os.path.exists('left')]"
    assert told(zygote, tmp_path, "import os, sys", seen) == [False, False, False]


PACKAGE = {
    "pkg/__init__.py": "from .a import f\n",
    "pkg/a.py": "from . import b\nfrom .deep.c import C\n\ndef f():\n    return b.value + C\n",
    "pkg/b.py": "value = 40\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/c.py": "C = 2\n",
}


def test_local_modules_are_imported_from_memory(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "b.py").write_text("value = 0  # what is on disk does not count\n")
    assert told(zygote, tmp_path, "import pkg", "pkg.f()", files=PACKAGE) == 42


def test_a_module_tells_its_file_and_its_package(zygote: Zygote, tmp_path: Path) -> None:
    setup = "import os, pkg.a\nhere = os.getcwd()\n"
    seen = told(zygote, tmp_path, setup, "[here, pkg.a.__file__, pkg.a.__package__, pkg.__path__]", files=PACKAGE)
    assert seen[1:] == [f"{seen[0]}/pkg/a.py", "pkg", [f"{seen[0]}/pkg"]]


def test_a_local_module_hides_an_installed_one(zygote: Zygote, tmp_path: Path) -> None:
    assert told(zygote, tmp_path, "import colorsys", "colorsys.own", files={"colorsys.py": "own = 1\n"}) == 1


@pytest.mark.parametrize("where", ["train.py", "pkg/a.py"])
def test_sources_in_memory_can_be_inspected(zygote: Zygote, tmp_path: Path, where: str) -> None:
    setup = (
        "import inspect\ndef f():\n    return b.value + C\n"
        if where == "train.py"
        else "import inspect\nfrom pkg import f\n"
    )
    source = told(zygote, tmp_path, setup, "inspect.getsource(f)", files=PACKAGE)
    assert source == "def f():\n    return b.value + C\n"


def test_tracebacks_show_lines_of_sources_in_memory(zygote: Zygote, tmp_path: Path) -> None:
    setup = """
        import traceback
        text = '\x0c'  # a form feed does not end a line
        try:
            1 / 0  # here
        except ZeroDivisionError:
            shown = traceback.format_exc()
    """
    assert "1 / 0  # here" in told(zygote, tmp_path, setup, "shown")


def test_a_scripted_function_finds_its_source(zygote: Zygote, tmp_path: Path) -> None:
    setup = "import torch\n@torch.jit.script\ndef f(x: torch.Tensor):\n    return x + 1\n"
    assert told(zygote, tmp_path, setup, "f(torch.ones(())).item()") == 2


def test_modules_that_a_run_imports_are_reported_without_its_own(zygote: Zygote, tmp_path: Path) -> None:
    report = run(zygote, job(tmp_path, "import colorsys, json, pkg.a\n", files=PACKAGE))
    assert report.modules == ("colorsys",)  # json was there before


def test_modules_of_the_user_that_the_job_did_not_bring_are_reported_with_their_file(
    zygote: Zygote, tmp_path: Path
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "stray.py").write_text("x = 1\n")
    report = run(zygote, job(tmp_path, "import sys\nsys.path.insert(0, 'lib')\nimport stray\n"))
    assert report.strays == {"stray": str(tmp_path / "lib" / "stray.py")}


def test_a_hidden_file_is_neither_seen_nor_imported(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "gone.py").write_text("x = 1\n")
    look = replace(job(tmp_path, "import os\nassert not os.path.exists('pkg')\n"), hidden=("pkg/gone.py",))
    load = replace(job(tmp_path, "import pkg.gone\n"), hidden=("pkg/gone.py",))
    assert run(zygote, look).outcome == "finished"
    assert run(zygote, load).error_type == "ModuleNotFoundError"
    assert (tmp_path / "pkg" / "gone.py").exists()


def test_a_run_with_m_imports_its_package_first(zygote: Zygote, tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "import builtins\nbuiltins.seen = 1\n"}
    text = "import builtins\nraise ValueError(getattr(builtins, 'seen', None), __package__)\n"
    started = replace(job(tmp_path, "", files=files), entry="pkg/train.py", module="pkg.train")
    report = run(zygote, replace(started, files={**files, "pkg/train.py": text}))
    assert report.error == "(1, 'pkg')"


# ---- files and folders -----------------------------------------------------------------------------------------


def test_relative_paths_show_the_scripts_folder(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "numbers.txt").write_text("1 2 3")
    assert told(zygote, tmp_path, "", "open('data/numbers.txt').read()") == "1 2 3"


SAVES = """
import os, pathlib, torch
class Saved(Exception): pass
open('kept.txt', 'a').write(' and changed')
assert open('kept.txt').read() == 'kept and changed'
torch.save([1], 'model.pt')
assert torch.load('model.pt') == [1]
raise Saved
"""


@pytest.mark.parametrize("protection", ["kernel", "audit"])
def test_a_script_that_writes_to_files_of_its_folder_goes_on_and_the_files_stay(
    protection: Protection, zygote: Zygote, tmp_path: Path
) -> None:
    for name in ("kept.txt", "model.pt"):
        (tmp_path / name).write_text("kept")
    report = run(zygote, replace(job(tmp_path, SAVES), protection=protection))
    assert (report.error_type, report.written) == ("Saved", ("kept.txt", "model.pt"))
    assert [(tmp_path / name).read_text() for name in ("kept.txt", "model.pt")] == ["kept", "kept"]


@pytest.fixture
def layered(zygote: Zygote, tmp_path: Path) -> None:
    if "layers" not in run(zygote, job(tmp_path, "")).guard:
        pytest.skip("no throw-away layers here")


@pytest.mark.usefixtures("layered")
@pytest.mark.parametrize(
    "write",
    [
        "open(path, 'w').write('x')",
        "torch.save([1], path)",
        "subprocess.run(['cp', '/etc/hostname', path], check=True)",
        "ctypes.CDLL(None).close(ctypes.CDLL(None).creat(path.encode(), 0o600))",
    ],
    ids=["python", "torch", "another program", "native code"],
)
@pytest.mark.parametrize("place", ["/tmp", "~", "folder"])
def test_what_a_run_writes_elsewhere_is_there_for_it_alone(
    place: str, write: str, zygote: Zygote, tmp_path: Path
) -> None:
    where = str(tmp_path) if place == "folder" else os.path.expanduser(place)  # noqa: PTH111 - as scripts do
    path = f"{where}/shrinkrepro-test-{uuid.uuid4().hex}"
    setup = f"import ctypes, os, subprocess, torch\npath = {path!r}\n{write}\n"
    assert told(zygote, tmp_path, setup, "os.path.exists(path)") is True
    assert not Path(path).exists()
    assert told(zygote, tmp_path, f"import os\npath = {path!r}\n", "os.path.exists(path)") is False


@pytest.mark.usefixtures("layered")
def test_files_of_the_user_are_read_and_overwritten_by_their_whole_path(zygote: Zygote, tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("kept")
    setup = f"path = {str(path)!r}\nbefore = open(path).read()\nopen(path, 'w').write('lost')\n"
    assert told(zygote, tmp_path, setup, "[before, open(path).read()]") == ["kept", "lost"]
    assert path.read_text() == "kept"


@pytest.mark.usefixtures("layered")
def test_secrets_are_empty_for_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id_rsa").write_text("secret")
    (tmp_path / "home" / ".netrc").write_text("secret")
    look = (
        "import subprocess\nshown = subprocess.run('ls ~/.ssh; cat ~/.netrc', shell=True, capture_output=True).stdout"
    )
    with Zygote() as zygote:
        zygote.preload(("torch",))
        assert told(zygote, tmp_path, look, "shown.decode()") == ""


def test_variables_that_look_like_secrets_are_not_passed_on(tmp_path: Path) -> None:
    with Zygote({**os.environ, "HF_TOKEN": "secret", "HF_HOME": "/models"}) as zygote:
        zygote.preload(("torch",))
        see = "import os\nseen = [os.environ.get(name) for name in ('HF_TOKEN', 'HF_HOME', 'WANDB_API_KEY')]\n"
        given = replace(job(tmp_path, see + TELL.format("seen")), environment={"WANDB_API_KEY": "given"})
        assert run(zygote, given).error == '[null, "/models", "given"]'


def test_without_layers_the_home_folder_is_shown_in_the_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / ".cache" / "models").mkdir(parents=True)
    (tmp_path / "home" / ".cache" / "models" / "a.bin").write_text("precious")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = """
        import pathlib
        models = pathlib.Path.home() / '.cache' / 'models'
        (models / 'lock').write_text('')
        assert (models / 'a.bin').read_text() == 'precious'
        (models / 'a.bin').write_text('gone')
    """
    with Zygote() as zygote:
        zygote.preload(("torch",))
        report = run(zygote, replace(job(tmp_path, text), protection="audit"))
    assert (report.outcome, report.written) == ("finished", ("~/.cache/models/lock", "~/.cache/models/a.bin"))
    assert [path.name for path in (tmp_path / "home" / ".cache" / "models").iterdir()] == ["a.bin"]
    assert (tmp_path / "home" / ".cache" / "models" / "a.bin").read_text() == "precious"


def test_without_a_guard_only_limits_hold(zygote: Zygote, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.txt"
    report = run(zygote, replace(job(tmp_path, f"open({str(path)!r}, 'w').write('x')\n"), protection="off"))
    assert (report.outcome, report.guard, path.read_text()) == ("finished", "off", "x")


def test_a_fresh_interpreter_has_the_audit_hook_where_no_kernel_guards_it(zygote: Zygote, tmp_path: Path) -> None:
    text = f"import sys\nprint(__name__, sys.argv)\nopen({str(tmp_path / 'new')!r}, 'w')\n"
    report = run(zygote, replace(job(tmp_path, text, watch="fresh", argv=("a",)), protection="audit"))
    assert report.output.startswith("__main__ ['train.py', 'a']\n")
    assert (report.error_type, (tmp_path / "new").exists()) == ("PermissionError", False)


def test_files_that_a_run_makes_or_removes_are_its_own_affair(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    setup = "import os\nos.remove('kept.txt')\nopen('new.txt', 'w').write('new')\n"
    assert told(zygote, tmp_path, setup, "[os.path.exists('kept.txt'), open('new.txt').read()]") == [False, "new"]
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


def test_each_run_has_a_folder_and_temporary_files_of_its_own(zygote: Zygote, tmp_path: Path) -> None:
    setup = "import os, tempfile\n"
    first, second = (told(zygote, tmp_path, setup, "[os.getcwd(), tempfile.gettempdir()]") for _ in range(2))
    assert not {*first} & {*second}
    assert within(5, lambda: not any(Path(folder).exists() for folder in (*first, *second)))


# ---- what must not get away ------------------------------------------------------------------------------------

SLEEPERS = {
    "a subprocess": "subprocess.Popen(['sleep', '1000'])\n",
    "a subprocess in a session of its own": "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n",
    "a daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
os.wait()
""",
}


@linux_only
@pytest.mark.parametrize("ending", ["", "raise Exception\n", "os._exit(0)\n"], ids=["finished", "raised", "killed"])
@pytest.mark.parametrize("start", SLEEPERS.values(), ids=SLEEPERS.keys())
def test_processes_that_a_run_leaves_behind_are_ended(zygote: Zygote, tmp_path: Path, start: str, ending: str) -> None:
    before = guard.descendants(os.getpid())
    run(zygote, job(tmp_path, f"import os, subprocess, time\n{start}{ending}"))
    assert within(5, lambda: not set(guard.descendants(os.getpid())) - set(before))


@linux_only
def test_the_end_of_one_run_does_not_disturb_the_processes_of_another(zygote: Zygote, tmp_path: Path) -> None:
    patient = """
        import os, subprocess, time
        reader, writer = os.pipe()
        if os.fork() == 0:  # its parent ends at once, so it outlives it as an orphan
            if os.fork() == 0:
                time.sleep(1)
                os.write(writer, b'alive')
            os._exit(0)
        os.wait()
        os.close(writer)
        raise Exception(os.read(reader, 5).decode())
    """
    ticket = zygote.submit(job(tmp_path, patient))
    time.sleep(0.3)
    run(zygote, job(tmp_path, "x = 1\n"))
    assert zygote.wait(ticket).error == "alive"


@linux_only
def test_a_run_has_no_open_files_of_the_zygote(zygote: Zygote, tmp_path: Path) -> None:
    setup = """
        import pathlib
        descriptors = pathlib.Path('/proc/self/fd').iterdir()
        opened = [str(descriptor.readlink()) for descriptor in descriptors if descriptor.is_symlink()]
    """
    sockets = "[name for name in opened if name.startswith(('socket', 'anon_inode'))]"
    assert told(zygote, tmp_path, setup, sockets) == []


@linux_only
def test_closing_the_zygote_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    before = guard.descendants(os.getpid())
    with Zygote() as zygote:
        zygote.submit(job(tmp_path, "import subprocess\nsubprocess.run(['sleep', '1000'])\n"))
        assert within(30, lambda: len(set(guard.descendants(os.getpid())) - set(before)) >= 3)
        folder = Path(zygote._folder)
        assert folder.exists()
    assert set(guard.descendants(os.getpid())) <= set(before)
    assert not folder.exists()


def test_a_cancelled_job_is_ended_and_the_zygote_goes_on(zygote: Zygote, tmp_path: Path) -> None:
    for delay in (0, 0.05):
        ticket = zygote.submit(job(tmp_path, "import time\ntime.sleep(1000)\n"))
        time.sleep(delay)
        zygote.cancel(ticket)
    fresh = zygote.submit(job(tmp_path, "x = 1\n", watch="fresh"))
    zygote.cancel(fresh)
    assert run(zygote, job(tmp_path, "x = 1\n")).outcome == "finished"
    assert zygote._process.poll() is None


# ---- a damaged zygote ------------------------------------------------------------------------------------------


@linux_only
def test_a_zygote_that_was_killed_is_started_again_and_answers(bare: Zygote, tmp_path: Path) -> None:
    bare.preload(("colorsys",))
    tickets = [bare.submit(job(tmp_path, f"import time\ntime.sleep(0.3)\nraise Exception({n})\n")) for n in range(2)]
    left = Path(bare._folder)
    os.kill(bare._process.pid, signal.SIGKILL)
    assert [bare.wait(ticket).error for ticket in tickets] == ["0", "1"]
    assert not left.exists()


@linux_only
def test_a_job_that_is_there_each_time_the_zygote_dies_is_given_up(bare: Zygote, tmp_path: Path) -> None:
    ticket = bare.submit(job(tmp_path, "import time\ntime.sleep(1000)\n"))
    for _ in range(2):
        os.kill(bare._process.pid, signal.SIGKILL)
        bare._process.wait()
        if bare._jobs:
            bare.receive()
    assert bare.wait(ticket).outcome == "killed"


GARBAGE = {
    "not JSON": "garbage",
    "not a report": "[1, 2]",
    "no known outcome": '{"outcome": "banana"}',
    "a field of another type": '{"outcome": "finished", "seconds": "long"}',
    "an unknown field": '{"outcome": "finished", "extra": 1}',
    "another answer": '1},{"id":1,"report":2',
    "nested too deep": "[" * 100_000,
    "not text": "\\xff\\xfe",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_report_that_makes_no_sense_counts_as_killed(zygote: Zygote, tmp_path: Path, garbage: str) -> None:
    write = f"""
        import os, time
        for n in range(3, 64):
            try:
                os.write(n, b'''{garbage}''' + b'\\n')
            except OSError:
                pass
        time.sleep(1000)
    """
    report = run(zygote, job(tmp_path, write))
    assert report.outcome == "killed"
    assert "no sense" in (report.error or "")


# ---- preloading ------------------------------------------------------------------------------------------------


def test_modules_that_cannot_be_imported_are_named_with_the_reason(bare: Zygote) -> None:
    failed = bare.preload(("colorsys", "no_such_module"))
    assert list(failed) == ["no_such_module"]
    assert "ModuleNotFoundError" in failed["no_such_module"]


def test_what_is_preloaded_is_there_in_each_run(bare: Zygote, tmp_path: Path) -> None:
    bare.preload(("colorsys",))
    assert told(bare, tmp_path, "import sys\n", "['colorsys' in sys.modules, 'chunk' in sys.modules]") == [True, False]


def test_a_module_that_starts_threads_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "threading_module.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    )
    with Zygote({**os.environ, "PYTHONPATH": str(tmp_path)}) as zygote:
        assert zygote.preload(("threading_module",)) == {"threading_module": "importing it starts threads"}
        assert told(zygote, tmp_path, "import sys\n", "'threading_module' in sys.modules") is False


def test_what_is_imported_ahead_is_there_in_each_run(tmp_path: Path) -> None:
    with Zygote(ahead=["colorsys"]) as zygote:
        assert told(zygote, tmp_path, "import sys\n", "'colorsys' in sys.modules") is True


def test_a_zygote_that_imports_something_long_ends_at_once_when_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "takes_minutes.py").write_text("import time\ntime.sleep(60)\n")
    with Zygote({**os.environ, "PYTHONPATH": str(tmp_path)}, ahead=["takes_minutes"]):
        started = time.monotonic()
    assert time.monotonic() - started < 20


# ---- a fresh interpreter ---------------------------------------------------------------------------------------


def test_a_fresh_interpreter_shows_the_error_in_its_output(zygote: Zygote, tmp_path: Path) -> None:
    report = run(zygote, job(tmp_path, FAILS, watch="fresh"))
    assert report.outcome == "failed"
    assert "expected version 0" in (report.failure or "")


@pytest.mark.parametrize(
    ("text", "outcome", "error"),
    [
        ("print('done')\n", "finished", None),
        ("raise ValueError('why')\n", "raised", "why"),
        ("import os\nos.abort()\n", "killed", "killed by signal 6 (SIGABRT)"),
    ],
)
def test_other_ends_of_a_fresh_interpreter(
    zygote: Zygote, tmp_path: Path, text: str, outcome: str, error: str | None
) -> None:
    report = run(zygote, job(tmp_path, text, watch="fresh"))
    assert (report.outcome, report.error) == (outcome, error)


def test_a_fresh_interpreter_that_takes_too_long_is_stopped(zygote: Zygote, tmp_path: Path) -> None:
    assert run(zygote, job(tmp_path, "while True: pass\n", watch="fresh", wall=0.5)).outcome == "timeout"


def test_a_fresh_interpreter_that_has_printed_the_error_is_not_waited_for(zygote: Zygote, tmp_path: Path) -> None:
    lingering = f"import atexit, time\natexit.register(time.sleep, 60)\n{FAILS}"
    report = run(zygote, job(tmp_path, lingering, watch="fresh"))
    assert (report.outcome, report.seconds < 30) == ("failed", True)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux weighs sessions")
def test_a_patient_job_lets_others_go_first(zygote: Zygote, tmp_path: Path) -> None:
    text = """\
import os, pathlib
print(os.nice(0))
for group in pathlib.Path("/proc/self").glob("autogroup"):
    assert group.read_text().endswith("nice 10\\n")
"""
    report = run(zygote, replace(job(tmp_path, text, watch="fresh"), patient=True))
    assert (report.outcome, report.output) == ("finished", f"{min(os.nice(0) + 10, 19)}\n")


def test_a_fresh_interpreter_has_nothing_of_the_warm_process(zygote: Zygote, tmp_path: Path) -> None:
    report = run(zygote, job(tmp_path, "import sys\nprint('torch' in sys.modules, __name__)\n", watch="fresh"))
    assert report.output == "False __main__\n"


def test_a_fresh_interpreter_runs_the_program_and_not_what_is_on_disk(zygote: Zygote, tmp_path: Path) -> None:
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text("print('on disk')\n")
    files = {"other.py": "print('other in memory')\n"}
    report = run(zygote, job(tmp_path, "import other\nprint('in memory')\n", files=files, watch="fresh"))
    assert report.output == "other in memory\nin memory\n"
    assert (tmp_path / "train.py").read_text() == "print('on disk')\n"


@pytest.mark.parametrize("cwd", [".", "scripts", "elsewhere"])
def test_a_fresh_interpreter_finds_data_by_its_folder_and_beside_its_file(
    zygote: Zygote, tmp_path: Path, cwd: str
) -> None:
    for name in ("scripts/beside.txt", "elsewhere/data.txt", "scripts/data.txt", "data.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    text = (
        "import pathlib\nprint(pathlib.Path(__file__).with_name('beside.txt').read_text(), open('data.txt').read())\n"
    )
    report = run(zygote, replace(job(tmp_path / "scripts", text, watch="fresh"), cwd=str(tmp_path / cwd)))
    assert report.output == f"scripts/beside.txt {(Path(cwd) / 'data.txt').as_posix()}\n"


def test_a_fresh_interpreter_reads_the_encoding_that_a_file_declares(zygote: Zygote, tmp_path: Path) -> None:
    report = run(zygote, job(tmp_path, "# coding: latin-1\nprint(len('é'))\n", watch="fresh"))
    assert report.output == "1\n"


@linux_only
def test_the_zygote_ends_when_its_client_is_killed(tmp_path: Path) -> None:
    client = f"""
import time
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.runtime.messages import Job
zygote = Zygote()
text, folder = "import subprocess; subprocess.run(['sleep', '1000'])", {str(tmp_path)!r}
zygote.submit(Job({{"a.py": text}}, folder, "a.py", folder))
print(zygote._folder, flush=True)
time.sleep(1000)
"""
    process = subprocess.Popen([sys.executable, "-c", client], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert within(30, lambda: len(guard.descendants(process.pid)) >= 3)
    family = guard.descendants(process.pid)
    process.kill()
    process.wait()
    assert within(5, lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in family))
    assert within(5, lambda: not folder.exists())


def test_data_loaders_find_room_for_their_sockets_however_long_the_name_of_the_temporary_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    monkeypatch.setattr(tempfile, "tempdir", None)
    text = """
        import torch
        for batch in torch.utils.data.DataLoader(torch.ones(2, 1), num_workers=1):
            pass
    """
    with Zygote() as zygote:
        zygote.preload(("torch",))
        assert run(zygote, job(tmp_path, text)).outcome == "finished"


def test_a_short_temporary_folder_that_the_user_names_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        with Zygote():
            assert within(10, lambda: any(Path(folder).glob("shrinkrepro-*")))


def test_a_job_that_is_nowhere_has_a_folder_with_nothing_but_its_files(zygote: Zygote, tmp_path: Path) -> None:
    text = "import os, sys\nraise Exception(sorted(os.listdir()))\n"
    report = run(zygote, replace(job(tmp_path, text), root=NOWHERE, cwd=NOWHERE))
    assert report.error == "['train.py']"
