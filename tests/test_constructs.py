"""How small the passes alone, without distilled candidates, make what Python offers to hide three statements in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from reducing import reduced

from shrinkrepro.isolation.workers import Workers
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.program.load import load_script
from shrinkrepro.program.source import count_tokens

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Zygote() as zygote:
        zygote.preload(("torch",))
        yield Workers(zygote, 1)


MANAGER_OF_GENERATOR = """\
import contextlib, torch
@contextlib.contextmanager
def scaled(t, by):
    saved = t.detach().clone()
    t *= by
    try:
        yield t
    finally:
        print(saved.norm())
w = torch.randn(4, requires_grad=True)
h = w.exp()
with scaled(h, 2.0) as g:
    loss = g.sum()
loss.backward()
"""

MANAGER_CLASS = """\
import torch
class Swap:
    def __init__(self, t, v):
        self.t = t
        self.v = v
    def __enter__(self):
        self.old = self.t.detach().clone()
        self.t.fill_(self.v)
        return self
    def __exit__(self, *exc):
        self.t.copy_(self.old)
w = torch.randn(4, requires_grad=True)
k = torch.ones(4)
y = w * k
with Swap(k, 3.0) as s:
    z = (w * k).sum() + s.v
(y.sum() + z).backward()
"""

GENERATOR = """\
import torch
def batches(data, size, n):
    for i in range(n):
        b = data[i * size:(i + 1) * size]
        b = b * w
        out = b.exp()
        yield i, out
        out += 1
w = torch.randn(1, requires_grad=True)
data = torch.randn(8)
total = 0
for i, out in batches(data, 4, 2):
    total = total + out.sum() * (i + 1)
