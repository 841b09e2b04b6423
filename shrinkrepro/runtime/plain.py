"""In a new interpreter that no kernel guards: puts the audit hook up, then runs a program as `python` would."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from shrinkrepro.runtime import guard
from shrinkrepro.runtime.messages import Limits
from shrinkrepro.runtime.secrets import secret_places

__all__ = ["run"]


def run(words: Sequence[str], scratch: str, limits: Limits, *, network: bool) -> None:
    """Run what follows `python` on a command line, `-m name ...` or `path ...`, writing only in `scratch`."""
    secrets = secret_places(os.path.expanduser("~"))
    module = words[0] == "-m"
    sys.argv = list(words[1:] if module else words)
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(words[0])))
    guard.restrict(scratch, limits, network=network, landlock=False, secrets=secrets)
    if module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")
