"""The smallest program as a file: where it may be written, its header, and writing it."""

from __future__ import annotations

import ast
import contextlib
import os
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.source import Program
from shrinkrepro.report.privacy import private
from shrinkrepro.report.wording import error
from shrinkrepro.results import Explanation, Reduced, place

MARK = "# shrinkrepro: "


def default_output(script: str) -> Path:
    """Where the smallest program goes when nobody says: "train_repro.py" in the current folder."""
    return Path(f"{Path(script).stem}_repro.py")


def destination(program: Program, output: Path) -> Path:
    """The file to run once `program` is written: `output`; of several files, the entry in a folder of that name."""
    if len(program.files) == 1:
        return output
    return output.with_suffix("") / PurePosixPath(program.invocation.entry).with_suffix(".py")


def check_output(program: Program, output: Path) -> None:
    """Raise ShrinkReproError when `program`, or what becomes of it, cannot be written to `output`.

    Nothing is left on disk. A file that exists may be replaced if its first line says that it was made by this tool.
    """
    script = Path(program.invocation.root, program.invocation.entry)
    for path in {output, destination(program, output)}:
        if path.is_dir():
            raise ShrinkReproError(Exit.OUTPUT_UNWRITABLE, f"{path} is a folder; name a file with --output")
        if path.exists() and (path.samefile(script) or not _is_ours(path)):
            raise ShrinkReproError(
                Exit.OUTPUT_EXISTS,
                f"{path} exists and was not written by shrinkrepro; move it away, or name another file with --output",
            )
    folder, main = output.with_suffix(""), destination(program, output)
    if main != output and not main.exists() and folder.is_dir() and any(folder.iterdir()):
        raise ShrinkReproError(
            Exit.OUTPUT_EXISTS, f"{folder} holds other files; move it away, or name another file with --output"
        )
    try:
        with tempfile.TemporaryFile(dir=output.parent):
            pass
    except OSError as problem:
        raise ShrinkReproError(
            Exit.OUTPUT_UNWRITABLE, f"{output} cannot be written: {problem.strerror}; name another file with --output"
        ) from problem


def header(reduced: Reduced, explanation: Explanation) -> str:
    """The comment above the smallest program: what it shows, error, culprit, how it was checked, versions, command."""
    lines = list(_header_lines(reduced, explanation))
    culprit = reduced.diagnosis.culprit
    if culprit is not None:
        line = culprit.line + (len(lines) + 1 if culprit.file == reduced.program.invocation.entry else 0)
        named = f"line {line}" if culprit.file == reduced.program.invocation.entry else f"{culprit.file}:{line}"
        original = explanation.diagnosis.culprit
        lines.insert(2, f"Culprit: {named}" + (f", which was {place(original)}" if original else ""))
    return f"{MARK}{lines[0]}\n" + "".join(f"# {line}\n" for line in lines[1:])


def _header_lines(reduced: Reduced, explanation: Explanation) -> Iterator[str]:
    versions = explanation.versions
    yield f"the smallest program found that fails as {explanation.program.invocation.entry} does"
    yield error(explanation.failure)
    free = f"; free: {', '.join(reduced.free)}" if reduced.free else ""
    yield f"Failed in {reduced.fresh_failures} of {reduced.fresh_runs} fresh interpreters{free}"
    yield f"PyTorch {versions['torch']}, Python {versions['python']}, shrinkrepro {versions['shrinkrepro']}"
    yield f"Made by: {private().paths(command(explanation.program))}"


def command(program: Program) -> str:
    """The command line that reduces `program`, but for options."""
    call = program.invocation
    script = ["-m", call.module] if call.module else [call.entry]
    return shlex.join(["shrinkrepro", *script, *(["--", *call.argv] if call.argv else [])])


def marked(reduced: Reduced) -> Program:
    """The smallest program with a comment behind the statements that save and change the tensor."""
    saved, culprit = reduced.diagnosis.saved, reduced.diagnosis.culprit
    remarks: dict[tuple[str, int], list[str]] = {}
    for statement, remark in ((saved, "saves it for backward"), (culprit, "changes it in place")):
        if statement is not None:
            remarks.setdefault((statement.file, statement.end_line), []).append(remark)
    program = reduced.program
    for (file, line), said in remarks.items():
        program = _remarked(program, file, line, f"  # {', '.join(said)}")
    return program


def _remarked(program: Program, path: str, line: int, remark: str) -> Program:
    """The program with a comment at the end of a line; as it is where a comment there would be no comment."""
    file = program[path]
    lines = file.text.split("\n")
    lines[line - 1] += remark
    text = "\n".join(lines)
    try:
        same = ast.dump(ast.parse(text)) == ast.dump(ast.parse(file.text))
    except SyntaxError:
        return program
    files = tuple(replace(one, text=text, runs=()) if one is file else one for one in program)
    return replace(program, files=files) if same else program


def write(reduced: Reduced, explanation: Explanation, output: Path) -> Path:
    """Write the smallest program, each file at once or not at all; the file to run.

    Raises OSError when that fails.
    """
    _write_all(marked(reduced), header(reduced, explanation), output)
    return destination(reduced.program, output)


@dataclass
class Draft:
    """Keeps the smallest program so far on disk, with a header that says so, while the search goes on.

    `output` is as for `write`, `file` the file to run, once there is one. Where writing fails `problem` says why, and
    nothing more is written.
    """

    output: Path
    file: Path | None = None
    problem: OSError | None = None
    _written: frozenset[Path] = frozenset()

    def keep(self, program: Program, explanation: Explanation) -> None:
        """Put `program` in the place of what was there."""
        if self.problem is None:
            try:
                self._leave(_write_all(program, _unfinished_header(explanation), self.output))
                self.file = destination(program, self.output)
            except OSError as problem:
                self.problem = problem

    def replaced_by(self, reduced: Reduced | None) -> None:
        """Remove what belongs to no file of the final program, or to none at all where there is no such program."""
        self._leave(frozenset() if reduced is None else frozenset(_paths(reduced.program, self.output).values()))

    def _leave(self, paths: frozenset[Path]) -> None:
        for path in self._written - paths:
            path.unlink(missing_ok=True)
            for folder in path.relative_to(self.output.parent).parents[:-1]:
                with contextlib.suppress(OSError):  # it holds something else
                    (self.output.parent / folder).rmdir()
        self._written = paths


def _unfinished_header(explanation: Explanation) -> str:
    return (
        f"{MARK}the smallest program so far that fails as {explanation.program.invocation.entry} does\n"
        f"# {error(explanation.failure)}\n"
        "# Not checked in a fresh interpreter yet: the search had not come to its end.\n"
    )


def _paths(program: Program, output: Path) -> dict[str, Path]:
    """Where each file of a program is written."""
    entry = program.invocation.entry
    folder = output.with_suffix("")
    return {
        file.path: destination(program, output) if file.path == entry else folder / PurePosixPath(file.path)
        for file in program
    }


def _write_all(program: Program, header: str, output: Path) -> frozenset[Path]:
    paths = _paths(program, output)
    for file in program:
        path = paths[file.path]
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(path, (header if file.path == program.invocation.entry else "") + file.text)
    return frozenset(paths.values())


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK.encode()


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
