"""What must hold of shrinkrepro on every generated program. Each check returns what does not, in words, and figures."""

from __future__ import annotations

import ast
import itertools
from typing import Any

from corpus.generate.programs import ENTRY, mended, outcome, raises_versions_itself, without
from corpus.generate.shared import Shared
from corpus.generate.smallest import smallest
from corpus.generate.smallest import tokens as tokens_of
from corpus.generate.truth import Generated, Place, Truth
from shrinkrepro.diagnosis import Diagnosis, Statement
from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.facts import Facts
from shrinkrepro.failure import parse, same_error
from shrinkrepro.oracle import descent, job_for
from shrinkrepro.passes import PASSES
from shrinkrepro.pipeline import Options, bisect, explain, reduce
from shrinkrepro.program.check import syntax_problem
from shrinkrepro.program.source import Invocation, Program, SourceFile
from shrinkrepro.runtime.messages import Limits

# The kinds of repair that change the statement that writes.
_REWRITING = ("constructor", "out-of-place", "copy")

Outcome = tuple[list[str], dict[str, Any]]


def as_program(generated: Generated) -> Program:
    """The generated program as shrinkrepro takes it."""
    files = tuple(SourceFile.original(path, text) for path, text in sorted(generated.files.items()))
    return Program(files, Invocation(root="/", entry=generated.entry, cwd="/", argv=generated.argv))


def diagnosed(generated: Generated, backend: Shared) -> Outcome:
    """The diagnosis names the lines that the generator knows; a program that runs is not taken for one that fails."""
    options = Options(timeout=60, jobs=1)
    truth = generated.truth
    try:
        explanation = explain(as_program(generated), options, start=backend)
    except ShrinkReproError as problem:
        if truth is None and problem.exit is Exit.NOT_REPRODUCED:
            return [], {}
        return [f"refused: {problem}"], {}
    if truth is None:
        return ["a program that runs is said to fail"], {}
    found = explanation.diagnosis
    findings = [
        *_differs("culprit", truth.culprit, found.culprit),
        *_differs("saved", truth.saved, found.saved),
        *_differs("needed", truth.needed, found.needed),
    ]
    findings += _other_node(truth, found)
    expected = parse(truth.message)
    if expected is None or not same_error(expected, explanation.failure):
        findings.append(f"message: {explanation.failure.message} instead of {truth.message}")
    return findings, {"node": truth.node, "method": found.method}


def differential(generated: Generated) -> list[str]:
    """Without the harmful lines the error is gone, and without any other line that writes it is still there.

    The first is so for every program that was not drawn again. Runs the program here, without shrinkrepro.
    """
    truth = generated.truth
    if truth is None:
        raise ValueError("only a failing program has a culprit")
    if raises_versions_itself(generated):
        return []  # so one line less changes nothing
    if any("register_hook" in text for text in generated.files.values()):
        return []  # a hook that writes comes sooner or later in the backward pass when there is one line less
    findings = [] if mended(generated) else [f"still fails without {truth.harmful}"]
    needed = [decoy for decoy in truth.decoys if outcome(without(generated, [decoy]), generated.argv) is None]
    return findings + [f"runs to its end without {decoy.line}: {decoy.source}" for decoy in needed]


def patches(generated: Generated, backend: Shared, most: int = 20) -> list[str]:
    """The first `most` patches of every pass can be made and leave valid Python; what they copy reads as it did."""
    program = as_program(generated)
    diagnosis = explain(program, Options(timeout=60, jobs=1), start=backend).diagnosis
    observation = backend.wait(backend.submit(job_for(program, "observe", Limits(wall=60)))).observation
    facts = Facts(program, diagnosis, lambda: observation)
    findings: list[str] = []
    for step in PASSES:
        for patch in itertools.islice(step(program, facts), most):
            candidate = patch.apply(program)
            problems = [problem for file in candidate if (problem := syntax_problem(file.text)) is not None]
            findings += [f"{step.__name__}, {patch.label}: {problem}" for problem in problems]
            if not _traceable(candidate, program):
                findings.append(f"{step.__name__}, {patch.label}: text that is not what it was copied from")
    return findings


def _traceable(candidate: Program, original: Program) -> bool:
    """Whether each piece that a candidate has copied reads as in the original."""
    return all(
        file.text[run.start : run.start + run.length] == original[run.path].text[run.offset : run.offset + run.length]
        for file in candidate
        for run in file.runs
    )


