"""Where choices come from: a Hypothesis `draw`, which can shrink them, or a seeded generator, which repeats them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

import hypothesis.strategies as st

T = TypeVar("T")


class Choice(Protocol):
    """Makes the choices of one program. The simplest choice is the first option, the lowest number, and "no"."""

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options, of which there must be any."""

    def chance(self, percent: int) -> bool:
        """Yes in so many of a hundred cases."""

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in any order."""


class Drawn:
    """Choices drawn by Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return self._draw(st.integers(low, high))

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self._draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        """Yes in so many of a hundred cases."""
        return self._draw(st.integers(0, 99)) >= 100 - percent

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in any order, drawn as one number: a permutation of many would use up the entropy."""
        order = list(options)
        random.Random(self._draw(st.integers(0, 1 << 16))).shuffle(order)
        return order


class Seeded:
    """Choices that follow from a text."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return self._random.randint(low, high)

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options."""
        return self._random.choice(options)

    def chance(self, percent: int) -> bool:
        """Yes in so many of a hundred cases."""
        return self._random.randrange(100) < percent

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """The options in any order."""
        return self._random.sample(options, len(options))
