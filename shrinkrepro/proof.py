"""Whether a mended program computes what the broken one meant: its losses and gradients held against a reference.

The reference is the broken program in a run that keeps what backward needs out of reach of later writes, so that it
does not fail. Passes are matched by their losses and gradients by their numbers, not by their position: a repair may
change the order of either.
"""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from shrinkrepro.runtime.messages import Numbers, Pass, Report

# How far, in units of the type's precision, sums may differ that were added up in another order.
_ROUNDING = 64
# Rounding errors grow from one optimizer step to the next.
_ROUNDING_LATER = 8 * _ROUNDING
# Later passes that show whether gradients are missed that are not computed any more: one may come before their step.
_ENOUGH_LATER = 2
_PRECISION = {"float64": 2.0**-52, "complex128": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_SINGLE = 2.0**-23

Ending = Literal["finished", "stopped", "failed", "raised", "killed"]


@dataclass(frozen=True)
class Comparison:
    """Two sets of numbers: `same` but for rounding, and the largest difference between two of them."""

    same: bool
    difference: float


@dataclass(frozen=True)
class Proof:
    """How a changed program ran, and what it computed at the backward pass that failed in the original.

    `passes`: that backward pass runs through now. `ending` is how the run went on: to its end, until it was stopped
    because it had run for long enough, to another failure of the kind, or to another error. `loss` and `gradients`
    compare that pass with the reference, `later` the losses of the passes after it; None where there is nothing to
    compare with.
    """

    passes: bool
    ending: Ending
    loss: Comparison | None = None
    gradients: Comparison | None = None
    later: Comparison | None = None
    error: str | None = None

    @property
    def mends(self) -> bool:
        """Whether the crash is gone, at that pass and at every later one that ran."""
        return self.passes and self.ending in ("finished", "stopped")

    @property
    def complete(self) -> bool:
        """Whether the crash is gone and every number is that of the reference."""
        return self.mends and all(part is not None and part.same for part in (self.loss, self.gradients, self.later))


def prove(report: Report, reference: Report | None, number: int, *, limited: bool = False) -> Proof:
    """What the run `report` of a changed program shows about backward pass `number`, held against the reference run.

    `limited`: the program was changed to leave gradients out. Those that it computes must be those of the reference;
    that the others are not missed must show in the losses of later passes.
    """
    ending = _ending(report, reference)
    error = f"{report.error_type}: {report.error}" if report.outcome in ("raised", "invalid") else report.error
    wanted = next((p for p in reference.passes if p.number == number and p.finished), None) if reference else None
    if wanted is None or reference is None:
        return Proof(report.backwards >= number, ending, error=error)
    ours = _counterpart(wanted, report.passes)
    if ours is None:
        return Proof(report.backwards >= number, ending, error=error)
    loss = compare(ours.losses, wanted.losses)
    if not ours.finished:
        return Proof(False, ending, loss, error=error)
    gradients = compare(ours.gradients, wanted.gradients)
    # where not even the last bit differs at first, it has no reason to differ later, but for a write that is lost
    exact = loss.difference == gradients.difference == 0.0
    results = _later(report, reference, ours, wanted, 0 if exact else _ROUNDING_LATER)
    later = _together(results)
    if limited and later.same and len(results) >= _ENOUGH_LATER:
        gradients = _together([_nearest(own, wanted.gradients) for own in ours.gradients])
    return Proof(True, ending, loss, gradients, later, error)


def compare(ours: Sequence[Numbers], theirs: Sequence[Numbers], rounding: int = _ROUNDING) -> Comparison:
    """Compare two sets of tensors: each is paired with the nearest of its shape, and what is left over with zero."""
    left, same, largest = list(ours), True, 0.0
    for wanted in sorted(theirs, key=lambda numbers: all(numbers.digest != own.digest for own in ours)):
        fitting = [own for own in left if own.shape == wanted.shape]
        nearest = min(fitting, key=lambda own: _difference(own, wanted), default=None)
        if nearest is not None:
            left.remove(nearest)
        difference = _difference(nearest, wanted)
        largest = max(largest, difference)
        same &= difference <= _tolerance(nearest, wanted, rounding)
    extra = max((_difference(own, None) for own in left), default=0.0)
    return Comparison(same and extra == 0.0, max(largest, extra))


def _nearest(own: Numbers, theirs: Sequence[Numbers]) -> Comparison:
    """Compare a tensor with the one of `theirs` that is nearest to it; with zero where none has its shape."""
    tried = [compare([own], [wanted]) for wanted in theirs if wanted.shape == own.shape]
    return min(tried, key=_rank, default=compare([own], []))


def _together(results: Sequence[Comparison]) -> Comparison:
    """What several comparisons come to."""
    return Comparison(all(r.same for r in results), max((r.difference for r in results), default=0.0))


def _rank(result: Comparison) -> tuple[bool, float]:
    return not result.same, result.difference


def _ending(report: Report, reference: Report | None) -> Ending:
    """How the run ended; another error is the program's own, no matter of ours, when the reference ends with it too."""
    match report.outcome:
        case "finished":
            return "finished"
        case "exhausted":
            return "stopped"
        case "failed":
            return "failed"
        case "raised":
            own = reference is not None and (reference.error_type, reference.error) == (report.error_type, report.error)
            return "finished" if own else "raised"
        case _:
            return "killed"


def _counterpart(wanted: Pass, passes: Sequence[Pass]) -> Pass | None:
    """The pass that does what `wanted` does: the one with its loss, or else the one with its number."""
    alike = [own for own in passes if compare(own.losses, wanted.losses).same]
    ranked = sorted(alike, key=lambda own: (not own.finished, abs(own.number - wanted.number)))
    return ranked[0] if ranked else next((own for own in passes if own.number == wanted.number), None)


def _later(report: Report, reference: Report, ours: Pass, wanted: Pass, rounding: int) -> list[Comparison]:
    """Compare the losses of each pass after the one that matters, as many as both runs have."""
    own = [p for p in report.passes if p.finished and p.number != ours.number]
    other = [p for p in reference.passes if p.finished and p.number != wanted.number]
    first = min(ours.number, wanted.number)
    common = min(max((p.number for p in passes), default=0) for passes in (report.passes, reference.passes))
    results = []
    for theirs in other:
        if first < theirs.number <= common:
            tried = [(compare(mine.losses, theirs.losses, rounding), mine) for mine in own]
            missing = Comparison(False, math.inf), None
            result, nearest = min(
                tried, key=lambda pair: (*_rank(pair[0]), abs(pair[1].number - theirs.number)), default=missing
            )
            results.append(result)
            own = [mine for mine in own if mine is not nearest]
    return results


def _difference(ours: Numbers | None, theirs: Numbers | None) -> float:
    """The largest difference between two elements; of the norms, where it shows in none that is known."""
    if ours is not None and theirs is not None and ours.digest == theirs.digest:
        return 0.0
    mine, other = _elements(ours), _elements(theirs)
    if ours is None or theirs is None:
        return max(map(_distance_from_zero, mine or other), default=0.0)
    largest = max((_distance(a, b) for a, b in zip(mine, other, strict=True)), default=0.0)
    return largest or _distance(ours.norm, theirs.norm)


def _tolerance(ours: Numbers | None, theirs: Numbers, rounding: int) -> float:
    biggest = max(map(_distance_from_zero, [*_elements(ours), *_elements(theirs)]), default=0.0)
    precision = max(_PRECISION.get(kind.dtype.removeprefix("torch."), _SINGLE) for kind in (ours or theirs, theirs))
    return biggest * precision * rounding if math.isfinite(biggest) else 0.0


def _elements(numbers: Numbers | None) -> array[float]:
    elements = array("d")
    if numbers is not None:
        elements.frombytes(base64.b64decode(numbers.sample))
    return elements


def _distance(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    distance = abs(a - b)
    return math.inf if math.isnan(distance) else distance


def _distance_from_zero(a: float) -> float:
    return _distance(a, 0.0)
