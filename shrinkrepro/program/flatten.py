"""Local modules moved into the script that imports them: several files become one.

A module's text is put before the script's, its imports of local modules are taken out, and what was read through them
(`nets.Actor` after `import agents.networks as nets`) is read by the name that it has in the one file. Names that clash
are renamed. All that is copied keeps its provenance. A module that is used as a value stays a file, and so does all
that it imports.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

import libcst as cst
from libcst.metadata import (
    Access,
    Assignment,
    BaseAssignment,
    ExpressionContext,
    ExpressionContextProvider,
    GlobalScope,
    ImportAssignment,
    MetadataWrapper,
    Scope,
    ScopeProvider,
)

from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Tree, parse

_FUTURE = "__future__"


def unreached(program: Program) -> frozenset[str]:
    """The files that no chain of imports leads to from the script."""
    return frozenset(_paths(program)) - _Project.of(program).closure([program.invocation.entry])


def flattened(program: Program, wanted: Collection[str] | None = None) -> Patch | None:
    """The patch that moves the modules at the paths `wanted` (None: all that the script reaches) into the script.

    Those that cannot be moved stay files. None when nothing can be moved, or a file is not valid Python.
    """
    project = _Project.of(program)
    reached = project.order if wanted is None else tuple(path for path in project.order if path in wanted)
    stay = frozenset(path for path in reached if project.imports_the_script(path))
    while True:
        kept = project.closure([*stay, *(path for path in project.order if path not in reached)])
        moved = tuple(path for path in reached if path not in kept)
        if not moved:
            return None
        try:
            return _Flattening(project, moved).patch()
        except _UsedAsValue as problem:
            more = project.paths_below(problem.module) | stay
            if more == stay:
                return None
            stay = frozenset(more)


def importers(program: Program) -> Mapping[str, frozenset[str]]:
    """For each file, the files whose import statements load it."""
    project = _Project.of(program)
    loaded = {path: project.loaded_by(path) for path in _paths(program)}
    return {path: frozenset(by for by, others in loaded.items() if path in others) for path in loaded}


class _UsedAsValue(Exception):
    """A module that is more than a place to look names up in."""

    def __init__(self, module: str) -> None:
        super().__init__(module)
        self.module = module


@dataclass(frozen=True)
class _Own:
    """A name at the top level of the file at `path`."""

    path: str
    name: str


@dataclass(frozen=True)
class _Module:
    """A local module, or a folder of them, by its dotted name."""

    name: str


@dataclass(frozen=True, eq=False)
class _Imported:
    """One name that an import statement binds: `source` is a module, `member` what is taken out of it, if anything."""

    statement: cst.Import | cst.ImportFrom
    alias: cst.ImportAlias
    source: str
    member: str | None

    @property
    def full(self) -> str:
        """The dotted name of what it stands for."""
        return self.source if self.member is None else f"{self.source}.{self.member}"


@dataclass(frozen=True, eq=False)
class _Binding:
    """A name in one scope: the imports and the other places that bind it, and where it is read."""

    name: str
    imports: tuple[_Imported, ...]
    bound: tuple[cst.Name, ...]
    read: tuple[cst.Name, ...]

    @property
    def imported(self) -> _Imported | None:
        """The import that it stands for, when it never stands for anything else."""
        same = {imported.full for imported in self.imports}
        return self.imports[0] if len(same) == 1 and not self.bound else None


@dataclass(frozen=True, eq=False)
class _File:
    """What a file binds and reads; `place` is its path relative to the folder that it is imported from.

    `inner` are bindings of scopes inside others, `free` names that nothing binds, `stars` the `from ... import *`.
    """

    tree: Tree
    place: str
    top: Mapping[str, _Binding]
    inner: tuple[_Binding, ...]
    free: Mapping[str, tuple[cst.Name, ...]]
    stars: tuple[tuple[cst.ImportFrom, str], ...]

    @property
    def path(self) -> str:
        """Its path below the program's root."""
        return self.tree.file.path

    @property
    def statements(self) -> list[cst.Import | cst.ImportFrom]:
        """The import statements, in the order of the text."""
        return _import_statements(self.tree)

    @cached_property
    def stores(self) -> frozenset[cst.CSTNode]:
        """The attributes that are assigned to or deleted."""
        contexts = _metadata(self.tree).resolve(ExpressionContextProvider)
        return frozenset(node for node, context in contexts.items() if context is not ExpressionContext.LOAD)


