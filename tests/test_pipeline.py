from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.facts import Facts
from shrinkrepro.pipeline import (
    Event,
    Explained,
    Options,
    Repairing,
    Verifying,
    explain,
    reduce,
    static_imports,
)
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Invocation, Program, SourceFile
from shrinkrepro.runtime.messages import Frame, Job, Mutation, Place, Report, Trace
from shrinkrepro.stability import Stability

SCRIPT = """\
import torch
x = torch.ones(1, requires_grad=True)
print("noise")
y = x.exp()
print("more noise")
y += 1
y.sum().backward()
"""
PROGRAM = Program.of(SCRIPT, "train.py")
MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [1]], which is output 0 of ExpBackward0, is at version 1; expected version 0 instead."
)


def trace_of(text: str) -> Trace:
    """What a tracer would say about a version of SCRIPT that fails."""

    def place(fragment: str, operator: str) -> Place:
        line = next(number for number, line in enumerate(text.splitlines(), 1) if fragment in line)
        return Place(operator, (Frame("train.py", line, "<module>"),))

    write = Mutation(place("y += 1", "add_"), 0, 1)
    return Trace(MESSAGE, "ExpBackward0", "_saved_result", place("exp", "exp"), (write,), place("backward", "backward"))


def behave(job: Job) -> Report:
    """How SCRIPT, or what is left of it, runs."""
    text = job.files["train.py"]
    if not all(part in text for part in ("exp()", "y += 1", "backward")):
        return Report("finished", guard="landlock 7")
    trace = trace_of(text) if job.watch in ("trace", "poll") else None
    return Report("failed", failure=MESSAGE, trace=trace, seconds=0.1, guard="landlock 7", modules=("numpy", "torch.x"))


class Backend:
    """Runs nothing: answers each job at once as it is told to, and remembers what it was asked."""

    def __init__(self, behave: Callable[[Job], Report] = behave, threads: tuple[str, ...] = ()) -> None:
        self.jobs: list[Job] = []
        self.preloaded: list[tuple[str, ...]] = []
        self.closed = False
        self._behave, self._threads = behave, threads

    def submit(self, job: Job) -> int:
        self.jobs.append(job)
        return len(self.jobs) - 1

    def wait(self, ticket: int) -> Report:
        return self._behave(self.jobs[ticket])

    def cancel(self, ticket: int) -> None:
        pass

    def preload(self, modules: tuple[str, ...]) -> dict[str, str]:
        self.preloaded.append(modules)
        return {name: "importing it starts threads" for name in modules if name in self._threads}

    def close(self) -> None:
        self.closed = True

    def watched(self) -> list[str]:
        return [job.watch for job in self.jobs]


def delete_statements(program: Program, facts: Facts) -> Iterator[Patch]:
    for statement in reversed(facts.tree("train.py").statements):
        yield Patch((statement.delete(),))


def every_other(answers: list[Report]) -> Callable[[Job], Report]:
    """Plain runs end as `answers` say in turn, other runs as they should."""
    turns = iter(answers)
    return lambda job: next(turns) if job.watch == "plain" else behave(job)


FAILED = Report("failed", failure=MESSAGE, seconds=0.1, guard="landlock 7")
PASSED = Report("finished", guard="landlock 7")


def test_an_explanation_names_what_saved_changed_and_needed_the_tensor() -> None:
    diagnosis = explain(PROGRAM, start=Backend).diagnosis
    places = (diagnosis.saved, diagnosis.culprit, diagnosis.needed)
    assert [place and place.source for place in places] == ["y = x.exp()", "y += 1", "y.sum().backward()"]


def test_listeners_hear_of_the_explanation() -> None:
    events: list[Event] = []
    explanation = explain(PROGRAM, listeners=[events.append], start=Backend)
    assert events == [Explained(explanation)]


