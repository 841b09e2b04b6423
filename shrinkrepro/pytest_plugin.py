"""The pytest option --shrinkrepro: tests that die of the error say where the tensor was saved, changed and needed."""

# PyTorch is imported only where the option is given: every run of pytest loads this module.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Generator

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("shrinkrepro").addoption(
        "--shrinkrepro",
        action="store_true",
        help="explain PyTorch's 'modified by an inplace operation' in tests that fail with it",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Watch the test's body, its fixtures left out."""
    if not item.config.getoption("--shrinkrepro"):
        yield
        return
    from shrinkrepro.watching import watch

    with watch():
        yield