@dataclass(frozen=True, eq=False)
class _Project:
    """The program's files and how they import each other."""

    program: Program
    modules: Mapping[str, str]

    @classmethod
    def of(cls, program: Program) -> _Project:
        """The project that `program` is."""
        return cls(program, {program.invocation.module_name(path): path for path in _paths(program)})

    @property
    def entry(self) -> str:
        """The path of the script."""
        return self.program.invocation.entry

    def file(self, path: str) -> _File:
        """What is known about the file at `path`."""
        return _read(parse(self.program[path]), self.program.invocation.inside(path))

    def name(self, path: str) -> str:
        """The dotted name of the module in the file at `path`."""
        return self.program.invocation.module_name(path)

    def is_local(self, module: str) -> bool:
        """Whether a module of that name, or one below it, is a file of the program."""
        return module in self.modules or any(name.startswith(f"{module}.") for name in self.modules)

    def paths_below(self, module: str) -> frozenset[str]:
        """The file of the module; of a folder without one, all that is below it."""
        if module in self.modules:
            return frozenset({self.modules[module]})
        return frozenset(path for name, path in self.modules.items() if name.startswith(f"{module}."))

    def files_of(self, module: str) -> Iterator[str]:
        """The files that importing `module` runs, outer packages first."""
        parts = module.split(".")
        for length in range(1, len(parts) + 1):
            path = self.modules.get(".".join(parts[:length]))
            if path is not None:
                yield path

    def loads(self, path: str, statement: cst.Import | cst.ImportFrom) -> Iterator[str]:
        """The files that one import statement of the file at `path` can run."""
        if isinstance(statement, cst.Import):
            names = [alias.evaluated_name for alias in statement.names]
        else:
            place = self.program.invocation.inside(path)
            names = [_source(statement, place), *(imported.full for imported in _aliases(statement, place))]
        for name in names:
            yield from self.files_of(name)

    def loaded_by(self, path: str) -> frozenset[str]:
        """The files that the import statements of the file at `path` can run, its own packages included."""
        statements = self.file(path).statements
        found = (other for statement in statements for other in self.loads(path, statement))
        return frozenset((*found, *self.files_of(self.name(path)))) - {path}

    def closure(self, paths: Iterable[str]) -> frozenset[str]:
        """The files at `paths` and all that they import, directly or not."""
        found: set[str] = set()
        waiting = list(paths)
        while waiting:
            path = waiting.pop()
            if path not in found:
                found.add(path)
                waiting += self.loaded_by(path)
        return frozenset(found)

    def imports_the_script(self, path: str) -> bool:
        """Whether the file at `path` imports the script, which then runs a second time as a module."""
        return path != self.entry and self.entry in self.loaded_by(path)

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The modules that the script reaches, in the order in which they finish running; not the script."""
        done: dict[str, None] = {}
        begun: set[str] = set()
        deferred: list[str] = []

        def run(path: str) -> None:
            if path in begun:
                return
            begun.add(path)
            file = self.file(path)
            for statement in file.statements:
                late = file.tree.inside(statement, cst.FunctionDef)
                for other in self.loads(path, statement):
                    if late:
                        deferred.append(other)
                    else:
                        run(other)
            done[path] = None

        for path in self.files_of(self.name(self.entry)):
            run(path)
        while deferred:
            run(deferred.pop(0))
        done.pop(self.entry, None)
        return tuple(done)


@dataclass
class _Flattening:
    """Moves the modules at the paths `moved`, in that order, into the script."""

    project: _Project
    moved: tuple[str, ...]
    edits: list[Edit] = field(default_factory=list)

    def patch(self) -> Patch:
        """The whole move. Raises _UsedAsValue for a module that must stay."""
        references = list(self._references())
        names = self._names(references)
        for file in self.files:
            self._rename(file, names)
            self._rewrite_imports(file, names)
            if file.path != self.project.entry:
                for node in file.free.get("__name__", ()):
                    self._put(file, node, f'"{self.project.name(file.path)}"')
        for file, reference, target in references:
            self._put(file, reference, names.get(target, target.name))
        pieces: list[Piece] = []
        if any(self._future(file) for file in self.files):
            pieces.append(f"from {_FUTURE} import annotations\n")
        for path in self.moved:
            text = self.project.program[path].text
            pieces.append(Span(path, 0, len(text)))
            if text and not text.endswith("\n"):
                pieces.append("\n")
        insertion = Edit(Span(self.project.entry, 0, 0), tuple(pieces))
        what = "the modules" if len(self.moved) > 1 else self.moved[0]
        return Patch((insertion, *dict.fromkeys(self.edits)), f"move {what} into the script", frozenset(self.moved))

    @cached_property
    def files(self) -> list[_File]:
        """The script, which keeps its names if anybody does, and the modules."""
        return [self.project.file(path) for path in (self.project.entry, *self.moved)]

    def _put(self, file: _File, node: cst.CSTNode, text: str) -> None:
        span = file.tree.span(node)
        if file.tree.file.text[span.start : span.end] != text:
            self.edits.append(Edit(span, (text,)))

    # ---- what names stand for

    def _is_moved(self, module: str) -> bool:
        return self.project.modules.get(module) in self.moved

    def _target(self, imported: _Imported) -> _Own | _Module | None:
        """What an import stands for in the one file; None when it stays an import."""
        if imported.member is None:
            below = self.project.paths_below(imported.source)
            return _Module(imported.source) if below.intersection(self.moved) else None
        if not self.project.is_local(imported.source):
            return None
        found = self._resolve(imported.source, imported.member)
        if found is None and self._is_moved(imported.source):
            raise _UsedAsValue(imported.source)
        if isinstance(found, _Module):
            return found if self.project.paths_below(found.name).intersection(self.moved) else None
        return found if found is not None and found.path in self.moved else None

    def _resolve(
        self, module: str, name: str, asked: frozenset[tuple[str, str]] = frozenset()
    ) -> _Own | _Module | None:
        """What `module.name` is, re-exports followed to where it is bound; None when nobody knows."""
        if (module, name) in asked:
            raise _UsedAsValue(module)
        asked |= {(module, name)}
        path = self.project.modules.get(module)
        file = None if path is None else self.project.file(path)
        binding = None if file is None else file.top.get(name)
        if path is not None and binding is not None:
            imported = binding.imported
            if imported is None or not self.project.is_local(imported.source):
                return _Own(path, name)
            if imported.member is None:
                return _Module(imported.source)
            return self._resolve(imported.source, imported.member, asked)
        if self.project.is_local(f"{module}.{name}"):
            return _Module(f"{module}.{name}")
        return None if file is None else self._from_stars(file, name, asked)

    def _from_stars(
        self, file: _File, name: str, asked: frozenset[tuple[str, str]] = frozenset()
    ) -> _Own | _Module | None:
        """What `name` is in a file where only `import *` can have bound it; None when no local module exports it."""
        for _, source in reversed(file.stars):
            if self.project.is_local(source) and name in self._exports(source, asked):
                return self._resolve(source, name, asked)
        return None

    def _exports(self, module: str, asked: frozenset[tuple[str, str]]) -> frozenset[str]:
        """The names that `from module import *` brings."""
        path = self.project.modules.get(module)
        if path is None or (module, "*") in asked:
            return frozenset()
        file = self.project.file(path)
        listed = _literal_all(file)
        if listed is not None:
            return listed
        others = (self._exports(source, asked | {(module, "*")}) for _, source in file.stars)
        return frozenset(name for name in file.top if not name.startswith("_")).union(*others)

    def _references(self) -> Iterator[tuple[_File, cst.CSTNode, _Own]]:
        """The expressions that name something in a moved module through an import, and what they name."""
        for file in self.files:
            for binding in (*file.top.values(), *file.inner):
                target = None if binding.imported is None else self._target(binding.imported)
                if isinstance(target, _Own):
                    yield from ((file, read, target) for read in binding.read)
                elif isinstance(target, _Module):
                    for read in binding.read:
                        yield from self._through(file, read, target.name)
            for name, reads in file.free.items():
                found = self._from_stars(file, name)
                if isinstance(found, _Module):
                    raise _UsedAsValue(found.name)
                if found is not None and found.path in self.moved:
                    yield from ((file, read, found) for read in reads)

    def _through(self, file: _File, read: cst.Name, module: str) -> Iterator[tuple[_File, cst.CSTNode, _Own]]:
        """The longest chain of attributes from a module's name that names something in a moved module."""
        node: cst.CSTNode = read
        while True:
            parent = file.tree.parents[node]
            if not isinstance(parent, cst.Attribute) or parent.value is not node:
                raise _UsedAsValue(module)
            found, node = self._resolve(module, parent.attr.value), parent
            if isinstance(found, _Module):
                module = found.name
                continue
            if found is None or (parent in file.stores and found.path in self.moved):
                raise _UsedAsValue(module)
            if found.path in self.moved:
                yield file, node, found
            return

    # ---- new names

    def _names(self, references: Sequence[tuple[_File, cst.CSTNode, _Own]]) -> dict[_Own, str]:
        """The names to be given to what cannot keep its own."""
        hidden = {target for file, _, target in references if target.name in _inner_names(file)}
        taken = {node.value for file in self.files for node in file.tree.walk(cst.Name)} | set(dir(builtins))
        owners: dict[str, object] = {}
        names: dict[_Own, str] = {}
        for file in self.files:
            for name, binding in file.top.items():
                own = _Own(file.path, name)
                imported = binding.imported
                if imported is not None and self._target(imported) is not None:
                    continue
                identity = own if imported is None else imported.full
                free_elsewhere = any(
                    name in other.free and not self._from_stars(other, name) for other in self._but(file)
                )
                if owners.setdefault(name, identity) != identity or own in hidden or free_elsewhere:
                    names[own] = next(n for n in (f"{name}_{i}" for i in range(2, 10_000)) if n not in taken)
                    taken.add(names[own])
        return names

    def _but(self, file: _File) -> Iterator[_File]:
        return (other for other in self.files if other is not file)

    def _rename(self, file: _File, names: Mapping[_Own, str]) -> None:
        """Give the names at the top level of a file that need it their new name, wherever the file has them."""
        for name, binding in file.top.items():
            new = names.get(_Own(file.path, name))
            if new is None:
                continue
            for node in (*binding.bound, *binding.read):
                self._put(file, node, new)
            for declared in (item.name for node in file.tree.walk(cst.Global) for item in node.names):
                if declared.value == name:
                    self._put(file, declared, new)

    # ---- import statements

    def _rewrite_imports(self, file: _File, names: Mapping[_Own, str]) -> None:
        for node in file.statements:
            parts = list(self._remaining(file, node, names))
            if parts == [file.tree.text(node)]:
                continue
            statement = file.tree.statement_around(node)
            suite = file.tree.parents[node]
            if parts or (isinstance(suite, cst.SimpleStatementSuite) and len(suite.body) == 1):
                self.edits.append(Edit(statement.code, ("; ".join(parts) or "pass",)))
            else:
                self.edits.append(statement.delete())

    def _remaining(self, file: _File, node: cst.Import | cst.ImportFrom, names: Mapping[_Own, str]) -> Iterator[str]:
        """What becomes of an import statement: imports of what stays elsewhere, assignments where one must be made."""
        imported = list(_aliases(node, file.place))
        top = not file.tree.inside(node, cst.FunctionDef, cst.ClassDef)
        renamed = {i for i in imported if top and _Own(file.path, _bound_name(i)) in names}
        targets = {i: self._target(i) for i in imported}
        if isinstance(node, cst.ImportFrom) and (self._future(file) and _source(node, file.place) == _FUTURE):
            return
        if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
            if not self._is_moved(_source(node, file.place)):
                yield self._absolute(file, node, None)
            return
        if not renamed and not any(targets.values()):
            yield self._absolute(file, node, None)
            return
        for each in imported:
            name = _bound_name(each)
            bound = names.get(_Own(file.path, name), name) if top else name
            target = targets[each]
            if target is None:
                yield self._absolute(file, node, each, bound)
            elif not self._replaced(file, each):
                if isinstance(target, _Module):
                    raise _UsedAsValue(target.name)
                yield f"{bound} = {names.get(target, target.name)}"
            elif isinstance(target, _Module) and each.member is None and not self._is_moved(_whole(each)):
                yield self._absolute(file, node, each)

    def _replaced(self, file: _File, imported: _Imported) -> bool:
        """Whether all that reads the name reads what the import brought, so that the name need not exist."""
        bindings = (*file.top.values(), *file.inner)
        holding = (b for b in bindings if any(i.alias is imported.alias for i in b.imports))
        return all(binding.imported is not None for binding in holding)

    def _absolute(self, file: _File, node: cst.Import | cst.ImportFrom, only: _Imported | None, bound: str = "") -> str:
        """The import statement, with relative names in full; of several names, only one, bound to `bound`."""
        if isinstance(node, cst.Import) and only is not None:
            full = _whole(only)
            if bound in ("", _bound_name(only)):
                return f"import {file.tree.text(only.alias)}"
            if only.alias.asname is None and "." in full:
                raise _UsedAsValue(self.project.name(file.path))
            return f"import {full} as {bound}"
        if isinstance(node, cst.ImportFrom) and only is not None:
            renamed = "" if bound in ("", only.member) else f" as {bound}"
            return f"from {only.source} import {only.member}{renamed}"
        text = file.tree.text(node)
        if isinstance(node, cst.ImportFrom) and node.relative:
            return f"from {_source(node, file.place)} import{text.split('import', 1)[1]}"
        return text

    def _future(self, file: _File) -> bool:
        """Whether the file imports from __future__: that must stand at the very top of the one file."""
        return any(_source(node, file.place) == _FUTURE for node in file.tree.walk(cst.ImportFrom))