def test_the_backend_is_closed_when_the_script_does_not_fail() -> None:
    backend = Backend(lambda job: PASSED)
    with pytest.raises(ShrinkReproError):
        explain(PROGRAM, start=lambda: backend)
    assert backend.closed


def test_a_failure_that_does_not_come_back_is_unstable() -> None:
    with pytest.raises(ShrinkReproError) as problem:
        explain(PROGRAM, start=lambda: Backend(every_other([FAILED, PASSED])))
    assert problem.value.exit is Exit.UNSTABLE


def test_a_failure_that_comes_back_as_another_one_is_unstable() -> None:
    other = replace(FAILED, failure=MESSAGE.replace("ExpBackward0", "SigmoidBackward0"))
    with pytest.raises(ShrinkReproError) as problem:
        explain(PROGRAM, start=lambda: Backend(every_other([FAILED, other])))
    assert problem.value.exit is Exit.UNSTABLE


def test_a_failure_in_the_traced_run_alone_is_unstable() -> None:
    with pytest.raises(ShrinkReproError) as problem:
        explain(PROGRAM, start=lambda: Backend(every_other([PASSED])))
    assert problem.value.exit is Exit.UNSTABLE


def test_with_tries_a_failure_may_be_missing_now_and_then() -> None:
    backend = Backend(every_other([PASSED, FAILED] * 20))
    assert explain(PROGRAM, Options(tries=2), start=lambda: backend).exit is Exit.DONE


def test_a_failure_that_the_tracer_hides_is_looked_for_by_polling() -> None:
    def hidden(job: Job) -> Report:
        return PASSED if job.watch == "trace" else behave(job)

    backend = Backend(hidden)
    explanation = explain(PROGRAM, start=lambda: backend)
    assert explanation.diagnosis.culprit is not None
    assert backend.jobs[-1].hint["message"] == MESSAGE
    assert any("tracer hides" in note for note in explanation.notes)


def test_a_write_that_the_tracer_misses_is_looked_for_by_polling() -> None:
    def missed(job: Job) -> Report:
        report = behave(job)
        if job.watch == "trace" and report.trace is not None:
            return replace(report, trace=replace(report.trace, mutations=()))
        return report

    backend = Backend(missed)
    explanation = explain(PROGRAM, start=lambda: backend)
    assert explanation.diagnosis.culprit is not None
    assert backend.jobs[-1].hint["node"] == "ExpBackward0"


def test_a_write_that_nothing_sees_is_not_explained() -> None:
    def missed(job: Job) -> Report:
        report = behave(job)
        return replace(report, trace=replace(report.trace, mutations=())) if report.trace else report

    explanation = explain(PROGRAM, start=lambda: Backend(missed))
    assert explanation.exit is Exit.NOT_EXPLAINED
    assert explanation.notes == ("No statement that writes to the saved tensor was found.",)


def test_torch_and_what_the_script_imports_is_preloaded_then_what_it_turned_out_to_import() -> None:
    backend = Backend()
    explain(Program.of("import json\n" + SCRIPT, "train.py"), start=lambda: backend)
    assert backend.preloaded == [("torch",), ("json",), ("torch.x",), ("numpy",)]


def test_the_modules_behind_optimizers_are_preloaded_for_scripts_that_speak_of_them() -> None:
    backend = Backend()
    explain(Program.of(SCRIPT + "torch.optim.SGD([x])\n", "train.py"), start=lambda: backend)
    assert backend.preloaded[0] == ("torch", "torch._dynamo")


def test_a_module_that_cannot_be_preloaded_because_of_its_threads_is_mentioned() -> None:
    explanation = explain(PROGRAM, start=lambda: Backend(threads=("numpy",)))
    assert explanation.notes == ("Each run imports numpy anew: importing that ahead would start threads.",)


def test_runs_without_the_kernels_help_are_mentioned() -> None:
    weak = Backend(lambda job: replace(behave(job), guard="audit hook"))
    assert "audit hook" in explain(PROGRAM, start=lambda: weak).notes[0]


