from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus.generate.shared import Shared
from shrinkrepro.bisection import Trials, alternative, best, mend, smallest
from shrinkrepro.failure import parse
from shrinkrepro.isolation.backend import Backend
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.pipeline import Options, bisect
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Program
from shrinkrepro.proof import Comparison, Proof
from shrinkrepro.repair import Kind, Repair
from shrinkrepro.results import Attempt, Mending
from shrinkrepro.runtime.messages import Frame, Job, Limits, Mutation, Numbers, Pass, Place, Report, Trace, Written

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [1]], which is output 0 of ExpBackward0, is at version {version}; expected version 0 instead."
)

# ---- the smallest set


@given(st.integers(1, 100), st.data())
def test_the_smallest_set_is_the_one_that_is_needed(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=4))
    assert smallest(count, lambda indices: needed <= set(indices)) == tuple(sorted(needed))


@given(st.integers(1, 100), st.data())
def test_no_index_of_the_smallest_set_can_be_left_out(count: int, data: st.DataObject) -> None:
    indices = st.sets(st.integers(0, count - 1), min_size=1, max_size=3)
    enough = data.draw(st.lists(indices, min_size=1, max_size=4))

    def holds(chosen: Sequence[int]) -> bool:
        return any(alternative <= set(chosen) for alternative in enough)

    found = smallest(count, holds)
    assert found is not None
    assert holds(found)
    assert not any(holds([other for other in found if other != left_out]) for left_out in found)


def test_one_of_a_hundred_is_found_with_ten_questions() -> None:
    asked: list[Sequence[int]] = []

    def holds(indices: Sequence[int]) -> bool:
        asked.append(indices)
        return 62 in indices

    assert smallest(100, holds) == (62,)
    assert len(asked) <= 10


def test_there_is_no_smallest_set_where_even_all_do_not_suffice() -> None:
    assert smallest(7, lambda indices: False) is None


# ---- the best attempt

SAME, OFF = Comparison(same=True, difference=0.0), Comparison(same=False, difference=1.0)
PROGRAM = Program.of("x = 1\n")


def attempt(proof: Proof, edits: int = 1, kind: Kind = "copy") -> Attempt:
    return Attempt((Repair(Patch(()), kind, "program.py", 1, ""),) * edits, PROGRAM, proof)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Proof(True, "finished", SAME, SAME, SAME), Proof(True, "finished", SAME, SAME, OFF)),
        (Proof(True, "finished", SAME, SAME, OFF), Proof(True, "finished", SAME, OFF, SAME)),
        (Proof(True, "finished", SAME, OFF, OFF), Proof(True, "finished", OFF, SAME, SAME)),
        (Proof(True, "finished", SAME, SAME, SAME), Proof(True, "finished")),
        (Proof(True, "finished"), Proof(True, "finished", OFF, OFF, OFF)),
    ],
)
def test_what_changes_fewer_numbers_is_better(better: Proof, worse: Proof) -> None:
    chosen = best([attempt(worse), attempt(better, edits=2)])
    assert chosen is not None
    assert chosen.proof == better


@pytest.mark.parametrize("kind", ["detach", "recompute"])
def test_what_cuts_a_graph_comes_after_what_only_writes_elsewhere(kind: Kind) -> None:
    cutting = attempt(Proof(True, "finished", SAME, OFF, OFF), kind=kind)
    copying = attempt(Proof(True, "finished", OFF, OFF, OFF))
    assert best([cutting, copying]) is copying


@pytest.mark.parametrize("kind", ["detach", "recompute"])
def test_what_is_proven_comes_first_even_if_it_cuts_a_graph(kind: Kind) -> None:
    cutting = attempt(Proof(True, "finished", SAME, SAME, SAME), kind=kind)
    copying = attempt(Proof(True, "finished", OFF, OFF, OFF))
    assert best([copying, cutting]) is cutting


def test_of_equals_the_one_with_fewer_edits_is_best() -> None:
    proof = Proof(True, "finished", SAME, SAME, SAME)
    chosen = best([attempt(proof, edits=2), attempt(proof)])
    assert chosen is not None
    assert len(chosen.repairs) == 1


def test_what_does_not_stop_the_crash_is_never_best() -> None:
    assert best([attempt(Proof(False, "failed", SAME)), attempt(Proof(True, "failed", SAME, SAME, SAME))]) is None