def _paths(program: Program) -> list[str]:
    return [file.path for file in program]


def _bound_name(imported: _Imported) -> str:
    """The name that an import binds: `a` for `import a.b`."""
    alias = imported.alias
    if alias.evaluated_alias is not None:
        return alias.evaluated_alias
    return alias.evaluated_name.partition(".")[0] if imported.member is None else alias.evaluated_name


def _whole(imported: _Imported) -> str:
    """The module that a plain import loads: `a.b` for `import a.b`, though it binds `a`."""
    return imported.alias.evaluated_name


def _inner_names(file: _File) -> frozenset[str]:
    return frozenset(binding.name for binding in file.inner)


def _source(node: cst.ImportFrom, path: str) -> str:
    """The dotted name of the module that `from ... import` reads from, in full."""
    name = "" if node.module is None else cst.Module([]).code_for_node(node.module)
    level = len(node.relative)
    if not level:
        return name
    package = PurePosixPath(path).parts[:-level]
    return ".".join([*package, *([name] if name else [])])


@lru_cache(maxsize=64)
def _metadata(tree: Tree) -> MetadataWrapper:
    return MetadataWrapper(tree.module, unsafe_skip_copy=True)


def _aliases(node: cst.Import | cst.ImportFrom, path: str) -> Iterator[_Imported]:
    """The names that an import statement binds; for `*` none can be told, but its module is read from."""
    if isinstance(node, cst.ImportFrom):
        source = _source(node, path)
        for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
            yield _Imported(node, alias, source, alias.evaluated_name)
        return
    for alias in node.names:
        full = alias.evaluated_name
        yield _Imported(node, alias, full if alias.asname else full.partition(".")[0], None)


