"""Scripts of each kind are distilled: one of the guesses written from their traces fails in the same way."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from reducing import look

from shrinkrepro.distil import guesses
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.oracle import Oracle, Target, Verdict
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import Program
from shrinkrepro.runtime.messages import Limits

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
KINDS = {
    "an activation changed by the next statement": """
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                out = F.relu(self.fc(x))
                out += x
                return out
        Block()(torch.rand(2, 4)).sum().backward()
    """,
    "a parameter changed by an optimizer's step": """
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        loss = net(torch.rand(5, 3)).pow(2).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
        loss.backward()
    """,
    "a list of parameters changed at once": """
        net = nn.Linear(3, 2)
        y = net(torch.rand(4, 3, requires_grad=True)).sum()
        with torch.no_grad():
            torch._foreach_mul_(list(net.parameters()), 0.5)
        y.backward()
    """,
    "a write under no_grad in a function of its own": """
        @torch.no_grad()
        def clip(module, bound):
            for p in module.parameters():
                p.clamp_(-bound, bound)
        net = nn.Linear(3, 2)
        y = net(torch.rand(4, 3, requires_grad=True)).sum()
        clip(net, 0.01)
        y.backward()
    """,
    "a loop whose write belongs to another iteration": """
        weights = torch.ones(3)
        total = 0
        for k in range(3):
            total = total + (torch.rand(3, requires_grad=True) * weights).sum()
            weights[k] *= 1.1
        total.backward()
    """,
    "a buffer of an object, seen through attributes": """
        class Queue:
            def __init__(self):
                self.keys = torch.rand(4, 8)
                self.at = 2
            def push(self, rows):
                self.keys[:, self.at : self.at + rows.size(0)] = rows.t()
        queue = Queue()
        y = (torch.rand(3, 4, requires_grad=True) @ queue.keys).sum()
        queue.push(torch.rand(2, 4))
        y.backward()
    """,
    "a custom Function, whose class comes along": """
        SCALE = 2.0
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = (x * SCALE).exp()
                ctx.save_for_backward(y)
                return y
            @staticmethod
            def backward(ctx, g):
                (y,) = ctx.saved_tensors
                return g * y
        h = Exp.apply(torch.rand(4, requires_grad=True))
        h /= 3
        h.sum().backward()
    """,
    "a module that writes because it was built so": """
        block = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())
        act = nn.ReLU(inplace=True)
        h = block(torch.rand(2, 4))
        act(h).sum().backward()
    """,
    "a value in a comprehension": """
        xs = [torch.rand(3, requires_grad=True).exp() for _ in range(2)]
        ys = [x.mul_(2) for x in xs]
        sum(y.sum() for y in ys).backward()
    """,
    "a call that fits together under autocast only": """
        body, head = nn.Linear(2, 2), nn.Linear(2, 1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = body(torch.ones(3, 2))
            score = head(value)
            value.zero_()
        score.sum().backward()
    """,
    "a checkpointed block of the user's own": """
        from torch.utils.checkpoint import checkpoint
        class Unit(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 4)
            def forward(self, x):
                return self.fc(x)
        x = torch.rand(2, 4, requires_grad=True) * 1
        y = checkpoint(Unit(), x, use_reentrant=False)
        x += y
        x.sum().backward()
    """,
    "an LSTM, saved by one of PyTorch's modules": """
        rnn = nn.LSTM(4, 4)
        optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
        y, _ = rnn(torch.rand(2, 3, 4))
        y.sum().backward(retain_graph=True)
        optimizer.step()
        y.sum().backward()
    """,
    "a graph made by autograd.grad": """
        w = torch.rand(3, 3, requires_grad=True) * 1
        g = torch.autograd.grad((torch.rand(2, 3) @ w).pow(2).sum(), w, create_graph=True)[0]
        loss = (g @ w).sum()
        w -= 0.1
        loss.backward()
    """,
}


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Zygote() as zygote:
        zygote.preload(("torch", "torch._dynamo"))
        yield Workers(zygote, 1)


def judged_guesses(program: Program, workers: Workers) -> list[tuple[Program, Verdict]]:
    """Each guess and the verdict on it, up to the first that holds."""
    seen = look(program, workers)
    oracle = Oracle(Target(program, seen.failure, seen.diagnosis), workers, Limits(wall=30))
    judged = []
    for group in guesses(program, seen.trace, workers, oracle.limits):
        for guess in group:
            judged.append((guess, oracle.judge(guess).verdict))
            if judged[-1][1] is Verdict.SAME:
                return judged
    return judged


@pytest.mark.parametrize("kind", KINDS)
def test_scripts_of_each_kind_are_distilled(kind: str, tmp_path: Path, workers: Workers) -> None:
    (tmp_path / "train.py").write_text(HEAD + textwrap.dedent(KINDS[kind]))
    judged = judged_guesses(load_script("train.py", cwd=str(tmp_path)), workers)
    assert judged[-1][1] is Verdict.SAME and len(judged) <= 10


@pytest.mark.parametrize("write", ["h[:2].mul_(h[:2])", "h.mul_(h)"])
def test_a_call_that_saves_what_it_writes_is_there_once(write: str, tmp_path: Path, workers: Workers) -> None:
    script = f"import torch\nh = torch.rand(3, requires_grad=True) * 1\n{write}\nh.sum().backward()\n"
    (tmp_path / "train.py").write_text(script)
    guess, verdict = judged_guesses(load_script("train.py", cwd=str(tmp_path)), workers)[-1]
    assert (verdict, guess.entry.text.count("mul_(")) == (Verdict.SAME, 1)


def test_only_what_tensors_have_is_written_as_their_method(tmp_path: Path, workers: Workers) -> None:
    body = "x = torch.ones(2, 2)\ny = F.linear(x, torch.ones(2, 2, requires_grad=True))\nx += 1\ny.sum().backward()\n"
    (tmp_path / "train.py").write_text(HEAD + body)
    program = load_script("train.py", cwd=str(tmp_path))
    made = guesses(program, look(program, workers).trace, workers, Limits(wall=30))
    texts = [guess.entry.text for group in made for guess in group]
    functions = [len(re.findall(r"(?:F|functional)[.]linear", text)) for text in texts]
    assert texts and functions == [text.count(".linear(") for text in texts]
