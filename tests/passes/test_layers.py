from __future__ import annotations

import pytest
from passes.pass_testing import patches_of

from shrinkrepro.passes.layers import (
    bypass_calls,
    drop_layers,
    drop_schedulers,
    identity_layers,
    plain_backward,
    simplest_loss,
    simplest_optimizer,
    sum_before_backward,
)


def test_half_of_the_layers_go_at_once_then_each_from_the_end() -> None:
    assert patches_of(drop_layers, "n = nn.Sequential(a, b, c, d)\n") == [
        "n = nn.Sequential(a, b)\n",
        "n = nn.Sequential(c, d)\n",
        "n = nn.Sequential(a, b, c)\n",
        "n = nn.Sequential(a, b, d)\n",
        "n = nn.Sequential(a, c, d)\n",
        "n = nn.Sequential(b, c, d)\n",
    ]


def test_layers_over_several_lines_go_with_their_lines() -> None:
    before = "n = nn.Sequential(\n    a(1),  # first\n    b(2),\n)\n"
    assert "n = nn.Sequential(\n    b(2),\n)\n" in patches_of(drop_layers, before)


@pytest.mark.parametrize("text", ["n = nn.Sequential(a)\n", "n = nn.Sequential(*a)\n", "n = f(a, b)\n", "n = [a, b]\n"])
def test_what_holds_no_second_layer_stays(text: str) -> None:
    assert patches_of(drop_layers, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = f(g(x))\n", ["y = g(x)\n", "y = f(x)\n"]),
        ("y = f(a + b) * 2\n", ["y = (a + b) * 2\n"]),
        ("return_ = self.head(x, mask)\n", ["return_ = x\n"]),
    ],
)
def test_what_a_call_is_given_takes_its_place(before: str, after: list[str]) -> None:
    assert patches_of(bypass_calls, before) == after


@pytest.mark.parametrize(
    "text", ["f(x)\n", "y = f()\n", "y = f(key=x)\n", "y = f(*x)\n", "y = Linear(8)\n", "y = len(x)\n"]
)
def test_calls_that_are_given_nothing_to_stand_for_them_stay(text: str) -> None:
    assert patches_of(bypass_calls, text) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\na = torch.nn.Linear(2, 2)\n", "import torch\na = torch.nn.Identity()\n"),
        ("import torch.nn as tnn\na = tnn.Conv2d(2, 2, 3)\n", "import torch.nn as tnn\na = tnn.Identity()\n"),
        (
            "from torch import nn\nclass A(nn.Module): ...\na = A(1, 2, 3)\n",
            "from torch import nn\nclass A(nn.Module): ...\na = nn.Identity()\n",
        ),
        (
            "import torch\nfrom torch.nn import Linear\na = Linear(2, 2, 3)\n",
            "import torch\nfrom torch.nn import Linear\na = torch.nn.Identity()\n",
        ),
    ],
)
def test_a_layer_becomes_an_identity(before: str, after: str) -> None:
    assert patches_of(identity_layers, before) == [after]


@pytest.mark.parametrize(
    "statement",
    [
        "a = nn.Identity()",
        "a = nn.Sequential(b)",
        "a = nn.Parameter(b)",
        "a = nn.CrossEntropyLoss(b)",
        "a = nn.functional.relu(b)",
        "a = Other(1, 2)",
        "a = nn.Tanh()",
    ],
)
def test_what_is_no_layer_or_would_not_become_smaller_stays(statement: str) -> None:
    assert patches_of(identity_layers, f"from torch import nn\n{statement}\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("l = F.mse_loss(a, b)\n", "l = a.sum()\n"),
        ("l = F.cross_entropy(model(x), y, weight=w)\n", "l = model(x).sum()\n"),
        ("l = self.criterion(a, b) / 2\n", "l = a.sum() / 2\n"),
        ("l = loss_fn(a + b, c)\n", "l = (a + b).sum()\n"),
    ],
)
def test_a_loss_becomes_a_sum(before: str, after: str) -> None:
    assert patches_of(simplest_loss, before) == [after]


@pytest.mark.parametrize("text", ["c = nn.MSELoss(a)\n", "c = f(a, b)\n", "c = loss()\n"])
def test_what_computes_no_loss_stays(text: str) -> None:
    assert patches_of(simplest_loss, text) == []


def test_backward_without_arguments_stays() -> None:
    assert patches_of(plain_backward, "l.backward()\n") == []


def test_an_optimizer_that_is_as_simple_as_can_be_stays() -> None:
    assert patches_of(simplest_optimizer, "import torch\no = torch.optim.SGD(p)\n") == []


def test_a_scheduler_is_no_optimizer() -> None:
    text = "import torch\ns = torch.optim.lr_scheduler.StepLR(o, 1)\n"
    assert patches_of(simplest_optimizer, text) == []


def test_a_scheduler_goes_with_all_of_its_steps() -> None:
    before = (
        "from torch.optim.lr_scheduler import StepLR\n"
        "class T:\n    def __init__(self):\n        self.sched = StepLR(o, 1)\n        self.n = 1\n"
        "    def f(self):\n        self.sched.step()\n"
    )
    after = (
        "from torch.optim.lr_scheduler import StepLR\n"
        "class T:\n    def __init__(self):\n        self.n = 1\n    def f(self):\n        pass\n"
    )
    assert patches_of(drop_schedulers, before) == [after]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(a + b, 2).backward()\n", ["(a + b).sum().backward()\n", "(a + b).abs().backward()\n"]),
        (
            "f([a, b], c).mean().backward()\n",
            [f"{part}.{reduction}().backward()\n" for part in "ca" for reduction in ("sum", "abs")],
        ),
        ("f(a).backward(g(b))\n", ["a.sum().backward(g(b))\n", "a.abs().backward(g(b))\n"]),
        ("x.backward()\n", []),
        ("x.sum().backward()\n", []),
        ("f(k=a).backward()\n", []),
        ("f(1).backward()\n", []),
    ],
)
def test_what_the_last_call_is_given_is_made_a_number_for_backward(before: str, after: list[str]) -> None:
    assert patches_of(sum_before_backward, before) == after
