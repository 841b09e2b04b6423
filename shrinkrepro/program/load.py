"""From a path, a module's name or a notebook to a Program: what is started and the local modules that it imports."""

from __future__ import annotations

import ast
import importlib.util
import io
import os
import sys
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from shrinkrepro.errors import Exit, ShrinkReproError
from shrinkrepro.program.notebook import read_notebook
from shrinkrepro.program.source import Invocation, Program, SourceFile

Environment = Sequence[tuple[str, str]]

# Reading and understanding a text of this length takes seconds.
_LONGEST_TEXT = 500_000
_LARGEST_FILE = 200 << 20
# Installed packages that cannot be taken for the user's own: their compiled parts expect to be where they are.
_NOT_INLINED = frozenset({"torch", "shrinkrepro"})


def load_script(
    path: str,
    argv: Sequence[str] = (),
    *,
    cwd: str | None = None,
    environment: Environment = (),
    cells: Collection[int] | None = None,
    inline: Collection[str] = (),
) -> Program:
    """The program that `python path argv...` would run, started in `cwd` (the current folder when None).

    Local modules are those below the script's folder that its import statements, and theirs, can reach; so are the
    installed packages named in `inline`. A path that ends in .ipynb is a notebook: its code cells are run in order,
    only those in `cells` if given, in its own folder as Jupyter does.
    Raises ShrinkReproError when the script does not exist, is a folder, is empty, or is not text or not Python.
    """
    script = Path(cwd or ".", path)
    if script.is_dir():
        raise ShrinkReproError(Exit.IS_A_FOLDER, _folder_problem(path, script))
    if not script.exists():
        raise ShrinkReproError(Exit.NO_SUCH_FILE, f"{path} does not exist; check the spelling and the current folder")
    root, entry = script.resolve().parent, script.resolve().name
    text = read_source(script.resolve(), path)
    notes: tuple[str, ...] = ()
    if entry.endswith(".ipynb"):
        source, notes = read_notebook(entry, text, cells)
    else:
        source = SourceFile.original(entry, text)
    _check_length(source, path)
    if not _parse(source, path).body:
        raise ShrinkReproError(Exit.EMPTY, f"{path} holds no statement; name the script that fails")
    started = str(root) if entry.endswith(".ipynb") else str(Path(cwd or ".").resolve())
    call = Invocation(root=str(root), entry=entry, cwd=started, argv=tuple(argv), environment=tuple(environment))
    return Program(_with_imports([source], _Folders.of(root, inline)), call, notes)


def load_module(
    name: str,
    argv: Sequence[str] = (),
    *,
    cwd: str | None = None,
    environment: Environment = (),
    inline: Collection[str] = (),
) -> Program:
    """The program that `python -m name argv...` would run, started in `cwd` (the current folder when None).

    Raises ShrinkReproError when there is no such module below `cwd`, when it is a package that cannot be run, or when
    it is empty or not Python.
    """
    root = Path(cwd or ".").resolve()
    stem = name.replace(".", "/")
    if (root / stem).is_dir():
        name, entry = f"{name}.__main__", f"{stem}/__main__.py"
        if not (root / entry).is_file():
            raise ShrinkReproError(
                Exit.IS_A_FOLDER, f"{stem} is a package without {entry}; name the module in it that fails, as -m does"
            )
    else:
        entry = f"{stem}.py"
    if not (root / entry).is_file():
        raise ShrinkReproError(
            Exit.NO_SUCH_FILE,
            f"there is no {entry} in the current folder; start shrinkrepro where `python -m {name}` finds your module",
        )
    source = SourceFile.original(entry, read_source(root / entry, entry))
    _check_length(source, entry)
    if not _parse(source, entry).body:
        raise ShrinkReproError(Exit.EMPTY, f"{entry} holds no statement; name the module that fails")
    folders = _Folders.of(root, inline)
    packages = [path for path in folders.files_of(name) if path != entry]
    parents = [SourceFile.original(path, read_source(root / path, path)) for path in packages]
    call = Invocation(str(root), entry, str(root), tuple(argv), name, tuple(environment))
    return Program(_with_imports([source, *parents], folders), call)


