"""What holds for every pass on every program: it raises nothing, and its patches can be made."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from passes.pass_testing import Pass, all_passes, unobserved

from shrinkrepro.facts import Facts
from shrinkrepro.program.check import invalid
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program
from shrinkrepro.runtime.messages import Observation

PASSES = all_passes()
CORPUS = Path(__file__).resolve().parents[2] / "corpus"
PROGRAMS = [Program.of(path.read_text(encoding="utf-8")) for path in sorted(CORPUS.glob("*/*.py"))]

EVERYTHING = '''\
# Größe: each kind of statement and expression that a pass may trip over
from __future__ import annotations
import torch, torch.nn as nn
from torch.nn import (
    functional as F,
)
x: int = 1; y = 2; del y
size = größe = (1, 2,); (first, *rest), last = [size, ()], {**{}, "ä": 3}
if x: pass
elif (z := x): x += 1
else:
    """not a docstring"""
    x //= 2
@torch.no_grad()
async def work(a, /, b: int = -1, *c, d=None, **e) -> None:
    async for i in a: await i
    async with a as j, b: yield j
def outer(*, only):
    """Docstring."""
    global x
    def inner(q=lambda r, *s: (r, s)):
        nonlocal only
        return [t for t in q if t if not only for _ in range(3)]
    while True:
        if x: continue
        else: break
    else:
        raise ValueError(f"{only!r:>{x}}") from None
    for i, (k, v) in enumerate(zip(range(1, 9), "ab")): print(i, k, v, end="")
    try: x = -1 ** 2 if x else not x
    except (KeyError, ValueError) as problem: print(problem)
    else: x = 0
    finally: del problem
    with torch.no_grad() as g, open(
        "f"
    ) as h:
        text = f"""
    {g} # no comment
""" "and" 'more'
    assert x, \\
        text
    return inner
class Net(nn.Module, metaclass=type):
    w: int
    def __init__(self, n, unused=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n, n), nn.ReLU(inplace=True),)
        self.register_buffer("b", torch.zeros(n))
    @staticmethod
    def helper(): ...
    def forward(self, x):
        x[0, ..., 1:2:3, None] = self.net(x); self.b.mul_(2).add_(1)
        torch.mul(x, x, out=x)
        h = F.relu(x, inplace=True) @ self.b
        return h.sum()
match x:
    case 1 | 2 if y: print({*size})
    case {"a": [b, *_], **c}: pass
    case Net(w=3) as net: pass
Net(4, unused=2)(torch.ones(4)).backward()
print("end") if x else None'''


def facts_about(program: Program, executed: tuple[int, ...]) -> Facts:
    """Facts of a run that executed the lines of these numbers; of none where there are no numbers."""
    observation = Observation({program.entry.path: executed}, {program.entry.path: {}}) if executed else None
    return Facts(program, None, lambda: observation)


@st.composite
def moments(draw: st.DrawFn) -> tuple[Program, Facts]:
    """A program as a reduction may have left it, and facts of a run that may have executed any of its lines."""
    program = draw(st.sampled_from(PROGRAMS))
    for pass_ in draw(st.lists(st.sampled_from(PASSES), max_size=4)):
        patches = list(pass_(program, facts_about(program, ())))
        candidate = draw(st.sampled_from(patches) if patches else st.just(Patch(()))).apply(program)
        program = program if invalid(candidate) else candidate
    lines = range(1, len(program.entry.line_starts) + 1)
    executed = draw(st.sets(st.sampled_from(lines)).map(sorted).map(tuple))
    return program, facts_about(program, executed)


@pytest.mark.parametrize("pass_", PASSES, ids=lambda pass_: pass_.__name__)
def test_each_patch_of_a_program_with_everything_can_be_made_and_judged(pass_: Pass) -> None:
    program = Program.of(EVERYTHING)
    for patch in pass_(program, unobserved(program)):
        invalid(patch.apply(program))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(moment=moments(), pass_=st.sampled_from(PASSES), data=st.data())
def test_patches_of_any_program_on_the_way_can_be_made_and_judged(
    moment: tuple[Program, Facts], pass_: Pass, data: st.DataObject
) -> None:
    program, facts = moment
    patches = list(pass_(program, facts))
    for patch in data.draw(st.lists(st.sampled_from(patches), max_size=10)) if patches else []:
        invalid(patch.apply(program))


@pytest.mark.parametrize("pass_", PASSES, ids=lambda pass_: pass_.__name__)
def test_the_same_program_gets_the_same_patches(pass_: Pass) -> None:
    program = Program.of(EVERYTHING)
    assert list(pass_(program, unobserved(program))) == list(pass_(program, unobserved(program)))
