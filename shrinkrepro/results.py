"""What was found about a program: plain values that every report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shrinkrepro.diagnosis import Diagnosis, Statement, Write
from shrinkrepro.errors import Exit
from shrinkrepro.failure import VersionMismatch
from shrinkrepro.program.source import Cell, Program
from shrinkrepro.proof import Proof
from shrinkrepro.repair import Repair
from shrinkrepro.stability import Stability


@dataclass(frozen=True)
class Explanation:
    """Why `program` fails, after its first runs.

    `failure` is what PyTorch prints without a tracer, `seconds` what a plain run took to get there. `guard` says what
    confined the runs. `versions` are those of what took part. `notes` are sentences about what could not be done.
    `stability` says how often it fails; None when that was not measured, because it failed each time.
    """

    program: Program
    failure: VersionMismatch
    diagnosis: Diagnosis
    seconds: float
    guard: str
    versions: Mapping[str, str]
    notes: tuple[str, ...] = ()
    stability: Stability | None = None

    @property
    def exit(self) -> Exit:
        """The exit status that says how it went."""
        return Exit.NOT_EXPLAINED if self.diagnosis.culprit is None else Exit.DONE


@dataclass(frozen=True)
class Reduced:
    """The smallest program that failed in the same way in each of `fresh_runs` fresh interpreters.

    `diagnosis` says how it fails. `path` is the file to run once the program was written, as the user would name it.
    `patches` counts the patches of all passes that were tried on it, none of which holds: it is 1-minimal over them. It
    is None when not all were tried. `free` names, in words, what can be varied while the same graph node stays stale.
    """

    program: Program
    diagnosis: Diagnosis
    fresh_runs: int
    fresh_failures: int
    path: str | None = None
    patches: int | None = None
    free: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidates:
    """How many candidates were run, accepted, answered from the cache, rejected without a run; the time for all."""

    run: int
    accepted: int
    cached: int
    rejected_unrun: int
    seconds: float


@dataclass(frozen=True)
class Attempt:
    """Repairs made together, the program that they make, and what its run proves."""

    repairs: tuple[Repair, ...]
    program: Program
    proof: Proof


@dataclass(frozen=True)
class Mending:
    """The repairs that were tried on a failing program, in order, and the one to make.

    `chosen` is None when none stops the crash. `minimal`: taking any of its edits out brings the crash back; None when
    that was not tried. `writes` are the statements that wrote to tensors before the failure. `notes` are sentences
    about what could not be done. `alternative` is a plainer edit that stops the crash and changes numbers, where the
    one to make is unusual.
    """

    attempts: tuple[Attempt, ...]
    chosen: Attempt | None
    minimal: bool | None
    writes: tuple[Write, ...]
    runs: int
    seconds: float
    notes: tuple[str, ...] = ()
    alternative: Attempt | None = None


@dataclass(frozen=True)
class Bisected:
    """Why a program fails, and which edit mends it."""

    explanation: Explanation
    mending: Mending

    @property
    def exit(self) -> Exit:
        """The exit status that says how it went."""
        return Exit.NOT_REPAIRED if self.mending.chosen is None else Exit.DONE


@dataclass(frozen=True)
class Step:
    """A program that the search adopted: the pass that made it, and the seconds and candidates run until then."""

    program: Program
    name: str
    seconds: float
    run: int


@dataclass(frozen=True)
class Result:
    """What a reduction came to.

    `reduced` is None when not even the program itself failed in fresh interpreters. `twin` is the reduced program with
    only the culprit written out-of-place, which runs clean; None: no such program was found, so the culprit is not
    confirmed. `stopped` is why the search ended: "fixpoint", "budget" or "interrupted".
    `mending` is how the script itself can be repaired; None: that was not tried. `steps` lead from the script, which is
    the first, to the reduced program. `judged` are the seconds after which each candidate had been judged.
    """

    explanation: Explanation
    reduced: Reduced | None
    twin: Program | None
    candidates: Candidates
    stopped: str
    notes: tuple[str, ...] = ()
    mending: Mending | None = None
    steps: tuple[Step, ...] = ()
    judged: tuple[float, ...] = ()

    @property
    def exit(self) -> Exit:
        """The exit status that says how it went."""
        if self.stopped == "interrupted":
            return Exit.INTERRUPTED
        return Exit.NOT_VERIFIED if self.reduced is None else self.explanation.exit


@dataclass(frozen=True)
class Findings:
    """What a command found, whichever it was: the explanation always, a reduction and a repair where it looked."""

    explanation: Explanation
    result: Result | None = None
    mending: Mending | None = None

    @property
    def reduced(self) -> Reduced | None:
        """The smallest program, where there is one."""
        return self.result.reduced if self.result else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be done, and what else helps to understand the findings."""
        mending = self.mending.notes if self.mending else ()
        return (*self.explanation.notes, *(self.result.notes if self.result else ()), *mending)


def findings(found: Explanation | Bisected | Result) -> Findings:
    """What a command found, in the form that every report is made from."""
    match found:
        case Explanation():
            return Findings(found)
        case Bisected(explanation, mending):
            return Findings(explanation, None, mending)
        case Result(explanation=explanation, mending=repair):
            return Findings(explanation, found, repair)


def place(statement: Statement) -> str:
    """Where a statement stands, as editors and terminals understand it: "train.py:12", "train.ipynb cell 3:12"."""
    return location(statement.file, statement.shown_line, statement.cell)


def location(file: str, line: int, cell: Cell | None = None) -> str:
    """A line of a file, or of a cell of a notebook, in one word or three."""
    return f"{file}:{line}" if cell is None else f"{file} cell {cell.number}:{line}"
