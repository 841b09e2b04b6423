"""Which versions took part. Nothing is imported to find out."""

from __future__ import annotations

import platform
from importlib import metadata

import shrinkrepro


def versions() -> dict[str, str]:
    """Names of the tool, Python, PyTorch and the platform, with their versions."""
    return {
        "shrinkrepro": shrinkrepro.__version__,
        "python": platform.python_version(),
        "torch": _installed("torch"),
        "platform": platform.platform(),
    }


def _installed(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
