from __future__ import annotations

import pytest

from shrinkrepro.facts import Facts
from shrinkrepro.freedom import free, freedoms
from shrinkrepro.program.source import Program

SMALL = "import torch\nx = torch.ones(1, requires_grad=True).exp()\nx += 1\nx.backward()\n"


def facts(text: str, culprit_line: int | None = 3) -> Facts:
    found = Facts(Program.of(text), None, lambda: None)
    if culprit_line is not None:
        statement = found.tree("program.py").statement_at(culprit_line)
        found.__dict__["culprit"] = statement
    return found


def variants_of(text: str) -> dict[str, list[str]]:
    return {f.what: [program.entry.text for program in f.variants] for f in freedoms(facts(text))}


def test_sizes_are_varied_together() -> None:
    text = "import torch\nx = torch.ones(1, 4) @ torch.ones(4)\nx += 1\n"
    assert variants_of(text)["any size"] == [
        "import torch\nx = torch.ones(2, 2) @ torch.ones(2)\nx += 1\n",
        "import torch\nx = torch.ones(3, 3) @ torch.ones(3)\nx += 1\n",
    ]


def test_a_type_that_is_stated_is_not_varied() -> None:
    assert "any floating-point type" not in variants_of("import torch\nx = torch.ones(1, dtype=torch.int64)\nx += 1\n")


def test_the_culprit_is_written_in_other_ways() -> None:
    assert variants_of(SMALL)["any in-place operator"] == [
        SMALL.replace("x += 1", write) for write in ("x.zero_()", "x.mul_(2)", "x.copy_(x)")
    ]


@pytest.mark.parametrize("culprit", ["optimizer.step()", "x[0] = 1", "torch.relu(x, out=x)"])
def test_a_culprit_that_is_not_plainly_about_one_name_is_not_varied(culprit: str) -> None:
    assert "any in-place operator" not in variants_of(SMALL.replace("x += 1", culprit))


def test_only_what_holds_in_every_variant_is_free() -> None:
    assert free(facts(SMALL), lambda program: "2" not in program.entry.text.replace("float64", "")) == (
        "any floating-point type",
        "any values",
    )


def test_everything_is_free_where_everything_holds() -> None:
    assert free(facts(SMALL), lambda program: True) == (
        "any size",
        "any floating-point type",
        "any values",
        "any in-place operator",
    )
