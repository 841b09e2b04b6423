"""The smallest program with the same pair of operators, written from the templates of the two lines.

One import, a leaf, the saving operator, the write, the backward pass: what an expert would hand in. Every arrangement
of these is written, and they are run from the shortest on: the first that fails at the same node in the same words.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from corpus.generate import operators
from corpus.generate.truth import Made, Truth
from corpus.generate.world import PHRASE, complaint, reachable, saved_attributes

_SHAPES = ("()", "1", "1, 1", "2, 2", "3, 3")
_MAKERS = ("", " * 1", "[:]")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_PRODUCER = re.compile(r"which is output \d+ of (\S+),")
_MOST = 3000


@dataclass(frozen=True)
class Pair:
    """Where a program fails: the graph node, the saved tensors of it that are spoiled, the operator in the message."""

    node: str
    attributes: tuple[str, ...]
    producer: str | None

    def shows(self, truth: Truth) -> bool:
        """Whether it is the failure of `truth`."""
        return (
            self.node == truth.node and truth.attribute in self.attributes and self.producer == producer(truth.message)
        )


def smallest(truth: Truth) -> str | None:
    """The smallest program that fails as `truth` says because of the same templates; None if none was found."""
    if truth.writing is None:
        return None
    makers = _makers(producer(truth.message))
    savings = [truth.saving, *(Made(template, ()) for template in savers().get((truth.node, truth.attribute), ()))]
    plain = operators.PLAIN.get(truth.writing.template)
    writings = [truth.writing, *([Made(plain, truth.writing.holes)] if plain else [])]
    pairs = itertools.product([saving for saving in savings if saving is not None], writings)
    found = {text for saving, writing in pairs for text in _arrangements(saving, writing, makers)}
    texts = sorted(found, key=lambda text: (len(_TOKEN.findall(text)), text))
    tried = ((text, failing_pair(text)) for text in texts[:_MOST])
    return next((text for text, pair in tried if pair is not None and pair.shows(truth)), None)


@functools.cache
def savers() -> dict[tuple[str, str], tuple[str, ...]]:
    """Which expressions make a node of which kind that saves a tensor under which attribute, shortest first.

    Learnt by asking torch.
    """
    x, w = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
    names = {"torch": torch, "F": torch.nn.functional, "x": x, "w": w}
    found: dict[tuple[str, str], list[str]] = {}
    for template in sorted((*operators.UNARY, *operators.BINARY), key=len):
        with contextlib.suppress(Exception):
            result = eval(template.format("x", "w"), dict(names))
            kinds = {
                (node.name(), attribute)
                for node in reachable([result.grad_fn])
                for attribute in saved_attributes(node)
                if attribute == "saved_tensors" or isinstance(getattr(node, attribute), torch.Tensor)
            }
            for kind in kinds:
                found.setdefault(kind, []).append(template)
    return {kind: tuple(templates[:2]) for kind, templates in found.items()}


def producer(message: str) -> str | None:
    """The operator that a message names."""
    found = _PRODUCER.search(message)
    return None if found is None else found[1]


def tokens(text: str) -> int:
    """How many tokens a program has, layout not counted."""
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.COMMENT}
    return sum(token.type not in layout for token in tokenize.generate_tokens(io.StringIO(text).readline))


def failing_pair(text: str) -> Pair | None:
    """Where a program fails; None when it does not, or not at a node that shows it."""
    names: dict[str, Any] = {}
    *lines, last = text.splitlines()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec("\n".join(lines), names)
        result = eval(last.removesuffix(".backward()"), names)
    except Exception:
        return None
    try:
        result.backward(retain_graph=True)
    except RuntimeError as problem:
        message = str(problem)
    else:
        return None
    if PHRASE not in message:
        return None
    for node in sorted(reachable([result.grad_fn]), key=lambda node: -node._sequence_nr()):
        spoiled = tuple(
            attribute for attribute in saved_attributes(node) if PHRASE in (complaint(node, attribute) or "")
        )
        if spoiled:
            return Pair(node.name(), spoiled, producer(message))
    return None


def _makers(operator: str | None) -> Iterable[str]:
    """What to append to a leaf to make the tensor that is written: nothing, or what the message may name."""
    if operator is None:
        return "", " * 1"
    name = operator.rstrip("0123456789").removesuffix("Backward").lower()
    known = (template for template in (*operators.UNARY, *operators.VIEWS) if template.startswith("{0}."))
    return dict.fromkeys((*_MAKERS, *(t.removeprefix("{0}") for t in known if t[4:].replace("_", "").startswith(name))))


def _arrangements(saving: Made, writing: Made, makers: Iterable[str]) -> Iterator[str]:
    for shape, maker in itertools.product(_SHAPES, makers):
        leaf = f"torch.ones({shape}, requires_grad=True)"
        first = f"x = {leaf}{maker}"
        if saving == writing:  # one line does both
            yield _program(
                [first], _filled(writing, "x", "x", name="y"), (), "y" if "{name}" in writing.template else "x"
            )
            continue
        for template in {saving.template, re.sub(r"\b\d+\b", "1", saving.template)}:
            save = Made(template, ())
            if template.startswith("nn."):
                layer, call = template.rsplit("(", 1)
                part = writing.holes[0].rpartition(".")[2]
                made = [first, f"m = {layer}"]
                yield from _written(made, Made(f"m({call}", ()), ("x", "x"), writing, (f"m.{part}", f"m[0].{part}"))
            yield from _written([first], save, ("x", "x"), writing, ("x", "y"))
            for other in (f"w = {leaf}", f"w = torch.ones({shape})"):
                for data in (first, f"x = torch.ones({shape})"):
                    for holes in (("x", "w"), ("w", "x")):
                        yield from _written([data, other], save, holes, writing, ("x", "y"))


def _written(
    lines: list[str], save: Made, holes: tuple[str, str], writing: Made, targets: tuple[str, ...]
) -> Iterator[str]:
    for target in targets:
        write = _filled(writing, target, target, name="z")
        frozen = ["with torch.no_grad():", f"    {write}"]
        for writes in ([write], frozen, [f"{target}.detach().add_(1)"] if "detach" in write else []):
            for end in (".sum().backward()", ".backward()") if writes else ():
                yield _program(lines, f"y = {_filled(save, *holes)}", writes, "y", end)


def _filled(made: Made, first: str, second: str, name: str = "y") -> str:
    return made.template.format(first, second, name=name)


def _program(making: list[str], save: str, writes: Iterable[str], result: str, end: str = ".sum().backward()") -> str:
    lines = [*making, save]
    for write in writes:
        if write.endswith(".step()"):
            lines.append(f"{result}.sum().backward(retain_graph=True)")
        lines.append(write)
    text = "\n".join([*lines, f"{result}{end}"])
    definitions = "\n".join(body for name, body in operators.DEFINITIONS.items() if re.search(rf"\b{name}\b", text))
    imports = [line for name, line in operators.IMPORTS.items() if re.search(rf"\b{name}\.", text)]
    return "\n".join(["import torch", *imports, definitions + text]) + "\n"
