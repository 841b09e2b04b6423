from __future__ import annotations

from collections.abc import Callable

import pytest
from isolation.fakes import FakeBackend

from shrinkrepro.isolation.workers import Workers
from shrinkrepro.program.source import Program
from shrinkrepro.runtime.messages import Job, Limits, Report
from shrinkrepro.stability import Stability, measure, pinned, seeded

PROGRAM = Program.of("import torch\n", "train.py")


def measured(fails: Callable[[Job], bool], tries: int = 2) -> Stability:
    backend = FakeBackend(lambda job: Report("failed" if fails(job) else "finished"))
    return measure(PROGRAM, Workers(backend, 2), Limits(), tries)


def turns(*answers: bool) -> Callable[[Job], bool]:
    """Fails in the runs whose turn it is, whatever their seed."""
    count = iter(range(10**6))
    return lambda job: answers[next(count) % len(answers)]


def test_each_of_ten_seeds_is_run_twice() -> None:
    assert measured(lambda job: True) == Stability(runs=20, failures=20, tries=2)


def test_as_many_seeds_as_tries_are_run() -> None:
    assert measured(lambda job: True, tries=30).runs == 60


def test_a_seed_that_decides_is_pinned() -> None:
    assert measured(lambda job: job.seed in (4, 7)) == Stability(runs=20, failures=4, tries=2, seed=4)


def test_where_the_same_seed_fails_and_passes_none_is_pinned() -> None:
    assert measured(turns(True, False, False)) == Stability(runs=20, failures=7, tries=2)


@pytest.mark.parametrize(
    ("stability", "confidence"),
    [
        (Stability(runs=20, failures=12, tries=10), 1 - 0.4**10),
        (Stability(runs=20, failures=20, tries=1), 1.0),
        (Stability(runs=20, failures=0, tries=5), 0.0),
        (Stability(runs=20, failures=2, tries=2, seed=3), 1.0),
    ],
)
def test_the_confidence_is_the_chance_that_one_of_the_tries_fails(stability: Stability, confidence: float) -> None:
    assert stability.confidence == pytest.approx(confidence)


HEADS = {
    "import torch\n": "",
    '"""What it does."""\nimport torch\n': '"""What it does."""\n',
    "#!/usr/bin/python\n# coding: utf-8\nimport torch\n": "#!/usr/bin/python\n# coding: utf-8\n",
    '"A"\nfrom __future__ import annotations\nimport torch\n': '"A"\nfrom __future__ import annotations\n',
    "@f\n@g\ndef h(): pass\n": "",
    '"""Only words."""\n': '"""Only words."""\n',
}


@pytest.mark.parametrize(("text", "head"), HEADS.items())
def test_the_seed_is_set_before_the_first_statement_that_does_something(text: str, head: str) -> None:
    program = pinned(seeded(Program.of(text, "train.py"), 3), 3, ("torch",))
    assert program.entry.text == head + "import torch\ntorch.manual_seed(3)\n" + text.removeprefix(head)
    assert program.invocation.seed is None


def test_every_generator_that_is_used_is_seeded() -> None:
    program = pinned(PROGRAM, 3, ("numpy", "random", "torch", "os"))
    assert program.entry.text.splitlines()[1::2] == ["random.seed(3)", "numpy.random.seed(3)", "torch.manual_seed(3)"]
