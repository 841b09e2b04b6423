from __future__ import annotations

import libcst as cst
import pytest

from shrinkrepro.passes.syntax import argument, canonical, replaced
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import parse


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = f(a + b)\n", "y = a + b\n"),
        ("y = f(a + b) * 2\n", "y = (a + b) * 2\n"),
        ("y = f(a + b).g\n", "y = (a + b).g\n"),
        ("y = f(3).g\n", "y = (3).g\n"),
        ("y = f(a, b)\n", "y = a\n"),
        ("y = (f(a)).g\n", "y = a.g\n"),
        ("y = f((a + b)).g\n", "y = (a + b).g\n"),
        ("y = f(i for i in a)\n", "y = (i for i in a)\n"),
        ("y = f((a, b))\n", "y = (a, b)\n"),
        ("y = f((a + b))\n", "y = a + b\n"),
        ("y = f((a).b)\n", "y = (a).b\n"),
        ("y = f((\n  a + b))\n", "y = a + b\n"),
        ("y = f(())\n", "y = ()\n"),
        ("y = f(a +\n  b)\n", "y = (a +\n  b)\n"),
        ("y = f(g(a,\n  b))\n", "y = g(a,\n  b)\n"),
    ],
)
def test_a_part_is_put_in_parentheses_only_where_it_needs_them(before: str, after: str) -> None:
    program = Program.of(before)
    tree = parse(program.entry)
    call = next(tree.walk(cst.Call))
    assert Patch((replaced(tree, call, call.args[0].value),)).apply(program).entry.text == after


@pytest.mark.parametrize(
    ("imports", "name", "full"),
    [
        ("import torch", "torch.relu", "torch.relu"),
        ("import torch.nn.functional as F", "F.relu", "torch.nn.functional.relu"),
        ("import torch.nn.functional", "torch.nn.relu", "torch.nn.relu"),
        ("from torch import nn", "nn.ReLU", "torch.nn.ReLU"),
        ("from torch.nn import ReLU as Act", "Act", "torch.nn.ReLU"),
        ("from .blocks import Block", "Block", ".blocks.Block"),
        ("from torch import *", "relu", None),
        ("import torch", "x.relu", None),
        ("import torch", "torch.ones(1).relu", None),
    ],
)
def test_a_name_is_known_by_what_was_imported(imports: str, name: str, full: str | None) -> None:
    tree = parse(Program.of(f"{imports}\n{name}()\n").entry)
    assert canonical(tree, next(iter(tree.walk(cst.Call))).func) == full


@pytest.mark.parametrize(
    ("call", "found"),
    [("f(a, key=b)", "key=b"), ("f(a, b)", "b"), ("f(a)", None), ("f(*a, b)", None), ("f(key=b)", "key=b")],
)
def test_an_argument_is_found_by_keyword_or_by_position(call: str, found: str | None) -> None:
    tree = parse(Program.of(call + "\n").entry)
    arg = argument(next(tree.walk(cst.Call)), "key", 1)
    assert (None if arg is None else tree.text(arg)) == found