CHANGING = Proof(True, "finished", SAME, OFF, OFF)
PROVEN = Proof(True, "finished", SAME, SAME, SAME)


@pytest.mark.parametrize("kind", ["move", "detach"])
def test_beside_copies_of_parameters_stands_what_most_people_would_write(kind: Kind) -> None:
    plain, chosen = attempt(CHANGING, kind=kind), attempt(PROVEN, kind="copy parameters")
    assert alternative([plain, chosen], chosen) is plain


@pytest.mark.parametrize(
    ("plain", "chosen"),
    [
        (attempt(CHANGING, kind="detach"), attempt(PROVEN, kind="copy")),
        (attempt(CHANGING, kind="recompute"), attempt(PROVEN, kind="copy parameters")),
        (attempt(Proof(False, "failed"), kind="detach"), attempt(PROVEN, kind="copy parameters")),
    ],
    ids=["the repair is plain itself", "no plain edit", "the crash is not gone"],
)
def test_otherwise_the_repair_stands_alone(plain: Attempt, chosen: Attempt) -> None:
    assert alternative([plain, chosen], chosen) is None


# ---- the search, on runs that are made up

TWO_CULPRITS = "a += 1\nb += 1\nc += 1\nloss.backward()\n"


class Scripted:
    """A backend whose programs fail until each of `harmful`, statements that write, is gone or writes a copy."""

    def __init__(self, harmful: Sequence[str], *, traced: bool = True, loss: Callable[[str], float] = lambda text: 1.0):
        self.harmful, self.traced, self.loss = harmful, traced, loss
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> int:
        self.jobs.append(job)
        return len(self.jobs) - 1

    def wait(self, ticket: int) -> Report:
        job = self.jobs[ticket]
        text = job.files["train.py"]
        lines = text.splitlines()
        left = [s for s in self.harmful if s in lines and f"{s[0]} = {s[0]}.clone()" not in lines]
        fails = bool(left) and not job.hint.get("reference")
        one = Pass(1, (number(self.loss(text)),), () if fails else (number(2.0),), finished=not fails)
        if not fails:
            return Report("finished", backwards=1, passes=(one,))
        trace = self.trace(text, left) if job.watch in ("trace", "poll") else None
        return Report("failed", failure=MESSAGE.format(version=len(left)), trace=trace, passes=(one,))

    def trace(self, text: str, left: Sequence[str]) -> Trace:
        places = [at(text, statement) for statement in left]
        mutations = tuple(Mutation(place, 0, 1) for place in places) if self.traced else ()
        written = tuple(Written(place, 1, 1) for place in places)
        return Trace(MESSAGE.format(version=len(left)), None, None, None, mutations, None, written=written)

    def cancel(self, ticket: int) -> None:
        pass

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        return {}

    def close(self) -> None:
        pass


def number(value: float) -> Numbers:
    return Numbers((), "torch.float32", str(value), value, "")


def at(text: str, statement: str) -> Place:
    return Place("add_", (Frame("train.py", text.splitlines().index(statement) + 1, "<module>"),))


def trials(backend: Backend, text: str = TWO_CULPRITS, most: int = 60) -> Trials:
    failure = parse(MESSAGE.format(version=len(backend.harmful) if isinstance(backend, Scripted) else 1))
    assert failure is not None
    return Trials(Program.of(text, "train.py"), failure, Workers(backend, 1), 1, Limits(), 1.0, most)


def mended(mending: Mending) -> str:
    assert mending.chosen is not None
    return mending.chosen.program.entry.text


def test_one_culprit_takes_one_edit() -> None:
    mending = mend(trials(Scripted(["b += 1"])))
    assert mended(mending) == "a += 1\nb = b + 1\nc += 1\nloss.backward()\n"


def test_two_culprits_take_two_edits_and_each_is_needed() -> None:
    mending = mend(trials(Scripted(["a += 1", "c += 1"])))
    assert mended(mending) == "a = a + 1\nb += 1\nc = c + 1\nloss.backward()\n"
    assert mending.minimal is True


