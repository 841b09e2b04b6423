"""A stand-in for PyTorch's autograd engine, which everything in Python that runs backward goes through."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Engine:
    """Does what `engine` does, but has each backward pass run by `run(engine, arguments, keywords)`."""

    def __init__(self, engine: Any, run: Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]) -> None:
        self._engine, self._run = engine, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(self, *arguments: Any, **keywords: Any) -> Any:
        """Run a backward pass."""
        return self._run(self._engine, arguments, keywords)
