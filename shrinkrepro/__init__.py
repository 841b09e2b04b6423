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
    from shrinkrepro.pipeline import Options, explain, reduce
    from shrinkrepro.program.load import load_script
    from shrinkrepro.results import Explanation, Result

__version__ = "0.1.0"

__all__ = ["Explanation", "Options", "Result", "ShrinkReproError", "__version__", "explain", "load_script", "reduce"]

# Imported when first asked for: `shrinkrepro --help` needs none of it, and the isolated processes import this package.
_HOMES = {
    "Explanation": "shrinkrepro.results",
    "Options": "shrinkrepro.pipeline",
    "Result": "shrinkrepro.results",
    "ShrinkReproError": "shrinkrepro.errors",
    "explain": "shrinkrepro.pipeline",
    "load_script": "shrinkrepro.program.load",
    "reduce": "shrinkrepro.pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