def test_runs_without_a_guard_are_mentioned() -> None:
    free = Backend(lambda job: replace(behave(job), guard="off", written=("a.pt",)))
    assert explain(PROGRAM, start=lambda: free).notes == (
        "The runs were not guarded, as --guard off says: they could write and send whatever the script does.",
    )


def test_the_files_that_the_script_writes_are_mentioned() -> None:
    busy = Backend(lambda job: replace(behave(job), written=("a.pt", "/tmp/b", "c", "d", "e", "f")))
    assert explain(PROGRAM, start=lambda: busy).notes == (
        "The script writes a.pt, /tmp/b, c, d and 2 more; each run wrote to a copy that is thrown away.",
    )


def test_every_run_is_guarded_as_the_program_is_to_be() -> None:
    backend = Backend()
    call = replace(PROGRAM.invocation, protection="audit")
    reduce(replace(PROGRAM, invocation=call), passes=[delete_statements], start=lambda: backend)
    assert {job.protection for job in backend.jobs} == {"audit"}


def test_a_reduction_ends_at_the_smallest_program_that_fails() -> None:
    result = reduce(PROGRAM, passes=[delete_statements], start=Backend)
    assert result.reduced is not None
    assert "noise" not in result.reduced.program.entry.text
    assert result.exit is Exit.DONE


def test_the_smallest_program_is_laid_out_as_pythons_printer_would() -> None:
    program = Program.of(SCRIPT.replace("torch.ones(1, ", "torch.ones( 1,"), "train.py")
    result = reduce(program, passes=[delete_statements], start=Backend)
    assert result.reduced is not None
    assert "torch.ones(1, requires_grad=True)" in result.reduced.program.entry.text


def test_a_reduction_says_where_the_culprit_is_now() -> None:
    result = reduce(PROGRAM, passes=[delete_statements], start=Backend)
    assert result.reduced is not None
    assert result.reduced.diagnosis.culprit is not None
    assert result.reduced.diagnosis.culprit.line == 4


def test_the_smallest_program_is_run_in_fresh_interpreters_with_three_hash_seeds() -> None:
    backend = Backend()
    reduce(PROGRAM, passes=[], start=lambda: backend)
    fresh = [job for job in backend.jobs if job.watch == "fresh"]
    assert [job.environment["PYTHONHASHSEED"] for job in fresh] == ["1", "2", "3"]


def test_a_program_that_fails_only_in_the_warm_process_gives_way_to_the_last_that_fails_anywhere() -> None:
    def needs_noise(job: Job) -> Report:
        return PASSED if job.watch == "fresh" and "more noise" not in job.files["train.py"] else behave(job)

    def one_by_one(program: Program, facts: Facts) -> Iterator[Patch]:
        noise = [s for s in facts.tree("train.py").statements if "noise" in program.text(s.code)]
        yield from [Patch((statement.delete(),)) for statement in noise[:1]]

    result = reduce(PROGRAM, passes=[one_by_one], start=lambda: Backend(needs_noise))
    assert result.reduced is not None
    assert result.reduced.program.entry.text == SCRIPT.replace('print("noise")\n', "")
    assert "taken back" in result.notes[0]


def test_a_program_that_never_fails_in_a_fresh_interpreter_is_not_reported() -> None:
    result = reduce(
        PROGRAM, passes=[], start=lambda: Backend(lambda job: PASSED if job.watch == "fresh" else behave(job))
    )
    assert result.reduced is None
    assert result.exit is Exit.NOT_VERIFIED


def test_the_twin_is_the_smallest_program_with_the_culprit_out_of_place() -> None:
    result = reduce(PROGRAM, passes=[], start=Backend)
    assert result.twin is not None
    assert result.twin.entry.text == SCRIPT.replace("y += 1", "y = y + 1")


