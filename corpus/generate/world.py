"""Runs a program line by line while it is being written, and keeps account of what each line saved and spoiled.

This is where the truth comes from: after every line the graph's new nodes belong to that line, and each saved tensor
that can no longer be read was spoiled by that line. Nothing here watches calls, and nothing knows what any operator
does: torch is asked after the fact.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from corpus.generate import operators
from corpus.generate.code import Item, Line

PHRASE = "modified by an inplace operation"
COPY_SLICES = "torch::autograd::CopySlices"
Node = Any

_VERSIONS = re.compile(r"\[\S+ (\[[^\]]*\])\].* is at version (\d+); expected version (\d+)")


@dataclass(eq=False)
class Entry:
    """A tensor that a graph node saved: by which line, and which line spoiled it with which message, if any.

    `attribute` and `message` are empty for one that the node hides: the author knows of it because it was meant.
    `shown` is then the node and the attribute that fail in its place, if they are of a graph yet to be built. `through`
    is the node that a backward pass must run for the tensor to be spoiled, if that happens only then.
    """

    node: Node
    attribute: str
    line: Line
    storage: int | None
    spoiled: Line | None = None
    message: str = ""
    shown: tuple[str, str] | None = None
    through: Node | None = None

    @property
    def order(self) -> int:
        """The engine reaches nodes of higher numbers first."""
        number: int = self.node._sequence_nr()
        return number


@dataclass(frozen=True)
class Facts:
    """The versions and the shape that a message gives."""

    shape: str
    version: int
    expected: int

    @classmethod
    def of(cls, message: str) -> Facts | None:
        """The facts in PyTorch's message; None where there are none."""
        found = _VERSIONS.search(message)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]))


class Spent(Exception):
    """A line failed although it had run before, or what it did cannot be accounted for: the program is given up."""


class World:
    """The names that a program has bound so far, and the graph below them."""

    def __init__(self, prelude: str) -> None:
        self.names: dict[str, Any] = {"__name__": "generated"}
        self.entries: list[Entry] = []
        self._known: set[Node] = set()
        exec(prelude, self.names)

    def run(self, item: Item) -> bool:
        """Run an item; False when Python or torch refused it. A block's header is one of those that we write."""
        if isinstance(item, Line):
            try:
                self._define(item.text)
                exec(item.text, self.names)
            except Exception:
                return False
            self._account(item)
            return True
        done = True
        for turn in self.turns(item.header):
            with turn:
                for inner in item.body:
                    done &= self.run(inner)
        return done

    def turns(self, header: Line) -> Iterator[Any]:
        """For each time that a block's body runs, the context in which it does."""
        text = header.text
        if text.startswith("for "):
            name, _, sequence = text.removeprefix("for ").removesuffix(":").partition(" in ")
            for value in eval(sequence, self.names):
                self.names[name] = value
                yield nullcontext()
        elif text.startswith("with "):
            yield eval(text.removeprefix("with ").removesuffix(":"), self.names)
        else:
            yield nullcontext()

    def value(self, expression: str) -> Any:
        """What an expression is now; None where it cannot be had."""
        if expression in self.names:
            return self.names[expression]
        try:
            return eval(expression, self.names)
        except Exception:
            return None

    def below(self, tensor: torch.Tensor) -> set[Node]:
        """The graph nodes that a backward pass from `tensor` would run."""
        return set(reachable([node_of(tensor)]))

    def shares(self, entry: Entry, tensor: torch.Tensor) -> bool:
        """Whether a saved tensor has its memory in common with `tensor`."""
        return entry.storage is not None and entry.storage == storage_of(tensor)

    def _define(self, text: str) -> None:
        """Compile the scripted functions that a line is the first to mention."""
        for name, definition in operators.SCRIPTED.items():
            if name in text and name not in self.names:
                run_source(definition, f"<{name}>", self.names)

    def _account(self, line: Line) -> None:
        for entry in list(self.entries):
            if entry.spoiled is None:
                problem = complaint(entry.node, entry.attribute)
                if problem is None:
                    continue
                if PHRASE in problem:
                    entry.spoiled, entry.message = line, problem
                else:  # used up by a backward pass
                    self.entries.remove(entry)
        for node in reachable(map(node_of, self._tensors()), self._known):
            self._known.add(node)
            for attribute in saved_attributes(node):
                try:
                    saved = getattr(node, attribute)
                except RuntimeError as problem:
                    if PHRASE in str(problem):
                        self.entries.append(Entry(node, attribute, line, None, line, str(problem)))
                    continue
                for tensor in saved if isinstance(saved, tuple) else (saved,):
                    if isinstance(tensor, torch.Tensor):
                        self.entries.append(Entry(node, attribute, line, storage_of(tensor)))

    def _tensors(self) -> Iterator[torch.Tensor]:
        todo: list[Any] = [value for name, value in self.names.items() if not name.startswith("__")]
        while todo:
            value = todo.pop()
            if isinstance(value, torch.Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                todo += value
            elif isinstance(value, dict):
                todo += value.values()
            elif type(value).__name__ in ("SimpleNamespace", "Box"):
                todo += vars(value).values()


def run_source(text: str, path: str, names: dict[str, Any]) -> None:
    """Run a source text where torch can find it again, as it must to script a function."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    exec(compile(text, path, "exec", dont_inherit=True), names)


def saved_attributes(node: Node) -> list[str]:
    """The names under which a graph node shows the tensors that it saved."""
    found = dir(node)
    if hasattr(type(node), "saved_tensors"):
        return ["saved_tensors"]
    return [f"_saved_{name[11:]}" for name in found if name.startswith("_raw_saved_")]


def complaint(node: Node, attribute: str) -> str | None:
    """What torch says when a saved tensor is read; None when it lets us."""
    try:
        getattr(node, attribute)
    except RuntimeError as problem:
        return str(problem)
    return None


def own_spoil(tensor: torch.Tensor) -> tuple[str, str] | None:
    """The node and the attribute below a tensor that can no longer be read; of several, what the engine reads first."""
    for node in sorted(reachable([node_of(tensor)]), key=lambda node: -node._sequence_nr()):
        for attribute in saved_attributes(node):
            if PHRASE in (complaint(node, attribute) or ""):
                return node.name(), attribute
    return None


def node_of(tensor: torch.Tensor) -> Node:
    """The graph node that made a tensor, or None."""
    return None if broken(tensor) else tensor.grad_fn


def broken(tensor: torch.Tensor) -> bool:
    """Whether torch forbids the use of a view since its base was written: one of several, or made under `no_grad`."""
    try:
        tensor.grad_fn  # noqa: B018  # asking is what raises
    except RuntimeError:
        return True
    return False


def reachable(roots: Iterable[Node], known: Iterable[Node] = ()) -> Iterator[Node]:
    """Every node below `roots`, each once, but those below `known`."""
    seen, todo = set(known), list(roots)
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            todo += [below for below, _ in node.next_functions]


def storage_of(tensor: torch.Tensor) -> int | None:
    """What identifies the memory of a tensor; None for layouts that have none of their own."""
    try:
        return int(tensor.untyped_storage().data_ptr()) or None
    except (RuntimeError, NotImplementedError):
        return None
