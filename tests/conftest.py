"""Settings that hold for every test."""

from __future__ import annotations

from hypothesis import settings

# Parsing a drawn program takes long on a busy machine, and says nothing about what is tested.
settings.register_profile("default", deadline=None, max_examples=40)
settings.load_profile("default")