total.backward()
"""

DECORATORS = """\
import functools, torch
def scaled(by):
    def deco(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            out = fn(*args, **kwargs)
            out *= by
            return out
        return wrapper
    return deco
def timed(fn):
    def inner(x, w):
        print("calling", fn.__name__)
        return fn(x, w)
    return inner
@timed
@scaled(0.5)
def kernel(x, w):
    d = x - w
    return torch.exp(-d * d)
w = torch.randn(4, requires_grad=True)
x = torch.randn(4)
loss = kernel(x, w).sum()
loss.backward()
"""

CLOSURES = """\
import torch
from functools import partial
def make(scale):
    def f(x, by):
        h = torch.sigmoid(x * scale)
        h.mul_(by)
        return h
    return f
def combine(fn, gn, x):
    return fn(x) + gn(x)
act = partial(make(2.0), by=3)
other = lambda t: t.tanh()
w = torch.randn(4, requires_grad=True)
combine(act, other, w).sum().backward()
"""

PROPERTIES = """\
import torch
from dataclasses import dataclass
from torch import nn
@dataclass
class Config:
    width: int = 4
    factor: float = 2.0
    bias: bool = True
class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.lin = nn.Linear(cfg.width, cfg.width, bias=cfg.bias)
        self.cfg = cfg
        self.register_buffer("_t", torch.ones(1))
    @property
    def temp(self):
        return self._t.item()
    @temp.setter
    def temp(self, value):
        self._t.fill_(value)
    def forward(self, x):
        return self.lin(x).tanh() / self._t
class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.a = Layer(cfg)
        self.b = Layer(cfg)
    def forward(self, x):
        h = self.a(x)
        h = self.b(h)
        self.b.temp = cfg.factor
        return h
cfg = Config()
net = Net(cfg)
out = net(torch.randn(2, cfg.width))
out.mean().backward()
"""

OVERRIDDEN = """\
import torch
from torch import nn
class Residual(nn.Sequential):
    def __init__(self, n):
        super().__init__(nn.Linear(n, n), nn.ReLU())
    def forward(self, x):
        y = super().forward(x)
        x += y
        return x
class Stack(nn.Module):
    def __init__(self, n, depth):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.blocks = nn.ModuleList([Residual(n) for _ in range(depth)])
    def forward(self, x):
        h = torch.sigmoid(self.first(x))
        for block in self.blocks:
            h = block(h)
        return h
net = Stack(4, 2)
outs = [net(x) for x in torch.randn(1, 2, 4)]
sum(o.sum() for o in outs).backward()
"""

TWO_WAYS = """\
import torch
class Meter:
    def __init__(self):
        self.total = torch.zeros(())
        self.n = 0
    def add(self, v):
        if self.n == 0:
            self.n += 1
            self.total = self.total + v
            return self.total
        self.total += v
        self.n += 1
        return self.total
    def mean(self):
        return self.total / self.n
w = torch.randn(3, requires_grad=True)
m = Meter()
k = Meter()
s = m.add(w.prod())
t = k.add(w.sum())
u = (s * t).exp()
v = k.add(w.norm())
r = t * w
m.add(u)
q = m.mean() * m.total * m.total
m.add(u)
(q + r.sum()).backward()
"""

NESTED_OBJECTS = """\
import torch
from torch import nn
class Memory(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("state", torch.zeros(n))
        self.proj = nn.Linear(n, n)
    def step(self, x):
        h = self.proj(x) * self.state
        self.state.copy_(h.detach().mean(0))
        return h
class Agent:
    def __init__(self, n):
        self.memory = Memory(n)
        self.total = 0
    def act(self, x):
        h = self.memory.step(x)
        self.total = self.total + h.sum()
    def loss(self):
        return self.total
agent = Agent(4)
for _ in range(2):
    agent.act(torch.randn(3, 4))
agent.loss().backward()
"""

INHERITED = """\
import torch
from torch import nn
class Data:
    def __init__(self, n):
        self.n = n
    def __len__(self):
        return self.n
    def __iter__(self):
        for i in range(self.n):
            yield torch.randn(2, 3), torch.zeros(2)
class Gate(nn.Module):
    def forward(self, x):
        return x.sigmoid()
class Base(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.lin = nn.Linear(n, 1)
        self.gate = Gate()
    def score(self, x):
        h = self.gate(self.lin(x))
        return self.scale(h)
class Net(Base):
    def __init__(self, n):
        super().__init__(n)
        self.by = 2.0
    def scale(self, h):
        h *= self.by
        return h
def train(model, data, loss_fn, epochs=1):
    for epoch in range(epochs):
        for i, (x, y) in enumerate(data):
            if i > 100:
                return
            pred = model.score(x).squeeze(-1)
            loss = loss_fn(pred, y)
            loss.backward()
train(Net(3), Data(4), lambda p, y: ((p - y) ** 2).mean())
"""


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param(MANAGER_OF_GENERATOR, 26, id="a context manager made of a generator"),
        pytest.param(MANAGER_CLASS, 35, id="a context manager that is a class"),
        pytest.param(GENERATOR, 26, id="a generator that changes what it gave"),
        pytest.param(DECORATORS, 26, id="decorators, one of them made by a function"),
        pytest.param(CLOSURES, 29, id="closures, partials and lambdas"),
        pytest.param(PROPERTIES, 35, id="properties, and a data class"),
        pytest.param(OVERRIDDEN, 35, id="an overridden method that calls its base"),
        pytest.param(TWO_WAYS, 34, id="a method that goes two ways in two calls"),
        pytest.param(NESTED_OBJECTS, 35, id="objects inside objects, in a loop"),
        pytest.param(INHERITED, 29, id="an inherited constructor and a loader of the script's own"),
    ],
)
def test_what_holds_the_three_statements_together_is_taken_apart(
    text: str, tokens: int, tmp_path: Path, workers: Workers
) -> None:
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    smallest = reduced(load_script("train.py", cwd=str(tmp_path)), workers, distilled=False).program
    assert count_tokens(smallest.entry.text) <= tokens
