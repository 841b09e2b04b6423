"""What to tell a user whose script did not fail as expected in its first run."""

from __future__ import annotations

import re
import sys

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.failure import VersionMismatch, parse
from shrinkrepro.program.source import Program
from shrinkrepro.results import location
from shrinkrepro.runtime.messages import PHRASE, Frame, Report
from shrinkrepro.runtime.secrets import looks_secret

_NO_GPU = (
    "Torch not compiled with CUDA enabled",
    "No CUDA GPUs are available",
    "no CUDA-capable device",
    "Found no NVIDIA driver",
    "torch.cuda.is_available() is False",
    "invalid device ordinal",
    "CUDA driver initialization failed",
)
_CONFINED = (
    "Permission denied",
    "Operation not permitted",
    "Network is unreachable",
    "urlopen error",
    "resolve host",
    "Cannot resolve",
)
_MISSING = re.compile(r"No module named '?(?P<name>[\w.]+)")


def failure_in(report: Report, program: Program, timeout: float) -> VersionMismatch:
    """The failure that a plain run of `program`, allowed `timeout` seconds, reported.

    Raises ShrinkReproError, with the exit status that fits, when the run ended in any other way.
    """
    failure = parse(report.failure or "") if report.outcome == "failed" else None
    if failure is None:
        raise _problem(report, program, timeout)
    return failure


def _problem(report: Report, program: Program, timeout: float) -> ShrinkReproError:
    script = program.invocation.entry
    match report.outcome:
        case "failed":
            return ShrinkReproError(
                Exit.NOT_EXPLAINED, f"{script}: PyTorch words the error in an unknown way: {report.failure}"
            )
        case "finished" | "exhausted":
            hint = "" if program.invocation.argv else "; if it needs arguments to fail, put them after --"
            return ShrinkReproError(Exit.NOT_REPRODUCED, f"{script} ran to its end without {PHRASE!r}{hint}")
        case "timeout":
            return ShrinkReproError(
                Exit.TIMEOUT,
                f"{script} did not fail within {timeout:g} s; give it more time with --timeout, or less work to do",
            )
        case "invalid":
            return ShrinkReproError(Exit.SYNTAX, f"{script}: not valid Python: {report.error}")
        case "killed":
            return ShrinkReproError(Exit.OTHER_ERROR, f"{script} did not survive its first run: {report.error}")
        case _:
            return _other_error(report, program)


def _where(frame: Frame, program: Program) -> str:
    cell = program[frame.file].cell_at(frame.line)
    return location(frame.file, frame.line - cell.first + 1 if cell else frame.line, cell)


def _other_error(report: Report, program: Program) -> ShrinkReproError:
    script = program.invocation.entry
    frame, error = report.error_frame, (report.error or "").strip()
    where = _where(frame, program) if frame else script
    missing = _MISSING.search(error) if report.error_type == "ModuleNotFoundError" else None
    if missing:
        return ShrinkReproError(
            Exit.MISSING_MODULE,
            f"{where}: imports {missing['name']!r}, which {sys.executable} does not have; "
            "install shrinkrepro where the script's libraries are",
        )
    if report.error_type == "SystemExit":
        return ShrinkReproError(
            Exit.OTHER_ERROR,
            f"{where}: the script ended itself with status {error} before the error; arguments for it go after --",
        )
    if report.error_type == "KeyError" and looks_secret(error.strip("'")):
        name = error.strip("'")
        return ShrinkReproError(
            Exit.OTHER_ERROR,
            f"{where}: the environment variable {name} looks like a secret and is not passed on; --env {name} does it",
        )
    if report.error_type == "EOFError" and not program.invocation.stdin:
        return ShrinkReproError(
            Exit.OTHER_ERROR,
            f"{where}: the script reads standard input, which is empty; give it a file with --stdin, "
            "or - for what is piped in",
        )
    last = f"{report.error_type}: {error.splitlines()[-1]}" if error else f"{report.error_type}"
    if any(text in error for text in _NO_GPU):
        return ShrinkReproError(
            Exit.NEEDS_GPU, f"{where}: needs a GPU that is not there ({last}); run it on the CPU, or where the GPU is"
        )
    confined = any(text.lower() in error.lower() for text in _CONFINED)  # C++ libraries write them small
    network = "" if program.invocation.network else "no network (unless --allow-network), and "
    why = f"; runs are confined: {network}no writing outside a scratch folder" if confined else ""
    return ShrinkReproError(Exit.OTHER_ERROR, f"{where}: the script died of another error first: {last}{why}")