def test_the_lines_of_edits_are_those_of_the_original() -> None:
    mending = mend(trials(Scripted(["x[0] += 1", "c += 1"]), "x[0] += 1\nb = 2\nc += 1\nloss.backward()\n"))
    assert mended(mending) == "x = x.clone()\nx[0] += 1\nb = 2\nc = c + 1\nloss.backward()\n"
    assert mending.chosen is not None
    assert [repair.line for repair in mending.chosen.repairs] == [1, 3]


def test_a_known_culprit_is_mended_with_three_runs() -> None:
    backend = Scripted(["b += 1"])
    mending = mend(trials(backend))
    assert [job.watch for job in backend.jobs] == ["trace", "prove", "prove"]
    assert mending.runs == 3


def test_where_no_trace_helps_the_statements_are_bisected() -> None:
    text = "".join(f"x{index} += 1\n" for index in range(100)) + "loss.backward()\n"
    backend = Scripted(["x41 += 1"], traced=False)
    mending = mend(trials(backend, text))
    assert "x41 = x41 + 1\n" in mended(mending)
    assert mended(mending).count("+=") == 99
    assert mending.runs <= 40


def test_where_nothing_stops_the_crash_nothing_is_chosen() -> None:
    mending = mend(trials(Scripted(["loss.backward()"])))
    assert mending.chosen is None


def test_a_search_that_has_used_up_its_runs_says_so() -> None:
    mending = mend(trials(Scripted(["a += 1", "c += 1"]), most=4))
    assert mending.runs == 4
    assert mending.notes == ("Stopped after 4 runs: no repair until then.",)


def test_a_repair_that_changes_the_loss_is_not_proven_and_the_search_goes_on() -> None:
    backend = Scripted(["b += 1"], loss=lambda text: 5.0 if "b = b + 1" in text else 1.0)
    mending = mend(trials(backend, "b += 1\nloss.backward()\n"))
    assert len(mending.attempts) > 1


# ---- the search, on real programs


@pytest.fixture(scope="module")
def backend() -> Iterator[Shared]:
    with Shared() as shared:
        yield shared


def run(text: str, folder: Path, backend: Shared) -> Mending:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    return bisect(load_script(str(script)), Options(timeout=120, jobs=1), start=backend).mending


@pytest.mark.slow
@pytest.mark.parametrize("planted", range(3))
def test_the_planted_write_among_harmless_ones_is_the_one_that_is_edited(
    planted: int, tmp_path: Path, backend: Shared
) -> None:
    saving = [f"y{index} = torch.exp(x + {index})" for index in range(3)]
    writes = [f"b{index} = torch.zeros(2)\nb{index} += 1" for index in range(3)]
    lines = [*saving, *writes, f"y{planted} *= 2", "(y0 * y1 * y2).sum().log().backward()", "print(x.grad)"]
    mending = run("import torch\nx = torch.ones(2, requires_grad=True)\n" + "\n".join(lines) + "\n", tmp_path, backend)
    assert mending.chosen is not None
    assert mending.chosen.proof.complete
    assert [repair.source for repair in mending.chosen.repairs] == [f"y{planted} *= 2"]


@pytest.mark.slow
def test_an_average_of_weights_is_not_lost_to_a_loop_variable(tmp_path: Path, backend: Shared) -> None:
    """`slow = slow.lerp(...)` would stop the crash and the average: at this rate no loss of four steps shows it."""
    text = """
        import copy
        import torch
        torch.manual_seed(0)
        student = torch.nn.Linear(4, 4)
        teacher = copy.deepcopy(student).requires_grad_(False)
        opt = torch.optim.SGD(student.parameters(), lr=0.01)
        for step in range(4):
            loss = teacher(student(torch.randn(8, 4))).pow(2).mean()
            for slow, fast in zip(teacher.parameters(), student.parameters()):
                slow.lerp_(fast.detach(), 1e-6)
            opt.zero_grad()
            loss.backward()
            opt.step()
    """
    mending = run(text, tmp_path, backend)
    assert mending.chosen is not None
    assert mending.chosen.proof.complete
    assert "        slow.lerp_(fast.detach(), 1e-6)\n" in mending.chosen.program.entry.text