def test_a_twin_that_a_busy_machine_makes_slower_than_any_candidate_still_confirms_the_culprit() -> None:
    def slow(job: Job) -> Report:
        if "y = y + 1" in job.files["train.py"]:
            return Report("finished" if job.limits.wall > 5 else "timeout", seconds=5.0)
        return behave(job)

    assert reduce(PROGRAM, passes=[], start=lambda: Backend(slow)).twin is not None


def test_without_a_twin_that_runs_clean_the_culprit_is_not_confirmed() -> None:
    def dirty(job: Job) -> Report:
        return behave(job) if "y += 1" in job.files["train.py"] else Report("raised", error_type="ValueError")

    result = reduce(PROGRAM, passes=[], start=lambda: Backend(dirty))
    assert result.twin is None
    assert "not confirmed" in result.notes[-1]


def test_ctrl_c_ends_the_reduction_and_keeps_what_was_reached() -> None:
    def interrupted(program: Program, facts: Facts) -> Iterator[Patch]:
        raise KeyboardInterrupt
        yield

    result = reduce(PROGRAM, passes=[delete_statements, interrupted], start=Backend)
    assert result.reduced is not None
    assert "noise" not in result.reduced.program.entry.text
    assert result.exit is Exit.INTERRUPTED


def test_a_budget_that_is_used_up_ends_the_reduction_with_a_note() -> None:
    result = reduce(PROGRAM, Options(budget=0), passes=[delete_statements], start=Backend)
    assert result.stopped == "budget"
    assert "--budget" in result.notes[0]


def test_the_candidates_are_counted() -> None:
    candidates = reduce(PROGRAM, passes=[delete_statements], start=Backend).candidates
    assert candidates.accepted > 0
    assert candidates.run >= candidates.accepted


def test_the_steps_lead_from_the_script_to_the_smallest_program() -> None:
    result = reduce(PROGRAM, passes=[delete_statements], start=Backend)
    assert result.reduced is not None
    assert result.steps[0].program is PROGRAM
    assert {step.name for step in result.steps[1:]} == {"delete_statements"}
    assert result.steps[-1].program is result.reduced.program
    assert list(result.judged) == sorted(result.judged) and len(result.judged) >= result.candidates.run


def test_listeners_hear_of_the_verification_and_then_of_the_repairs_last() -> None:
    events: list[Event] = []
    reduce(PROGRAM, passes=[delete_statements], listeners=[events.append], start=Backend)
    assert [type(event) for event in events[-2:]] == [Verifying, Repairing]


def test_imports_at_the_top_of_any_file_count_and_the_programs_own_do_not() -> None:
    files = {
        "train.py": "import json\nimport os.path\nfrom models.net import Net\n",
        "models/net.py": "from . import parts\nfrom numpy.linalg import norm\ndef f():\n    import csv\n",
    }
    program = Program(
        tuple(SourceFile.original(path, text) for path, text in files.items()), Invocation("/", "train.py", "/")
    )
    assert static_imports(program) == ("json", "numpy.linalg", "os.path")


def test_where_the_seed_decides_it_is_pinned_and_the_search_begins_with_it() -> None:
    def lucky(job: Job) -> Report:
        return behave(job) if job.seed == 4 or "manual_seed(4)" in job.files["train.py"] else PASSED

    result = reduce(PROGRAM, Options(tries=3), passes=[], start=lambda: Backend(lucky))
    assert result.explanation.stability == Stability(runs=20, failures=2, tries=3, seed=4)
    assert result.reduced is not None
    assert "torch.manual_seed(4)" in result.reduced.program.entry.text


def test_where_the_seed_does_not_decide_the_confidence_is_stated() -> None:
    rare = Backend(every_other([FAILED, PASSED, PASSED] * 20))
    explanation = explain(PROGRAM, Options(tries=3), start=lambda: rare)
    assert explanation.stability == Stability(runs=20, failures=7, tries=3)
