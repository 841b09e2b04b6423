"""Settings that hold for every test."""

from __future__ import annotations

from hypothesis import settings

# Parsing a drawn program takes long on a busy machine, and says nothing about what is tested.
# The same examples each time: looking for new failures at random is what benchmarks/generated.py is for.
settings.register_profile("default", deadline=None, max_examples=40, derandomize=True, database=None)
settings.load_profile("default")
