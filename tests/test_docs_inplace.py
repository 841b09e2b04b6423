from __future__ import annotations

import doctest
from pathlib import Path

import operators
import pytest
import torch

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = [DOCS / "inplace.md", DOCS / "zh" / "inplace.md"]
RELEASE = torch.__version__.partition("+")[0]
the_release_shown = pytest.mark.skipif(
    f"Asked of PyTorch {RELEASE}:" not in GUIDES[0].read_text(encoding="utf-8"),
    reason=f"the guide shows what another release than {RELEASE} says",
)


@the_release_shown
@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(DOCS)))
def test_every_example_of_the_guide_does_what_it_shows(guide: Path) -> None:
    # a fence ends an example as an empty line does
    text = guide.read_text(encoding="utf-8").replace("```", "")
    examples = doctest.DocTestParser().get_doctest(text, {}, guide.name, str(guide), 0)
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(examples, out=told.append)
    assert len(examples.examples) > 10
    assert told == []


@pytest.mark.parametrize(
    ("call", "inputs", "output"),
    [
        ("x.exp()", (), True),
        ("x.log()", ("x",), False),
        ("x * y", ("x", "y"), False),
        ("torch.where(mask, x, y)", ("mask",), False),
        ("x + y", (), False),
    ],
)
def test_torch_is_asked_what_an_operator_needs(call: str, inputs: tuple[str, ...], output: bool) -> None:
    asked = operators.ask(call)
    assert (asked.inputs, asked.output) == (inputs, output)


@the_release_shown
def test_the_table_is_what_torch_says() -> None:
    assert list(operators.differences((DOCS / "inplace.md").read_text(encoding="utf-8"))) == []


@the_release_shown
def test_a_page_that_says_otherwise_is_found_out() -> None:
    row = "| `x.exp()` |  | yes |"
    text = (DOCS / "inplace.md").read_text(encoding="utf-8")
    assert row in text
    wrong = list(operators.differences(text.replace(row, "| `x.exp()` | `x` |  |")))
    assert len(wrong) == 2
