"""The log of writes: what raised which version counter, kept for as long as a failure may ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from shrinkrepro.runtime import graph
from shrinkrepro.runtime.stack import Note

# A graph that is never consumed keeps every later write alive; the first ones hold the culprit, the last ones are
# what a graph built since may need.
_FIRST, _LAST = 512, 512


@dataclass(frozen=True, slots=True)
class Write:
    """One rise of a version counter. `built` is where the module was constructed whose `inplace=True` made it.

    `seen` is False for a rise that no torch function call showed. `empty` as in Mutation.
    """

    clock: int
    step: int
    operator: str
    before: int
    after: int
    shape: tuple[int, ...]
    note: Note
    built: Write | None = None
    seen: bool = True
    empty: bool = False


@dataclass(slots=True)
class Counter:
    """One version counter and its writes, in order. `probe` shares the counter, `memory` tells when it is dead."""

    probe: torch.Tensor
    memory: StorageWeakRef | None
    writes: list[Write] = field(default_factory=list)

    def dead(self) -> bool:
        """Whether no tensor with this counter can exist any more."""
        return self.memory is not None and bool(self.memory.expired())  # type: ignore[no-untyped-call]


class WriteLog:
    """Writes by version counter."""

    def __init__(self) -> None:
        self._counters: dict[int, list[Counter]] = {}
        self._size = 0
        self._sweep_at = 4096

    def __len__(self) -> int:
        return self._size

    @property
    def full(self) -> bool:
        """Whether the log has doubled since it was last swept."""
        return self._size >= self._sweep_at

    def add(self, tensor: torch.Tensor, write: Write) -> None:
        """Log a write to `tensor`, which has just been made."""
        memory = graph.storage(tensor)
        key = 0 if memory is None else memory._cdata
        counters = self._counters.setdefault(key, [])
        # One call may be given several views of one tensor: they share the counter, and the write is one.
        for counter in counters:
            if counter.probe._version == write.after:
                last = counter.writes[-1]
                if last.after != write.after:
                    self._append(counter, write)
                    return
                if last.clock == write.clock:
                    return
        probe = graph.probe(tensor)
        if probe is not None:
            counter = Counter(probe, None if memory is None else StorageWeakRef(memory))  # type: ignore[no-untyped-call]
            counters.append(counter)
            self._append(counter, write)

    def add_unseen(self, probe: torch.Tensor, write: Write) -> None:
        """Log a rise that was noticed afterwards on `probe`; which tensor made it is unknown."""
        self._append(self._counter_of(probe), write)

    def sweep(self, horizon: int) -> None:
        """Forget the writes before `horizon` (a clock reading) and those to tensors that are gone."""
        kept: dict[int, list[Counter]] = {}
        for key, counters in self._counters.items():
            alive = [counter for counter in counters if not counter.dead()]
            for counter in alive:
                counter.writes = [write for write in counter.writes if write.clock >= horizon]
            if alive := [counter for counter in alive if counter.writes]:
                kept[key] = alive
        self._counters = kept
        self._size = sum(len(counter.writes) for counter in self.counters())
        self._sweep_at = max(4096, 2 * self._size)

    def counters(self) -> Iterator[Counter]:
        """All the counters that were raised."""
        for counters in self._counters.values():
            yield from counters

    def sharing(self, probe: torch.Tensor) -> list[Write]:
        """The writes to any tensor that has the version counter of `probe`, in order.

        Raises that counter for a moment of truth: the counters that follow are the same one. To be used once the
        program has failed, for the versions are wrong from then on.
        """
        before = [(counter, counter.probe._version) for counter in self.counters()]
        probe.zero_()
        writes = [write for counter, was in before if counter.probe._version != was for write in counter.writes]
        return sorted(writes, key=lambda write: (write.before, write.after))

    def _counter_of(self, probe: torch.Tensor) -> Counter:
        unseen = self._counters.setdefault(-1, [])
        for counter in unseen:
            if counter.probe is probe:
                return counter
        unseen.append(Counter(probe, None))
        return unseen[-1]

    def _append(self, counter: Counter, write: Write) -> None:
        counter.writes.append(write)
        self._size += 1
        if len(counter.writes) > 2 * (_FIRST + _LAST):
            self._size -= len(counter.writes) - _FIRST - _LAST
            del counter.writes[_FIRST:-_LAST]
