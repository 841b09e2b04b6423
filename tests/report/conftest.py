from __future__ import annotations

import pytest

from shrinkrepro.diagnosis import Diagnosis, Rise, Statement, Vertex, Write
from shrinkrepro.failure import parse
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program
from shrinkrepro.proof import Comparison, Proof
from shrinkrepro.repair import Repair
from shrinkrepro.results import Attempt, Candidates, Explanation, Mending, Reduced, Result, Step
from shrinkrepro.runtime.messages import Frame
from shrinkrepro.stability import Stability

SCRIPT = """\
import torch

def step(x):
    y = x.exp()
    y += 1
    return y

print("noise")
step(torch.ones(1, requires_grad=True)).sum().backward()
"""
SMALL = """\
import torch
y = torch.ones(1, requires_grad=True).exp()
y += 1
y.sum().backward()
"""
MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [1]], which is output 0 of ExpBackward0, is at version 1; expected version 0 instead. "
    "Hint: enable anomaly detection"
)


def statement(line: int, source: str, function: str, operator: str, **details: object) -> Statement:
    column = max(0, (SCRIPT.splitlines()[line - 1 : line] or [""])[0].find(source))
    return Statement("train.py", line, line, column, column + len(source), source, function, operator, **details)  # type: ignore[arg-type]


def diagnosis(first_line: int, function: str) -> Diagnosis:
    failure = parse(MESSAGE)
    assert failure is not None
    frame = Frame("/opt/lib/site-packages/torch/optim/sgd.py", 440, "_step")
    return Diagnosis(
        failure=failure,
        node="ExpBackward0",
        attribute="_saved_result",
        saved=statement(first_line, "y = x.exp()", function, "exp"),
        culprit=statement(first_line + 1, "y += 1", function, "add_", library_frame=frame),
        needed=statement(first_line + 5, "backward()", "<module>", "backward"),
        other_mutations=(statement(first_line + 3, "y.zero_()", function, "zero_", count=4),),
        built=None,
        method="stale",
        notes=(),
        rises=(
            Rise(statement(first_line + 1, "y += 1", function, "add_"), 0, 1),
            Rise(None, 1, 2),
            Rise(statement(first_line + 3, "y.zero_()", function, "zero_"), 2, 3),
        ),
        graph=(
            Vertex("ExpBackward0", (2,), False, statement(first_line, "y = x.exp()", function, "exp")),
            Vertex("SumBackward0", (0,), True, None),
            Vertex("AccumulateGrad", (), False, None),
        ),
    )


@pytest.fixture
def explanation() -> Explanation:
    """An explanation with every field set."""
    found = diagnosis(4, "step")
    versions = {"shrinkrepro": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "platform": "Linux"}
    return Explanation(
        program=Program.of(SCRIPT, "train.py"),
        failure=found.failure,
        diagnosis=found,
        seconds=0.25,
        guard="landlock 7",
        versions=versions,
        notes=("Something was slow.",),
        stability=Stability(runs=20, failures=12, tries=10),
    )


@pytest.fixture
def result(explanation: Explanation) -> Result:
    """A result with every field set."""
    small = Program.of(SMALL, "train.py")
    return Result(
        explanation,
        Reduced(small, diagnosis(2, "<module>"), 3, 3, "train_repro.py"),
        Program.of(SMALL.replace("y += 1", "y = y + 1"), "train.py"),
        Candidates(run=12, accepted=3, cached=4, rejected_unrun=5, seconds=1.5),
        "fixpoint",
        ("Something was undone.",),
        mending(explanation),
        (Step(explanation.program, "", 0.0, 0), Step(small, "delete_statements", 0.75, 9)),
        (0.25, 0.5, 0.75, 1.5),
    )


def mending(explanation: Explanation) -> Mending:
    """A repair that was the second to be tried, with every field set."""
    edit = Repair(Patch((), "write y += out-of-place"), "out-of-place", "train.py", 5, "y += 1")
    same, off = Comparison(same=True, difference=0.0), Comparison(same=False, difference=0.5)
    mended = Program.of(SCRIPT.replace("y += 1", "y = y + 1"), "train.py")
    tried = Attempt((edit,), mended, Proof(True, "finished", same, off, off))
    chosen = Attempt((edit,), mended, Proof(True, "finished", same, same, same))
    write = Write(statement(5, "y += 1", "step", "add_", count=3), 3)
    return Mending((tried, chosen), chosen, True, (write,), 5, 0.5, ("Something was not tried.",))