def with_strays(program: Program, strays: Mapping[str, str]) -> Program:
    """The program with the user's modules that a run imported from elsewhere: by their names, the files.

    They lie in folders that the script put on `sys.path`, or are imported under names made up at run time. The root
    becomes the folder around all of them. Those that are neither below the folder around the script's own nor below
    the one that it is started in stay what they are: libraries.
    """
    call = program.invocation
    around = (Path(call.root).parent, Path(call.cwd))
    homes = {Path(file): _imported_from(name, Path(file)) for name, file in strays.items()}
    known = {file: home for file, home in homes.items() if any(home.is_relative_to(folder) for folder in around)}
    if not known or Path(call.root).parent == Path(call.root):
        return program
    root = Path(os.path.commonpath([call.root, *known.values()]))
    moved = Path(call.root).relative_to(root)
    files = [_relocated(file, str(moved / file.path)) for file in program]
    files += [SourceFile.original(path, read_source(root / path, path)) for path in _below(root, known)]
    below = [str(moved / folder) for folder in call.folders] + sorted(str(p.relative_to(root)) for p in known.values())
    folders = tuple(dict.fromkeys("" if folder == "." else folder for folder in below))
    return replace(
        program,
        files=_with_imports(files, _Folders(root, {}, folders)),
        invocation=replace(call, root=str(root), entry=str(moved / call.entry), folders=folders),
    )


def from_above(program: Program) -> Program:
    """The same program with the folder around its own for a root, so that what it finds through `..` is there.

    The program itself where that folder is the current one or below it, and so in view, or where there is none.
    """
    call = program.invocation
    root = Path(call.root)
    if call.folders != ("",) or root.parent == root or root.parent.is_relative_to(call.cwd):
        return program
    files = tuple(_relocated(file, f"{root.name}/{file.path}") for file in program)
    above = replace(call, root=str(root.parent), entry=f"{root.name}/{call.entry}", folders=(root.name,))
    return replace(program, files=files, invocation=above)


def _imported_from(name: str, file: Path) -> Path:
    """The folder on `sys.path` that a module was found in."""
    depth = len(name.split(".")) - (file.name != "__init__.py")
    return file.parents[depth]


def _below(root: Path, files: Iterable[Path]) -> list[str]:
    return sorted(file.relative_to(root).as_posix() for file in files)


def _relocated(file: SourceFile, path: str) -> SourceFile:
    """An unedited file under another path."""
    return replace(SourceFile.original(path, file.text), cells=file.cells)


def _folder_problem(path: str, folder: Path) -> str:
    if (folder / "__main__.py").is_file():
        return f"{path} is a package; run it with -m {path.strip('/').replace('/', '.')}"
    return f"{path} is a folder; name the script that fails, such as {path.rstrip('/')}/train.py"


def _with_imports(seeds: Sequence[SourceFile], folders: _Folders) -> tuple[SourceFile, ...]:
    """The files given and those that their import statements, and theirs, can load, by path."""
    files = {file.path: file for file in seeds}
    waiting = list(seeds)
    while waiting:
        importer = waiting.pop()
        place = folders.inside(importer.path)
        for found in sorted(local_imports(_parse(importer, importer.path), place, folders.files_of)):
            if found not in files:
                files[found] = SourceFile.original(found, read_source(folders.place(found), found))
                waiting.append(files[found])
    return tuple(files[path] for path in sorted(files))


