"""Settings that hold for every test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Parsing a drawn program takes long on a busy machine, and says nothing about what is tested.
# The same examples each time: looking for new failures at random is what benchmarks/generated.py is for.
settings.register_profile("default", deadline=None, max_examples=40, derandomize=True, database=None)
settings.register_profile("fuzz", deadline=None, max_examples=2000, database=None)
settings.load_profile("default")


@pytest.fixture(scope="session", autouse=True)
def state() -> Iterator[None]:
    """No test reads or leaves journals where those of the user are."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "SHRINKREPRO_STATE", folder)
        yield
