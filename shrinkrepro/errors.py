"""What can go wrong for a user, and the exit status that says so."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses of the command; docs/exit-codes.md is generated from the comments' wording in `MEANING`."""

    DONE = 0
    USAGE = 2
    NO_SUCH_FILE = 10
    IS_A_FOLDER = 11
    SYNTAX = 12
    EMPTY = 13
    ENCODING = 14
    TOO_LARGE = 15
    NOT_REPRODUCED = 20
    OTHER_ERROR = 21
    MISSING_MODULE = 22
    TIMEOUT = 23
    NEEDS_GPU = 24
    UNSTABLE = 25
    NOT_EXPLAINED = 26
    OUTPUT_EXISTS = 30
    OUTPUT_UNWRITABLE = 31
    NO_KERNEL_GUARD = 32
    NO_CLUSTER = 33
    NOT_VERIFIED = 40
    NOT_REPAIRED = 41
    INTERRUPTED = 130


MEANING: dict[Exit, str] = {
    Exit.DONE: "the failure was explained, and reduced unless only `explain` was asked for",
    Exit.USAGE: "the command line cannot be understood",
    Exit.NO_SUCH_FILE: "the script does not exist",
    Exit.IS_A_FOLDER: "the script is a folder",
    Exit.SYNTAX: "the script is not valid Python",
    Exit.EMPTY: "the script holds no statement",
    Exit.ENCODING: "the script is not text in the encoding that it declares (UTF-8 when it declares none)",
    Exit.TOO_LARGE: "the script has more than 500,000 characters, or a file more than 200 MiB",
    Exit.NOT_REPRODUCED: "the script ran to its end without the error",
    Exit.OTHER_ERROR: "the script died of another error first",
    Exit.MISSING_MODULE: "the script imports a module that is not installed",
    Exit.TIMEOUT: "the script did not fail within `--timeout`",
    Exit.NEEDS_GPU: "the script needs a GPU that is not there",
    Exit.UNSTABLE: "the script fails in some runs and not in others",
    Exit.NOT_EXPLAINED: "the script fails, but no in-place statement could be named",
    Exit.OUTPUT_EXISTS: "the output file exists and was not written by shrinkrepro",
    Exit.OUTPUT_UNWRITABLE: "the output file cannot be written",
    Exit.NO_KERNEL_GUARD: "`--guard kernel` was asked for, and the kernel here has no Landlock",
    Exit.NO_CLUSTER: "the Dask cluster of `--dask` cannot be used, or was lost",
    Exit.NOT_VERIFIED: "no reduced program failed in a fresh interpreter",
    Exit.NOT_REPAIRED: "no edit was found that stops the crash, or none that `--apply` may make",
    Exit.INTERRUPTED: "interrupted; the smallest program so far was written if there was one",
}


class ShrinkReproError(Exception):
    """A problem that the user can act on: one sentence that says what, why and what next, and its exit status."""

    def __init__(self, status: Exit, message: str) -> None:
        super().__init__(message)
        self.exit = status
