from __future__ import annotations

import pytest

from shrinkrepro.program.source import Program, Size, count_writes


@pytest.mark.parametrize(
    "text",
    [
        "x += 1\n",
        "x[0] = 1\n",
        "x.add_(1)\n",
        "x.__setitem__(0, 1)\n",
        "x.__iadd__(1)\n",
        "f(x, out=y)\n",
        "relu(x, inplace=True)\n",
        "map(torch.Tensor.add_, [x])\n",
    ],
)
def test_every_in_place_form_counts_as_a_write(text: str) -> None:
    assert count_writes(text) == 1


@pytest.mark.parametrize(
    "text",
    ["x = x + 1\n", "y = x[0]\n", "x.__init__()\n", "self.mean_ = x\n", "relu(x, inplace=False)\n", "x.add(1)\n"],
)
def test_what_writes_nothing_does_not_count(text: str) -> None:
    assert count_writes(text) == 0


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("y = x\n", "y = z\nx\n"),
        ("f(x, x)\n", "f(x, y)\n"),
        ("x = 1\ny = 2\nf(x)\n", "x = 1\ny = 2\nf(y)\n"),
        ("f(1)\n", "f(3)\n"),
        ("f(x)\n", "f(long)\n"),
    ],
)
def test_of_programs_with_as_many_writes_the_simpler_one_is_smaller(smaller: str, larger: str) -> None:
    assert Size.of(Program.of(smaller)) < Size.of(Program.of(larger))
