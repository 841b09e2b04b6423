"""What tests of passes share: all passes, and the programs that a pass makes of one program."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import shrinkrepro.passes
from shrinkrepro.diagnosis import diagnose
from shrinkrepro.facts import Facts
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.oracle import job_for
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program, SourceFile
from shrinkrepro.runtime.messages import Report, Watch

Pass = Callable[[Program, Facts], Iterator[Patch]]
FactsOf = Callable[[Program], Facts]

_FILE = re.compile(r"^# (\S+\.py)\n", re.MULTILINE)


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
    """Facts of a program that is run in a fork server: why it fails, if it does, and what else a run shows."""
    trace = _run(program, "trace").trace
    diagnosis = None if trace is None else diagnose(trace, dict(program.texts))
    return Facts(program, diagnosis, lambda: _run(program, "observe").observation)


def program_of(text: str) -> Program:
    """The program of that text; each line `# name.py` begins another file, and the last file is the script."""
    names, texts = _FILE.findall(text), _FILE.split(text)[2::2]
    if not names:
        return Program.of(text)
    files = (SourceFile.original(name, part) for name, part in zip(names, texts, strict=True))
    return replace(Program.of("", names[-1]), files=tuple(files))


def patches_of(pass_: Pass, before: str, facts_of: FactsOf = unobserved) -> list[str]:
    """What `before` becomes by each patch that the pass proposes for it, made alone, in the order proposed."""
    program = program_of(textwrap.dedent(before))
    return [patch.apply(program).entry.text for patch in pass_(program, facts_of(program))]


def together(pass_: Pass, before: str, facts_of: FactsOf = unobserved) -> str:
    """What `before` becomes when all patches that the pass proposes are made at once."""
    program = Program.of(textwrap.dedent(before))
    edits = tuple(dict.fromkeys(edit for patch in pass_(program, facts_of(program)) for edit in patch.edits))
    return Patch(edits).apply(program).entry.text


def _run(program: Program, watch: Watch) -> Report:
    with tempfile.TemporaryDirectory() as folder:  # empty: what a run sees of its folder is copied
        there = replace(program.invocation, root=folder, cwd=folder)
        return _workers().run(job_for(replace(program, invocation=there), watch))


@cache
def _workers() -> Workers:
    zygote = Zygote()
    zygote.preload(("torch",))  # once, and not in every run
    return Workers(zygote, 1)
