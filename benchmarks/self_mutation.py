"""Breaks shrinkrepro on purpose, one small wrong edit at a time, and tells which of them the tests do not notice.

    python benchmarks/self_mutation.py [--only tracer] [--list]

Each edit is made in a scratch copy of the source tree, and the tests that should notice it run there. Before that they
run on an untouched copy: where one fails anyway, the edits that it should notice are "not tested". The exit status is
the number of edits that were not noticed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("shrinkrepro", "tests", "corpus", "docs", "pyproject.toml")
TIMEOUT = 300


@dataclass(frozen=True)
class Mutation:
    """One wrong edit: `before`, which stands once in `file` of the package, becomes `after`; `tests` should notice."""

    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def _of(file: str, tests: Iterable[str], *edits: tuple[str, str]) -> list[Mutation]:
    return [Mutation(file, before, after, tuple(tests)) for before, after in edits]


MUTATIONS = [
    *_of(
        "runtime/tracer.py",
        ["runtime/test_tracer.py"],
        ("record.saved)), -record.sequence", "record.saved)), record.sequence"),
        ("if write.after > mismatch.expected), key", "if write.after >= mismatch.expected), key"),
        ("self._discover(_makers(given), now)", "self._discover((), now)"),
        ("if name in _PROPERTY:", "if name not in _PROPERTY:"),
        ("and is_ != was", "and is_ > was + 1"),
        ("unexplained = bool(chain) and chain[0].before > mismatch.expected", "unexplained = False"),
        ('operator = "backward" if asked["accumulate_grad"] else "grad"', 'operator = "backward"'),
        ("saved.version == self.expected", "saved.version != self.expected"),
    ),
    *_of(
        "runtime/writes.py",
        ["runtime/test_writes.py"],
        ("if counter.probe._version != was for write", "if counter.probe._version == was for write"),
        ("if write.clock >= horizon]", "if write.clock > horizon + 9]"),
    ),
    *_of(
        "runtime/hidden.py",
        ["runtime/test_hidden.py"],
        ("needed_grad if id(tensor) in versions else tensor.requires_grad", "tensor.requires_grad"),
        ("(afters if index in written else befores)[index]", "afters[index]"),
        ("return value if isinstance(value, _PLAIN) else None", "return value"),
    ),
    *_of(
        "runtime/graph.py",
        ["runtime/test_tracer.py"],
        ("found.append(torch._C._functorch.get_unwrapped(found[-1]))", "break"),
        ("if PHRASE in str(problem):\n                yield attribute", "if False:\n                yield attribute"),
    ),
    *_of(
        "runtime/stack.py",
        ["runtime/test_tracer.py"],
        ("library is None and not own and code", "library is None and code"),
    ),
    *_of(
        "diagnosis.py",
        ["test_diagnosis.py"],
        (
            "min(holding, key=lambda extent: (-extent[0], extent[1]))",
            "max(holding, key=lambda extent: (-extent[0], extent[1]))",
        ),
        ("return start <= (frame.line, frame.column) < end", "return start < (frame.line, frame.column) < end"),
        ("replace(known, count=known.count + 1)", "known"),
        ("tuple(writers if culprit is None else writers[1:])", "tuple(writers)"),
    ),
    *_of(
        "failure.py",
        ["test_failure.py"],
        ("(a.tensor_type, a.operator) == (b.tensor_type, b.operator)", "a.operator == b.operator"),
        ('suffix[1].lstrip("0")', "suffix[1]"),
    ),
    *_of(
        "oracle.py",
        ["test_oracle.py"],
        ("if 0 in (failure.shape or ()) and 0 not in", "if 1 in (failure.shape or ()) and 0 not in"),
        ("if found.culprit.operator != known.culprit.operator:", "if False:"),
        ("if origin and not self._lines_of(known.culprit) & origin:", "if self._lines_of(known.culprit) - origin:"),
        ("if origin and not self._lines_of(known.culprit) & origin:", "if origin - self._lines_of(known.culprit):"),
        ("if found.empty and not known.empty:", "if found.empty:"),
        ('if self.sameness == "op":', 'if self.sameness != "op":'),
        ("self._judged[candidate.texts] = judgement", "pass"),
        ("report.seconds * self.slack + self.grace", "report.seconds + self.grace"),
        ("return in_empty_folder(job) if self._alone else job", "return job"),
        ("return failure is not None and self.differs(failure) is None", "return True"),
    ),
    *_of(
        "program/edit.py",
        ["program/test_edit.py"],
        ("[edit.block.span] == edit.block.members}", "[edit.block.span] > edit.block.members}"),
        ("edit.span.start < previous.span.end:", "edit.span.start <= previous.span.end:"),
        ("return overlap and span not in piece and piece not in span", "return overlap and span not in piece"),
        ("here = self.length + origin.start - start", "here = self.length"),
    ),
    *_of(
        "program/source.py",
        ["program/test_edit.py", "test_oracle.py"],
        ("run.offset + low - run.start)", "run.offset)"),
        ("bisect.bisect_right(self.line_starts, offset)", "bisect.bisect_left(self.line_starts, offset)"),
    ),
    *_of(
        "program/check.py",
        ["program/test_check.py"],
        ("unbound_names(file.text) - known", "unbound_names(file.text)"),
        ("here = table is top or symbol.is_declared_global()", "here = table is top"),
    ),
    *_of(
        "program/gradients.py",
        ["program/test_gradients.py"],
        ('- ("setup_context" not in methods)', ""),
        ("range(needed, len(constants) + 1)", "range(needed, len(constants))"),
        ("range(saved, saved + 1)", "range(1, 3)"),
    ),
    *_of(
        "reduction/search.py",
        ["reduction/test_search.py", "reduction/test_engine.py"],
        ("position=state.position + state.good + 1,", "position=state.position + state.good + 2,"),
        ("else self.good * 2", "else self.good + 1"),
        (
            "return (self.good + self.bad) // 2 if self.bad - self.good > 1",
            "return (self.good + self.bad) // 2 if self.bad - self.good > 2",
        ),
        (
            "state = replace(state, bad=length)\n            elif",
            "state = replace(state, good=length)\n            elif",
        ),
    ),
    *_of(
        "reduction/engine.py",
        ["reduction/test_engine.py"],
        ("number = number + 1 if self.program is base else 0", "number += 1"),
        ("[step for step in passes if step in late]", "[]"),
        (
            "if judgement.verdict is not Verdict.SAME or not self._shrinks(candidate):",
            "if not self._shrinks(candidate):",
        ),
        ("if self.budget.expired():", "if False:"),
    ),
    *_of(
        "verification.py",
        ["test_verification.py"],
        (
            "good, bad, step = max(0, good - step), good, step * 2",
            "good, bad, step = max(0, good - step), good - 1, step * 2",
        ),
    ),
    *_of(
        "pipeline.py",
        ["test_pipeline.py"],
        ("if repeated is None or not same_error(repeated, failure):", "if repeated is None:"),
    ),
    *_of(
        "passes/nodes.py",
        ["passes/test_nodes.py"],
        ("for count in counts", "for count in (1, 2, 3)"),
    ),
    *_of(
        "passes/variables.py",
        ["passes/test_variables.py"],
        ("if len(bound) != 1 or not later or len(later) != len(uses):", "if not later:"),
    ),
    *_of(
        "passes/shapes.py",
        ["passes/test_shapes.py"],
        ("_SMALL = (1, 2, 4, 8)", "_SMALL = (0, 1, 2, 4)"),
        ("key=lambda number: -number.value)", "key=lambda number: number.value)"),
    ),
    *_of(
        "isolation/workers.py",
        ["isolation/test_workers.py"],
        ("if len(waiting) == self._count:", "if len(waiting) > self._count:"),
        ("waiting.pop(0)", "waiting.pop()"),
    ),
]


def noticed(tree: Path, tests: Iterable[str]) -> bool:
    """Whether one of the tests fails in a source tree, or does not come to an end."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=tree,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def fate(mutation: Mutation, tree: Path) -> str:
    """What became of an edit that was made in a scratch tree and taken back: "noticed", "survived", "does not fit"."""
    path = tree / "shrinkrepro" / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.before) != 1:
        return "does not fit"
    path.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
    try:
        return "noticed" if noticed(tree, mutation.tests) else "survived"
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only edits of files whose name contains this")
    parser.add_argument("--list", action="store_true", help="only say which edits fit the source")
    options = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if options.only in mutation.file]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        if options.list:
            texts = {m: (tree / "shrinkrepro" / m.file).read_text(encoding="utf-8").count(m.before) for m in chosen}
            for mutation, count in texts.items():
                print(f"{'fits' if count == 1 else f'stands {count} times'}: {mutation.file}: {mutation.before!r}")
            return sum(count != 1 for count in texts.values())
        telling = {tests: not noticed(tree, tests) for tests in dict.fromkeys(mutation.tests for mutation in chosen)}
        fates = []
        for mutation in chosen:
            began = time.monotonic()
            fates.append(fate(mutation, tree) if telling[mutation.tests] else "not tested")
            seconds = time.monotonic() - began
            print(
                f"{fates[-1]:12} {seconds:5.0f} s  {mutation.file}: {mutation.before!r} → {mutation.after!r}",
                flush=True,
            )
    print(f"{len(fates)} edits: {fates.count('noticed')} noticed")
    return len(fates) - fates.count("noticed")


if __name__ == "__main__":
    sys.exit(main())
