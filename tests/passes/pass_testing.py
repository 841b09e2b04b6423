"""What tests of passes share: the programs that a pass makes of one program, and the examples in its docstring."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import shrinkrepro.passes
from shrinkrepro.facts import Facts
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.oracle import job_for
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program
from shrinkrepro.runtime.messages import Observation

Pass = Callable[[Program, Facts], Iterator[Patch]]
FactsOf = Callable[[Program], Facts]

_EXAMPLE = re.compile(
    r"^(?P<indent> *)Before:\n(?P<before>(?:(?P=indent) +\S.*\n|\s*\n)+?)(?P=indent)After:\n"
    r"(?P<after>(?:(?P=indent) +\S.*(?:\n|\Z)|[^\S\n]*\n)*)",
    re.MULTILINE,
)


def all_passes() -> list[Pass]:
    """Every pass there is: the public functions of the package that yield patches."""
    found = []
    for module in pkgutil.iter_modules(shrinkrepro.passes.__path__, "shrinkrepro.passes."):
        for name, function in vars(importlib.import_module(module.name)).items():
            own = inspect.isfunction(function) and function.__module__ == module.name and not name.startswith("_")
            if own and function.__annotations__.get("return") == "Iterator[Patch]":
                found.append(function)
    return sorted(found, key=lambda pass_: (pass_.__module__, pass_.__name__))


def unobserved(program: Program) -> Facts:
    """Facts of a program that nobody ran: every line counts as executed."""
    return Facts(program, None, lambda: None)


def observed(program: Program) -> Facts:
    """Facts of a program that is run, in a fork server, as soon as a pass asks what a run shows."""
    return Facts(program, None, partial(_observe, program))


def patches_of(pass_: Pass, before: str, facts_of: FactsOf = unobserved) -> list[str]:
    """What `before` becomes by each patch that the pass proposes for it, made alone, in the order proposed."""
    program = Program.of(textwrap.dedent(before))
    return [patch.apply(program).entry.text for patch in pass_(program, facts_of(program))]


def together(pass_: Pass, before: str, facts_of: FactsOf = unobserved) -> str:
    """What `before` becomes when all patches that the pass proposes are made at once."""
    program = Program.of(textwrap.dedent(before))
    edits = tuple(dict.fromkeys(edit for patch in pass_(program, facts_of(program)) for edit in patch.edits))
    return Patch(edits).apply(program).entry.text


def examples_of(pass_: Pass) -> list[tuple[str, str]]:
    """The (before, after) pairs in the docstring of a pass, dedented."""
    text = textwrap.dedent("    " + (pass_.__doc__ or ""))
    return [(_block(found["before"]), _block(found["after"])) for found in _EXAMPLE.finditer(text)]


def _block(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


def _observe(program: Program) -> Observation | None:
    with tempfile.TemporaryDirectory() as folder:  # empty: what a run sees of its folder is copied
        there = replace(program.invocation, root=folder, cwd=folder)
        return _workers().run(job_for(replace(program, invocation=there), "observe")).observation


@cache
def _workers() -> Workers:
    zygote = Zygote()
    zygote.preload(("torch",))  # once, and not in every run
    return Workers(zygote, 1)
