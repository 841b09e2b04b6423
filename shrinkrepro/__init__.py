"""Finds the in-place edit behind PyTorch's "modified by an inplace operation", and shrinks the script to a repro.

>>> from shrinkrepro import explain, load_script, reduce
>>> program = load_script("train.py", ["--epochs", "3"])
>>> explain(program).diagnosis.culprit.line
82
>>> print(reduce(program).reduced.program.entry.text)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shrinkrepro.errors import ShrinkReproError
    from shrinkrepro.pipeline import Options, bisect, explain, reduce
    from shrinkrepro.program.load import load_module, load_script
    from shrinkrepro.results import Bisected, Explanation, Result
    from shrinkrepro.watching import watch

__version__ = "0.1.0"

__all__ = [
    "Bisected",
    "Explanation",
    "Options",
    "Result",
    "ShrinkReproError",
    "__version__",
    "bisect",
    "explain",
    "load_module",
    "load_script",
    "reduce",
    "watch",
]

# Imported when first asked for: `shrinkrepro --help` needs none of it, and the isolated processes import this package.
_HOMES = {
    "Bisected": "shrinkrepro.results",
    "Explanation": "shrinkrepro.results",
    "Options": "shrinkrepro.pipeline",
    "Result": "shrinkrepro.results",
    "ShrinkReproError": "shrinkrepro.errors",
    "bisect": "shrinkrepro.pipeline",
    "explain": "shrinkrepro.pipeline",
    "load_module": "shrinkrepro.program.load",
    "load_script": "shrinkrepro.program.load",
    "reduce": "shrinkrepro.pipeline",
    "watch": "shrinkrepro.watching",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext shrinkrepro` calls: adds the cell magic `%%shrinkrepro`."""
    importlib.import_module("shrinkrepro.magic").register(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
