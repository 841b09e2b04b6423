"""Passes over whole files: those that nothing imports dropped, local modules moved into the script."""

from __future__ import annotations

from collections.abc import Iterator

from shrinkrepro.facts import Facts
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.flatten import flattened, importers, unreached
from shrinkrepro.program.source import Program


def drop_files(program: Program, facts: Facts) -> Iterator[Patch]:
    """Drop the files that no chain of imports leads to from the script.

    Before:
        # unused.py
        print(1)
        # program.py
        print(2)
    After:
        print(2)
    """
    dropped = unreached(program) if len(program.files) > 1 else frozenset()
    if dropped:
        yield Patch((), "drop files that nothing imports", dropped)


def move_modules(program: Program, facts: Facts) -> Iterator[Patch]:
    """Move local modules into the script: all at once, else one of those that only the script imports.

    Before:
        # nets.py
        def double(x):
            return x * 2
        # program.py
        import nets
        print(nets.double(3))
    After:
        def double(x):
            return x * 2
        print(double(3))
    """
    if len(program.files) == 1:
        return
    entry = program.invocation.entry
    alone = [path for path, by in importers(program).items() if by == {entry}]
    for wanted in (None, *([path] for path in alone)):
        patch = flattened(program, wanted)
        if patch is not None:
            yield patch
