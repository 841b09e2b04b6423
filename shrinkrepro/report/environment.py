"""Which versions took part, and what a bug report says about the machine."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata

import shrinkrepro

_SECONDS = 60.0
# The lines of PyTorch's own report that matter to this error; the rest is about compilers and the processor.
_TELLING = re.compile(
    r"(PyTorch version|CUDA used to build PyTorch|ROCM used to build PyTorch|OS|Python version|Python platform"
    r"|Is CUDA available|CUDA runtime version|GPU \d+|GPU models and configuration|Nvidia driver version"
    r"|cuDNN version|Is XPU available|HIP runtime version): |\[(pip3|conda)\] (numpy|torch\w*|triton\w*)\b"
)
_NOTHING = re.compile(r"(N/A|Could not collect)\s*$")


def versions() -> dict[str, str]:
    """Names of the tool, Python, PyTorch and the platform, with their versions. Nothing is imported to find out."""
    return {
        "shrinkrepro": shrinkrepro.__version__,
        "python": platform.python_version(),
        "torch": _installed("torch"),
        "platform": platform.platform(),
    }


def environment(known: Mapping[str, str]) -> list[str]:
    """What `torch.utils.collect_env` says that matters to a bug report, a line each, and our own version.

    It takes seconds. Where it fails, a line says so, and the versions that are `known` come instead.
    """
    try:
        with tempfile.TemporaryDirectory() as nowhere:  # -m would import what lies in the current folder
            done = subprocess.run(
                [sys.executable, "-m", "torch.utils.collect_env"],
                cwd=nowhere, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=True,
            )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as problem:
        failed = f"torch.utils.collect_env failed: {type(problem).__name__}"
        return [failed, *(f"{name} {version}" for name, version in known.items())]
    return [*telling(done.stdout), f"shrinkrepro {known['shrinkrepro']}"]


def telling(report: str) -> Iterator[str]:
    """The lines of a report by `torch.utils.collect_env` that matter to a bug report."""
    return (line for line in report.splitlines() if _TELLING.match(line) and not _NOTHING.search(line))


def _installed(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