@pytest.mark.slow
def test_an_alias_that_must_see_the_write_keeps_seeing_it(tmp_path: Path, backend: Shared) -> None:
    """Written out-of-place, the sum would not change with `y`: only a copy of what is saved leaves the loss alone."""
    text = (
        "import torch\nx = torch.ones(2, requires_grad=True)\ny = torch.exp(x)\nalias = y\ny += 1\n"
        "alias.sum().backward()\n"
    )
    mending = run(text, tmp_path, backend)
    assert mending.chosen is not None
    assert mending.chosen.proof.complete
    assert "torch.exp(x).clone()" in mending.chosen.program.entry.text
    assert any(tried.proof.loss and math.isclose(tried.proof.loss.difference, 2.0) for tried in mending.attempts)


TRANSFORM = """
    import torch
    w = torch.arange(1.0, 4.0, requires_grad=True)
    cubed = torch.func.grad(lambda t: (t**3).sum())(w)
    y = w.sigmoid()
    y += 1
    (y * cubed).sum().backward()
"""
SILENT = """
    import torch
    w = torch.arange(1.0, 4.0, requires_grad=True)
    other = torch.ones(3)
    y, z = w.sigmoid(), w * other
    other.data.mul_(3)
    y += 1
    (y * z).sum().backward()
"""
SECOND_DERIVATIVE = """
    import torch
    w = torch.arange(1.0, 4.0, requires_grad=True)
    (g,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
    with torch.no_grad():
        w.mul_(2)
    (g + w).sum().backward()
"""
REENTRANT = """
    import torch
    from torch.utils.checkpoint import checkpoint
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 3)
    x = torch.ones(3, requires_grad=True)
    y = x.sigmoid()
    y_sum = y.sum()
    h = checkpoint(net, x * 2, use_reentrant=True)
    y += 1
    (y_sum + y.sum() + h.sum()).backward()
"""
HOOK = """
    import torch
    w = torch.arange(1.0, 4.0, requires_grad=True)
    net = torch.nn.Sigmoid()
    net.register_forward_hook(lambda module, inputs, output: print(output.clamp_(min=0.9).shape))
    net(w).sum().backward()
"""
ITSELF = """
    import torch
    w = torch.arange(4.0, requires_grad=True)
    grid = (w * 1).view(2, 2)
    grid.view(-1).addcmul_(grid.view(-1), grid.view(-1))
    grid.sum().backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "edited"),
    [
        (TRANSFORM, "y = y + 1\n"),
        (SILENT, "y = y + 1\n"),
        (SECOND_DERIVATIVE, "(w.clone()**3)"),
        (REENTRANT, "y = y + 1\n"),
        (HOOK, "net.register_forward_hook(lambda module, inputs, output: output.clone())\n"),
        (ITSELF, "addcmul_(grid.view(-1).clone(), grid.view(-1).clone())"),
    ],
    ids=[
        "torch.func",
        "a silent write beside",
        "second derivative",
        "reentrant checkpoint",
        "hook",
        "writes what it reads",
    ],
)
def test_a_repair_is_proven(text: str, edited: str, tmp_path: Path, backend: Shared) -> None:
    mending = run(text, tmp_path, backend)
    assert mending.chosen is not None
    assert mending.chosen.proof.complete
    assert edited in mended(mending)


@pytest.mark.slow
def test_another_error_of_the_script_that_the_crash_has_hidden_is_told(tmp_path: Path, backend: Shared) -> None:
    text = """
        import torch
        w = torch.ones(2, 3, requires_grad=True)
        y = w * w
        with torch.no_grad():
            w.t_()
        y.sum().backward()
    """
    mending = run(text, tmp_path, backend)
    assert not any(tried.proof.complete for tried in mending.attempts)
    assert "where it ended with RuntimeError: The size of tensor a" in mending.notes[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "001-gan-step-order",
        "013-moco-queue",
        "017-cosine-head-normalise",
        "028-two-culprits-router",
        "107-hook-scales-gate",
    ],
)
def test_a_case_has_a_proven_repair(case: str) -> None:
    entry = next(CORPUS.joinpath(case).glob("[!g]*.py"))
    mending = bisect(load_script(str(entry)), Options(timeout=300)).mending
    assert mending.chosen is not None
    assert mending.chosen.proof.complete
    assert mending.minimal is True


@pytest.mark.slow
def test_the_warm_process_proves_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = torch.ones(1, requires_grad=True)\n(x * 3).backward()\n", encoding="utf-8")
    with closing(Zygote()) as backend:
        work = trials(backend, script.read_text(encoding="utf-8"))
        _, proof = work.prove(work.program)
    assert proof.complete