@lru_cache(maxsize=64)
def _read(tree: Tree, place: str) -> _File:
    """What the file that `tree` is the syntax of binds and reads."""
    found = _metadata(tree).resolve(ScopeProvider).values()
    scopes = list(dict.fromkeys(scope for scope in found if scope is not None))
    imported: dict[tuple[cst.CSTNode, str], _Imported] = {
        (statement, _bound_name(each)): each
        for statement in _import_statements(tree)
        for each in _aliases(statement, place)
    }
    free: dict[str, list[cst.Name]] = {}
    reads: dict[BaseAssignment, list[cst.Name]] = {}
    accesses = {_leftmost(access): access for scope in scopes for access in scope.accesses}
    for name, access in _by_place(tree, accesses):
        known = [referent for referent in access.referents if referent.scope in scopes]
        if not known:
            free.setdefault(name.value, []).append(name)
        for referent in known:
            reads.setdefault(referent, []).append(name)
    bindings = [(scope, binding) for scope in scopes for binding in _bindings(tree, scope, imported, reads)]
    stars = tuple(
        (node, _source(node, place)) for node in tree.walk(cst.ImportFrom) if isinstance(node.names, cst.ImportStar)
    )
    return _File(
        tree,
        place,
        {binding.name: binding for scope, binding in bindings if isinstance(scope, GlobalScope)},
        tuple(binding for scope, binding in bindings if not isinstance(scope, GlobalScope)),
        {name: tuple(nodes) for name, nodes in free.items()},
        stars,
    )