@dataclass(frozen=True)
class _Folders:
    """Where modules are looked for: below `root`, and the packages to be inlined in the folders that hold them.

    `below` are the folders below the root, relative to it, that modules are imported from.
    """

    root: Path
    packages: Mapping[str, Path]
    below: tuple[str, ...] = ("",)

    @classmethod
    def of(cls, root: Path, inline: Collection[str]) -> _Folders:
        """Those of a program in `root`. Raises ShrinkReproError for a package that cannot be inlined."""
        return cls(root, {name: _installed_in(name) for name in inline})

    def place(self, path: str) -> Path:
        """Where the file is that the program has under `path`."""
        return self.packages.get(path.partition("/")[0].removesuffix(".py"), self.root) / path

    def inside(self, path: str) -> str:
        """A file's path relative to the folder that it is imported from."""
        return Invocation(str(self.root), "", "", folders=self.below).inside(path)

    def files_of(self, name: str) -> Iterator[str]:
        """The files that importing `name` runs, packages' `__init__.py` included, as far as they are the user's."""
        parts = name.split(".") if name else []
        for length in range(1, len(parts) + 1):
            stems = [PurePosixPath(folder, *parts[:length]) for folder in self.below]
            candidates = [path for stem in stems for path in (f"{stem}/__init__.py", f"{stem}.py")]
            yield from [path for path in candidates if self.place(path).is_file()][:1]


def _installed_in(name: str) -> Path:
    """The folder that an installed package of pure Python lies in."""
    spec = None if "." in name else importlib.util.find_spec(name)
    if name in _NOT_INLINED:
        raise ShrinkReproError(Exit.USAGE, f"{name} cannot be inlined; name a package of pure Python")
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ShrinkReproError(
            Exit.MISSING_MODULE, f"{name} cannot be inlined: {sys.executable} has no package of pure Python named so"
        )
    return Path(spec.origin).parents[1 if spec.submodule_search_locations else 0]


def read_source(path: Path, shown: str) -> str:
    """The text of a Python file, decoded as Python would, with newlines as "\\n".

    Raises ShrinkReproError, naming the file as `shown`, when it cannot be read or decoded.
    """
    try:
        with path.open("rb") as file:  # of a device there is no end
            data = file.read(_LARGEST_FILE + 1)
    except OSError as problem:
        raise ShrinkReproError(Exit.NO_SUCH_FILE, f"{shown} cannot be read: {problem.strerror}") from problem
    if len(data) > _LARGEST_FILE:
        raise ShrinkReproError(
            Exit.TOO_LARGE,
            f"{shown} has more than {_LARGEST_FILE >> 20} MiB; name the script that fails, without its data",
        )
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError) as problem:  # the last for what is no encoding of text
        detail = f"byte {problem.start}" if isinstance(problem, UnicodeDecodeError) else str(problem)
        raise ShrinkReproError(
            Exit.ENCODING, f"{shown} is not UTF-8 text ({detail}); save it as UTF-8 or declare its encoding"
        ) from problem
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check_length(file: SourceFile, shown: str) -> None:
    if len(file.text) > _LONGEST_TEXT:
        raise ShrinkReproError(
            Exit.TOO_LARGE,
            f"{shown} has {len(file.text):,} characters, and scripts of up to {_LONGEST_TEXT:,} can be reduced; "
            "move its data into a file of its own",
        )


def _parse(file: SourceFile, shown: str) -> ast.Module:
    try:
        return ast.parse(file.text)
    except SyntaxError as problem:
        line = problem.lineno or 1
        cell = file.cell_at(line)
        where = f"{shown}:{line}" if cell is None else f"{shown} cell {cell.number}:{line - cell.first + 1}"
        raise ShrinkReproError(Exit.SYNTAX, f"{where}: not valid Python: {problem.msg}") from problem
    except (ValueError, RecursionError, MemoryError) as problem:  # null bytes, nesting too deep
        raise ShrinkReproError(Exit.SYNTAX, f"{shown}:1: not valid Python: {problem}") from problem


def local_imports(tree: ast.Module, importer: str, files_of: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """The files that the import statements of `importer` can load; `files_of` knows those that a module's name runs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from files_of(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = absolute_name(node.module, node.level, importer)
            yield from files_of(base)
            for alias in node.names:
                yield from files_of(f"{base}.{alias.name}" if base else alias.name)


def absolute_name(module: str | None, level: int, importer: str) -> str:
    """The dotted name that `from ... import` reads from, `level` dots resolved against the importing file."""
    if not level:
        return module or ""
    package = PurePosixPath(importer).parts[:-level]
    return ".".join([*package, *([module] if module else [])])
