"""The cases of the corpus: their labels, and how each is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shrinkrepro.program.load import load_module, load_script
from shrinkrepro.program.source import Program

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORPUS = Path(__file__).resolve().parent


def cases(beginnings: Collection[str] = ()) -> list[Path]:
    """The folders of all cases in order, or of those whose names begin with one of the words."""
    found = sorted(path.parent for path in CORPUS.glob("*/case.toml"))
    return [case for case in found if not beginnings or case.name.startswith(tuple(beginnings))]


def labels(case: Path) -> dict[str, Any]:
    """What the case's `case.toml` says."""
    return tomllib.loads((case / "case.toml").read_text(encoding="utf-8"))


def program(case: Path, folder: Path | None = None) -> Program:
    """The program of a case as `case.toml` starts it, in `folder`, a copy of the case's own (that itself when None)."""
    told, cwd = labels(case), folder or case
    environment = tuple(
        (name, value) for name, _, value in (pair.partition("=") for pair in told.get("environment", []))
    )
    if "module" in told:
        loaded = load_module(told["module"], told["args"], cwd=str(cwd), environment=environment)
    else:
        loaded = load_script(told["entry"], told["args"], cwd=str(cwd), environment=environment)
    stdin = (cwd / told["stdin"]).read_text(encoding="utf-8") if "stdin" in told else ""
    return replace(loaded, invocation=replace(loaded.invocation, network=told.get("network", False), stdin=stdin))


def command(told: Mapping[str, Any]) -> list[str]:
    """The command line of a plain interpreter for a case with these labels; to be run in the case's folder."""
    return [sys.executable, *(["-m", told["module"]] if "module" in told else [told["entry"]]), *told["args"]]


def is_plain_script(told: Mapping[str, Any]) -> bool:
    """Whether a case with these labels is a Python file, started by its path, without input and network."""
    return told["entry"].endswith(".py") and {"module", "stdin", "network"}.isdisjoint(told)


def surroundings(told: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables of a plain run of a case with these labels."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **dict(pair.split("=", 1) for pair in told.get("environment", []))}