def _import_statements(tree: Tree) -> list[cst.Import | cst.ImportFrom]:
    nodes: list[cst.Import | cst.ImportFrom] = [*tree.walk(cst.Import), *tree.walk(cst.ImportFrom)]
    return sorted(nodes, key=lambda node: tree.span(node).start)


def _by_place(tree: Tree, accesses: Mapping[cst.Name | None, Access]) -> list[tuple[cst.Name, Access]]:
    """Accesses in the order of the text: libcst keeps them in sets."""
    named = [(name, access) for name, access in accesses.items() if name is not None]
    return sorted(named, key=lambda pair: tree.span(pair[0]).start)


def _bindings(
    tree: Tree,
    scope: Scope,
    imported: Mapping[tuple[cst.CSTNode, str], _Imported],
    reads: Mapping[BaseAssignment, Sequence[cst.Name]],
) -> Iterator[_Binding]:
    """The names that a scope binds. Of `import a.b.c` that is `a`, whichever part of the chain is read."""
    together: dict[str, list[BaseAssignment]] = {}
    for assignment in scope.assignments:
        root = assignment.name.partition(".")[0] if isinstance(assignment, ImportAssignment) else assignment.name
        together.setdefault(root, []).append(assignment)
    for name, assignments in together.items():
        nodes: set[cst.CSTNode] = {assignment.node for assignment in assignments if isinstance(assignment, Assignment)}
        placed = sorted(nodes, key=lambda node: tree.span(node).start)
        bound = [_name_of(node) for node in placed if (node, name) not in imported]
        read = {node for assignment in assignments for node in reads.get(assignment, ())}
        yield _Binding(
            name,
            tuple(imported[node, name] for node in placed if (node, name) in imported),
            tuple(node for node in bound if node is not None),
            tuple(sorted(read, key=lambda node: tree.span(node).start)),
        )


def _name_of(node: cst.CSTNode) -> cst.Name | None:
    """The name that a definition, a parameter or a target binds."""
    if isinstance(node, cst.Name):
        return node
    named = getattr(node, "name", None)
    return named if isinstance(named, cst.Name) else None


def _leftmost(access: Access) -> cst.Name | None:
    """The name that a chain of attributes begins with; None for a name in a string."""
    node: cst.CSTNode = access.node
    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def _literal_all(file: _File) -> frozenset[str] | None:
    """The names in `__all__`, when it is one list or tuple of strings."""
    for node in file.tree.walk(cst.Assign):
        target, value = node.targets[0].target, node.value
        if isinstance(target, cst.Name) and target.value == "__all__" and isinstance(value, (cst.List, cst.Tuple)):
            strings = [element.value for element in value.elements]
            return frozenset(str(string.evaluated_value) for string in strings if isinstance(string, cst.SimpleString))
    return None
