"""The log of writes keeps those that a failure may still ask for."""

from __future__ import annotations

import pytest
import torch

from shrinkrepro.runtime.stack import Note
from shrinkrepro.runtime.writes import Write, WriteLog


def logged(log: WriteLog, tensor: torch.Tensor, clocks: range) -> None:
    """Write to `tensor` at each of `clocks`."""
    for clock in clocks:
        before = tensor._version
        tensor.add_(1)
        log.add(tensor, Write(clock, 1, "add_", before, tensor._version, tuple(tensor.shape), Note((), None)))


def clocks(log: WriteLog) -> list[int]:
    return [write.clock for counter in log.counters() for write in counter.writes]


@pytest.mark.parametrize(("horizon", "kept"), [(0, [1, 2, 3, 4]), (3, [3, 4]), (4, [4]), (5, [])])
def test_writes_before_the_horizon_are_forgotten(horizon: int, kept: list[int]) -> None:
    log, tensor = WriteLog(), torch.zeros(3)
    logged(log, tensor, range(1, 5))
    log.sweep(horizon)
    assert clocks(log) == kept


def test_writes_to_a_tensor_that_is_gone_are_forgotten() -> None:
    log, tensor, kept = WriteLog(), torch.zeros(3), torch.zeros(3)
    logged(log, tensor, range(1, 3))
    logged(log, kept, range(3, 5))
    del tensor
    log.sweep(0)
    assert clocks(log) == [3, 4]


def test_views_and_detached_tensors_share_the_writes_of_their_base() -> None:
    log, tensor = WriteLog(), torch.zeros(3)
    logged(log, tensor, range(1, 3))
    logged(log, tensor[:2].detach(), range(3, 5))
    assert [write.clock for write in log.sharing(tensor.detach())] == [1, 2, 3, 4]


def test_one_call_that_writes_to_two_views_is_one_write() -> None:
    log, tensor = WriteLog(), torch.zeros(3)
    one, two = tensor[:1], tensor[1:]
    tensor.add_(1)
    for view in (one, two):
        log.add(view, Write(1, 1, "_foreach_add_", 0, tensor._version, (1,), Note((), None)))
    assert len(log) == 1
