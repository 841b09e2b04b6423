"""From a path to a Program: the script and the local modules that it can import."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.source import Invocation, Program, SourceFile


def load_script(
    path: str, argv: Sequence[str] = (), *, cwd: str | None = None, environment: Sequence[tuple[str, str]] = ()
) -> Program:
    """The program that `python path argv...` would run, started in `cwd` (the current folder when None).

    Local modules are those below the script's folder that its import statements, and theirs, can reach.
    Raises ShrinkReproError when the script does not exist, is a folder, is empty, or is not text or not Python.
    """
    script = Path(cwd or ".", path)
    if script.is_dir():
        raise ShrinkReproError(
            Exit.IS_A_FOLDER, f"{path} is a folder; name the script that fails, such as {path.rstrip('/')}/train.py"
        )
    if not script.exists():
        raise ShrinkReproError(Exit.NO_SUCH_FILE, f"{path} does not exist; check the spelling and the current folder")
    root = script.resolve().parent
    entry = script.resolve().name
    files = {entry: read_source(script.resolve(), path)}
    tree = _parse(files[entry], path)
    if not tree.body:
        raise ShrinkReproError(Exit.EMPTY, f"{path} holds no statement; name the script that fails")
    waiting = [(entry, tree)]
    while waiting:
        importer, tree = waiting.pop()
        for found in sorted(_local_imports(tree, importer, root)):
            if found not in files:
                files[found] = read_source(root / found, found)
                waiting.append((found, _parse(files[found], found)))
    return Program(
        tuple(SourceFile.original(name, text) for name, text in sorted(files.items())),
        Invocation(
            root=str(root),
            entry=entry,
            cwd=str(Path(cwd or ".").resolve()),
            argv=tuple(argv),
            environment=tuple(environment),
        ),
    )


def read_source(path: Path, shown: str) -> str:
    """The text of a Python file, decoded as Python would, with newlines as "\\n".

    Raises ShrinkReproError, naming the file as `shown`, when it cannot be read or decoded.
    """
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise ShrinkReproError(Exit.NO_SUCH_FILE, f"{shown} cannot be read: {problem.strerror}") from problem
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as problem:
        detail = f"byte {problem.start}" if isinstance(problem, UnicodeDecodeError) else str(problem)
        raise ShrinkReproError(
            Exit.ENCODING, f"{shown} is not UTF-8 text ({detail}); save it as UTF-8 or declare its encoding"
        ) from problem
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parse(text: str, shown: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as problem:
        raise ShrinkReproError(
            Exit.SYNTAX, f"{shown}:{problem.lineno or 1}: not valid Python: {problem.msg}"
        ) from problem
    except (ValueError, RecursionError, MemoryError) as problem:  # null bytes, nesting too deep
        raise ShrinkReproError(Exit.SYNTAX, f"{shown}:1: not valid Python: {problem}") from problem


def _local_imports(tree: ast.Module, importer: str, root: Path) -> Iterator[str]:
    """The files below `root`, relative to it, that the import statements in `importer` can load."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(alias.name, root)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute_name(node, importer)
            yield from _files_of(base, root)
            for alias in node.names:
                yield from _files_of(f"{base}.{alias.name}" if base else alias.name, root)


def _absolute_name(node: ast.ImportFrom, importer: str) -> str:
    """The dotted name that `from ... import` reads from, relative levels resolved against the importing file."""
    if not node.level:
        return node.module or ""
    package = PurePosixPath(importer).parts[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def _files_of(name: str, root: Path) -> Iterator[str]:
    """The files that importing `name` runs, packages' `__init__.py` included, as far as they lie below `root`."""
    parts = name.split(".") if name else []
    for length in range(1, len(parts) + 1):
        stem = "/".join(parts[:length])
        for candidate in (f"{stem}/__init__.py", f"{stem}.py"):
            if (root / candidate).is_file():
                yield candidate
                break
