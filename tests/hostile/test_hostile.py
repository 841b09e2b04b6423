"""Hostile programs as candidates: each has its verdict, and nothing is harmed or left behind."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.harness import PROGRAMS, World, ended, expected, settled, world

from benchmarks.soak import soak
from shrinkrepro.isolation.zygote import Zygote
from shrinkrepro.runtime import guard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs the process tree"),
    pytest.mark.skipif(guard.capabilities().landlock_abi < 6, reason="no Landlock that knows signals"),
]


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    outside = Path(tempfile.mkdtemp(dir="/var/tmp")) / "outside"
    try:
        with world(tmp_path_factory.mktemp("hostile"), outside) as made:
            yield made
    finally:
        shutil.rmtree(outside.parent)


@pytest.fixture(scope="module")
def zygote(around: World) -> Iterator[Zygote]:
    with Zygote({**os.environ, "HOME": str(around.home)}) as started:
        started.preload(("torch", "numpy"))
        yield started


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_hostile_program_has_its_verdict_and_harms_and_leaves_nothing(
    program: Path, around: World, zygote: Zygote
) -> None:
    before = around.state(zygote)

    report = zygote.wait(zygote.submit(around.job(program)))

    assert set(expected(program)) & set(ended(report)), report
    assert settled(around, zygote, before) == before


def test_there_are_at_least_forty_of_them() -> None:
    assert len(PROGRAMS) >= 40


def test_many_candidates_leave_no_more_than_few(around: World, zygote: Zygote) -> None:
    soaked = soak(around, zygote, count=200, every=20, jobs=2)

    assert soaked.wrong == ()
    assert soaked.after == soaked.before
    assert soaked.memory[-1] - soaked.memory[0] < 32 << 20
