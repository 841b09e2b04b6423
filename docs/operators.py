"""Writes the table of what operators save for backward, in docs/inplace.md, by asking torch.

    python docs/operators.py --check    # fail when the table is not what torch says
    python docs/operators.py --write

Each operator is run, one of its tensors is written in place without changing a number, and backward says whether it
minds. Operators are given as the calls that a reader would write.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from shrinkrepro.runtime import graph
from shrinkrepro.runtime.messages import PHRASE

PAGE = Path(__file__).resolve().parent / "inplace.md"
BEGIN, END = "<!-- written by docs/operators.py -->", "<!-- end of what docs/operators.py writes -->"


class Saved(NamedTuple):
    """What backward of an operator needs unchanged: some inputs, maybe its output; its node, and that one's words."""

    inputs: tuple[str, ...]
    output: bool
    node: str
    words: tuple[str, ...]


OPERATORS = (
    "x.exp()",
    "x.sigmoid()",
    "x.tanh()",
    "x.relu()",
    "x.sqrt()",
    "x.softmax(0)",
    "x.log_softmax(0)",
    "x.max(0).values",
    "x.log()",
    "x.sin()",
    "x.abs()",
    "x ** 2",
    "x.clamp(0, 1)",
    "F.gelu(x)",
    "F.silu(x)",
    "F.leaky_relu(x)",
    "x * y",
    "x * 2",
    "x / y",
    "x @ y",
    "F.linear(x, weight, bias)",
    "F.layer_norm(x, [3], scale, bias)",
    "F.mse_loss(x, y)",
    "F.dropout(x)",
    "F.embedding(index, weight)",
    "x[index]",
    "x.gather(0, index)",
    "torch.where(mask, x, y)",
    "x.masked_fill(mask, 0)",
    "x.norm()",
    "x.prod()",
    "x + y",
    "x - y",
    "-x",
    "x.sum()",
    "x.mean()",
    "x.cumsum(0)",
    "torch.cat([x, y])",
    "x.view(9)",
)


def ask(call: str) -> Saved:
    """What backward of an operator needs unchanged."""
    inputs = tuple(name for name in _tensors(call) if _minds(call, name))
    node = _result(call, _tensors(call)).grad_fn
    assert node is not None, call
    words = tuple(dict.fromkeys(name for name, _ in graph.saved_tensors(node)))
    return Saved(inputs, _minds(call, None), node.name(), words)


def _minds(call: str, written: str | None) -> bool:
    """Whether backward fails once the tensor of that name, or the output for None, has been written in place."""
    tensors = _tensors(call)
    output = _result(call, tensors)
    with torch.no_grad():
        target = output if written is None else tensors[written]
        target.copy_(target.clone())
    try:
        output.sum().backward()  # type: ignore[no-untyped-call]
    except RuntimeError as problem:
        if PHRASE not in str(problem):
            raise
        return True
    return False


def _result(call: str, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    result = eval(call, {"torch": torch, "F": torch.nn.functional}, tensors)
    assert isinstance(result, torch.Tensor), call
    return result


def _tensors(call: str) -> dict[str, torch.Tensor]:
    """A tensor for each name in the call; those of numbers take part in gradients and are no leaves."""
    others = {"index": torch.zeros(2, 3, dtype=torch.long), "mask": torch.eye(3, dtype=torch.bool)}
    names = [node.id for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Name)]
    return {
        name: others[name]
        if name in others
        else torch.rand((3,) if name in ("scale", "bias") else (3, 3), requires_grad=True).clone()
        for name in sorted({*names} - {"torch", "F"}, key=call.index)
    }


def table() -> str:
    """What all the operators save, as a table: those that save their output first, those that save nothing last."""
    known = sorted(((call, ask(call)) for call in OPERATORS), key=lambda pair: _group(pair[1]))
    rows = [
        "| call | inputs that must stay | output must stay | its graph node, and what that saved |",
        "| --- | --- | --- | --- |",
        *(_row(call, saved) for call, saved in known),
    ]
    return "\n".join([BEGIN, "", f"Asked of PyTorch {torch.__version__.partition('+')[0]}:", "", *rows, "", END])


def _group(saved: Saved) -> int:
    return 0 if saved.output else 1 if saved.inputs else 2


def _row(call: str, saved: Saved) -> str:
    inputs = ", ".join(f"`{name}`" for name in saved.inputs)
    words = f"`{saved.node}`: " + ", ".join(f"`{word}`" for word in saved.words) if saved.words else ""
    return f"| `{call}` | {inputs} | {'yes' if saved.output else ''} | {words} |"


def page(text: str) -> str:
    """The page with the table that torch's answers make. Raises ValueError when it has no place for one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks the lines {BEGIN!r} and {END!r}")
    return before + table() + after


def differences(text: str) -> Iterator[str]:
    """The lines of the page that torch says should read otherwise."""
    now, wanted = text.splitlines(), page(text).splitlines()
    yield from (line for line in now if line not in wanted)
    yield from (line for line in wanted if line not in now)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check or write the table; 1 when it is not what torch says."""
    parser = argparse.ArgumentParser(description="Check or write the table in docs/inplace.md.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail when the table is not what torch says")
    mode.add_argument("--write", action="store_true", help="write the table")
    text = PAGE.read_text(encoding="utf-8")
    if parser.parse_args(arguments).write:
        PAGE.write_text(page(text), encoding="utf-8")
        return 0
    wrong = list(differences(text))
    for line in wrong:
        print(f"{PAGE}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