def needless(text: str, message: str, culprit: Statement | None) -> list[str]:
    """The statements of a program of one file without which it fails in the same words; there should be none.

    Without the culprit another write may fail in the same words, which is why that one is left out.
    """
    failure = parse(message)
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Pass) and not _stands_at(culprit, node):
            lines = text.splitlines()
            lines[node.lineno - 1 : node.end_lineno] = [" " * node.col_offset + "pass"]
            problem = parse(outcome({ENTRY: "\n".join(lines) + "\n"}) or "")
            if failure is not None and problem is not None and same_error(problem, failure):
                found.append(ast.unparse(node))
    return found


def _stands_at(statement: Statement | None, node: ast.stmt) -> bool:
    return statement is not None and (node.lineno, node.col_offset) == (statement.line, statement.column)


def reduced(generated: Generated, backend: Shared) -> Outcome:
    """The reduced program shows the same failure, from the planted line, verified, and it cannot be reduced again."""
    truth = generated.truth
    if truth is None:
        raise ValueError("only a failing program can be reduced")
    original = as_program(generated)
    try:
        result = reduce(original, Options(timeout=60, jobs=1), start=backend)
    except ShrinkReproError as problem:
        return [f"refused: {problem}"], {}
    if result.reduced is None:
        return ["not verified", *result.notes], {}
    program, found = result.reduced.program, result.reduced.diagnosis
    findings = [note for note in result.notes if "taken back" in note]
    figures: dict[str, Any] = {}
    expected = parse(truth.message)
    if expected is None or not same_error(expected, found.failure):
        findings.append(f"message: {found.failure.message} instead of {truth.message}")
    findings += _other_node(truth, found)
    if found.culprit is None:
        findings.append("the reduced program has no culprit")
    else:
        lines = descent(program, found.culprit, original)
        if lines and not any((place.file, place.line) in lines for place in (truth.culprit, *truth.compiled)):
            findings.append(f"culprit: {found.culprit.source} does not descend from {truth.culprit.source}")
        figures["anew"] = not lines  # written by us: node, attribute and operator are then all there is to compare
    if result.twin is None:
        findings.append("no twin")
    texts = [file.text for file in program]
    if len(texts) == 1:
        findings += [f"needless: {statement}" for statement in needless(texts[0], found.failure.message, found.culprit)]
    reference = smallest(truth)
    figures |= {
        "node": truth.node,
        "method": found.method,
        "tokens": program.tokens,
        "smallest": None if reference is None else tokens_of(reference),
        "candidates": result.candidates.run,
        "result": "\n".join(texts),
        "reference": reference,
    }
    return findings, figures


def repaired(generated: Generated, backend: Shared) -> Outcome:
    """A repair is found and proven, and where it rewrites a write, that is a planted one."""
    truth = generated.truth
    if truth is None:
        raise ValueError("only a failing program can be mended")
    mending = bisect(as_program(generated), Options(timeout=60, jobs=1), start=backend).mending
    figures = {"runs": mending.runs, "edits": len(mending.chosen.repairs) if mending.chosen else 0}
    if mending.chosen is None:
        return ["no repair"], figures
    findings = [] if mending.chosen.proof.complete else [f"not proven: {mending.chosen.proof}"]
    planted = {(place.file, place.line) for place in (truth.culprit, *truth.harmful)}
    rewritten = [repair for repair in mending.chosen.repairs if repair.kind in _REWRITING]
    findings += [
        f"rewrites {repair.file}:{repair.line}" for repair in rewritten if (repair.file, repair.line) not in planted
    ]
    return findings, figures


def _other_node(truth: Truth, found: Diagnosis) -> list[str]:
    if found.node == truth.node and truth.attribute in (found.attribute or "", *found.attributes):
        return []
    return [f"node: {found.node}.{found.attribute} instead of {truth.node}.{truth.attribute}"]


def _differs(role: str, truth: Place, found: Statement | None) -> list[str]:
    if found is None:
        return [f"{role}: none instead of {truth.line}: {truth.source}"]
    if found.file == truth.file and found.line <= truth.line <= found.end_line:
        return []
    return [f"{role}: {found.line}: {found.source} instead of {truth.line}: {truth.source}"]
