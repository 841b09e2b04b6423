"""In which order one pass's patches are tried, and in groups of which size.

The state of a search is a value: what it asks for next follows from the answers so far and from nothing else. So the
same answers give the same program whatever the number of workers, and looking ahead is asking a hypothetical state.

Independent patches are merged adaptively, after `find_integer` in Hypothesis: how many of the next patches hold
together is found by trying 1, 2, 3, 4, then doubling, then bisecting. On programs of which little is needed this
takes about one run for each thing that stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shrinkrepro.program.edit import Conflict, Patch
from shrinkrepro.program.source import Program

_ONE_BY_ONE = 4


@dataclass(frozen=True)
class Search:
    """A search over `patches` of `base`: those in `chosen` hold, those before `position` are decided.

    Of the patches from `position` on, `good` are known to hold together, and `bad`, when set, are known not to.
    """

    base: Program
    patches: tuple[Patch, ...]
    chosen: tuple[int, ...] = ()
    position: int = 0
    good: int = 0
    bad: int | None = None

    @property
    def current(self) -> Program:
        """The base with every chosen patch and the run of good ones made: always a program that was judged."""
        return self._with(self.chosen + self._run(self.good))

    def settled(self) -> Search:
        """The state moved on to the next question worth asking, or to its end (`position` past the last patch)."""
        state = self
        while state.position < len(state.patches):
            length = state._probe()
            if length is None:
                taken = state.chosen + state._run(state.good)
                state = replace(state, chosen=taken, position=state.position + state.good + 1, good=0, bad=None)
                continue
            candidate = state._try(length)
            if candidate is None:  # contradicts what is chosen: no larger group will do either
                state = replace(state, bad=length)
            elif candidate.texts == state.current.texts:  # void: it lies in what another patch took out
                state = replace(state, good=length)
            else:
                return state
        return state

    @property
    def candidate(self) -> Program | None:
        """The program to judge next; None when every patch is decided. Only of a settled state."""
        length = self._probe() if self.position < len(self.patches) else None
        return None if length is None else self._try(length)

    def after(self, holds: bool) -> Search:
        """The state once the candidate was judged."""
        length = self._probe()
        assert length is not None
        return replace(self, good=length).settled() if holds else replace(self, bad=length).settled()

    def ahead(self) -> Iterator[Program]:
        """The candidates that come next if things go on as they went: what a run just showed, again."""
        state = self.after(self.good > 0)
        while (candidate := state.candidate) is not None:
            yield candidate
            state = state.after(state.good > 0)

    def _probe(self) -> int | None:
        left = len(self.patches) - self.position
        if self.bad is None:
            length = self.good + 1 if self.good < _ONE_BY_ONE else self.good * 2
            return min(length, left) if self.good < left else None
        return (self.good + self.bad) // 2 if self.bad - self.good > 1 else None

    def _run(self, length: int) -> tuple[int, ...]:
        return tuple(range(self.position, self.position + length))

    def _try(self, length: int) -> Program | None:
        try:
            return self._with(self.chosen + self._run(length))
        except Conflict:
            return None

    def _with(self, indices: tuple[int, ...]) -> Program:
        chosen = [self.patches[index] for index in indices]
        edits = tuple(dict.fromkeys(edit for patch in chosen for edit in patch.edits))
        dropped = frozenset(path for patch in chosen for path in patch.dropped)
        return Patch(edits, dropped=dropped).apply(self.base) if edits or dropped else self.base


def search(base: Program, patches: tuple[Patch, ...]) -> Search:
    """A search that has not asked anything yet."""
    return Search(base, patches).settled()
