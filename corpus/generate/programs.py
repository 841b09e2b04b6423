"""Whole programs: written, dressed as a script, run once without any instrument, and labelled."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
import warnings
from collections.abc import Iterable, Mapping, Sequence

import hypothesis.strategies as st
from hypothesis import assume

from corpus.generate import operators
from corpus.generate.author import Author, Draft
from corpus.generate.choice import Choice, Drawn, Seeded
from corpus.generate.code import Block, Item, Line, mentioned, names, numbers, parsed, render
from corpus.generate.dress import dress
from corpus.generate.truth import Generated, Made, Place, Truth
from corpus.generate.world import PHRASE, Entry, Facts, Spent, run_source

ENTRY = "train.py"


def programs(moves: int = 30, faults: int = 1) -> st.SearchStrategy[Generated]:
    """Programs of up to about `moves` lines before they are dressed, with `faults` harmful writes; none: they run."""

    @st.composite
    def draw_program(draw: st.DrawFn) -> Generated:
        choose = Drawn(draw)
        made = attempt(choose, choose.integer(1, moves), faults)
        assume(made is not None)
        assert made is not None
        return made

    return draw_program()


def program(seed: int, index: int, moves: int | None = None, faults: int | None = None) -> Generated:
    """Program number `index` of those that follow from `seed`: always the same one, whichever others are made.

    It has up to about `moves` lines before it is dressed; where that is left open, up to 60, and one in 25 up to 400.
    """
    for attempt_number in range(200):
        choose = Seeded(f"{seed}-{index}-{attempt_number}")
        wanted = choose.one_of((1, 1, 1, 1, 2)) if faults is None else faults
        if moves is None and choose.chance(4):
            length = choose.integer(80, 380)
        else:
            length = choose.integer(1, (moves or 60) // choose.one_of((4, 2, 1)) or 1)
        made = attempt(choose, length, wanted)
        if made is not None:
            return made
    raise Spent(f"no program in 200 attempts from seed {seed}, index {index}")


def attempt(choose: Choice, moves: int, faults: int) -> Generated | None:
    """One program; None when what was drawn cannot be accounted for or does not have as many faults as wanted."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            draft = Author(choose, moves, faults).write()
        except Spent:
            return None
        failing = _first(draft)
        if (failing is None) != (faults == 0) or (failing is not None and _ambiguous(draft, failing)):
            return None
        dressed = dress(choose, *assemble(draft))
        scripts = files(choose, dressed.imports, dressed.front, dressed.body)
        texts = {path: render(items) for path, items in scripts.items()}
        argv = tuple(dressed.argv)
        problem = outcome(texts, argv)
        if failing is None:
            return Generated(texts, ENTRY, None, argv) if problem is None else None
        if problem is None or not _explains(failing, problem):
            return None
        truth = _truth(draft, failing, scripts, problem)
        generated = Generated(texts, ENTRY, truth, argv)
        if len(truth.harmful) > faults or not (raises_versions_itself(generated) or mended(generated)):
            return None
        return generated


def files(choose: Choice, imports: list[Item], front: list[Item], body: list[Item]) -> dict[str, list[Item]]:
    """The program as one file, or its functions and classes in a second, in a second and a third, in a package.

    The files are in an order in which they can be run.
    """
    if not names(front).binds or choose.chance(60):
        return {ENTRY: [*imports, *front, *body]}
    layout = choose.one_of(("module", "package", "modules"))
    module = choose.one_of(("model", "layers", "helpers"))
    if layout == "package":
        return {
            f"net/{module}.py": [*imports, *front],
            "net/__init__.py": _importing(f".{module}", front),
            ENTRY: [*imports, *_importing("net", front), *body],
        }
    cut = choose.one_of([0, *_starts(front)]) if layout == "modules" else 0
    early, late = front[:cut], front[cut:]
    used = _importing("common", early)
    scripts = {"common.py": [*imports, *early]} if used else {}
    if names(late).binds:
        scripts[f"{module}.py"] = [*imports, *used, *late]
    return {**scripts, ENTRY: [*imports, *used, *_importing(module, late), *body]}


def _starts(front: Sequence[Item]) -> list[int]:
    """The indices at which a definition starts."""
    texts = ["def" if isinstance(item, Block) else item.text for item in front]
    opening = [text.startswith(("@", "class", "def")) for text in texts]
    return [index for index in range(1, len(front)) if opening[index] and not texts[index - 1].startswith("@")]


def _importing(module: str, items: list[Item]) -> list[Item]:
    """The line that imports what `items`, the contents of a module, bind; none where they bind nothing."""
    bound = ", ".join(names(items).binds)
    return [Line(f"from {module} import {bound}")] if bound else []


def without(generated: Generated, places: Iterable[Place]) -> dict[str, str]:
    """The files of a program with `pass` in the place of some lines."""
    files = {path: text.splitlines() for path, text in generated.files.items()}
    for place in places:
        line = files[place.file][place.line - 1]
        files[place.file][place.line - 1] = line[: len(line) - len(line.lstrip())] + "pass"
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}


def mended(generated: Generated) -> bool:
    """Whether the error is gone without the harmful lines.

    One that writes over a tensor also cuts off what the gradient led to before. There may be another one behind it.
    """
    harmful = generated.truth.harmful if generated.truth is not None else ()
    return PHRASE not in (outcome(without(generated, harmful), generated.argv) or "")


def raises_versions_itself(generated: Generated) -> bool:
    """Whether a Function of the program raises versions although it writes nothing."""
    return any("mark_dirty" in text for text in generated.files.values())


def _explains(failing: Entry, problem: str) -> bool:
    """Whether what torch says is about the spoiled tensor."""
    facts = Facts.of(problem)
    return facts is not None and (not failing.message or facts == Facts.of(failing.message))


def outcome(texts: Mapping[str, str], argv: Sequence[str] = ()) -> str | None:
    """The error of a program that is run here and now, None when there is none. Nothing else watches the run."""
    printed, before = io.StringIO(), sys.argv
    modules = {path: path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in texts}
    modules[ENTRY] = "__main__"
    kept = {name: sys.modules.pop(name) for name in modules.values() if name in sys.modules}
    sys.argv = [ENTRY, *argv]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            for path, module in modules.items():
                sys.modules[module] = types.ModuleType(module)
                if path.endswith("__init__.py"):
                    vars(sys.modules[module]).update(__path__=[], __package__=module)
                run_source(texts[path], path, vars(sys.modules[module]))
    except (Exception, SystemExit) as problem:
        return str(problem)
    finally:
        sys.argv = before
        for module in modules.values():
            sys.modules.pop(module, None)
        sys.modules.update(kept)
    swallowed = re.search(r"failed: (.*)", printed.getvalue(), re.DOTALL)
    return swallowed[1] if swallowed else None


def assemble(draft: Draft) -> tuple[list[Item], list[Item], list[Item]]:
    """The imports and the definitions that a draft uses, and its own items."""
    used = mentioned(draft.items)
    definitions: list[Item] = []
    for name, text in {**operators.DEFINITIONS, **operators.SCRIPTED}.items():
        if name in used:
            definitions += [*parsed("\n" + text), Line("")]
    used |= mentioned(definitions)
    imports: list[Item] = [Line("import torch")]
    imports += [Line(text) for name, text in operators.IMPORTS.items() if name in used]
    return imports, definitions, draft.items


def _first(draft: Draft) -> Entry | None:
    """The spoiled tensor that the engine comes to first: of those on the way, that of the highest number."""
    below = draft.world.below(draft.world.names["loss"])
    spoiled = [
        entry
        for entry in draft.world.entries
        if entry.spoiled and entry.node in below and (entry.through is None or entry.through in below)
    ]
    return max(spoiled, key=lambda entry: entry.order, default=None)


def _ambiguous(draft: Draft, failing: Entry) -> bool:
    """Whether two lines spoiled what the failing node saved: which one torch complains of first nobody can tell."""
    spoiling = {entry.spoiled for entry in draft.world.entries if entry.node is failing.node and entry.spoiled}
    return len(spoiling) > 1


def _truth(draft: Draft, failing: Entry, scripts: Mapping[str, Sequence[Item]], problem: str) -> Truth:
    below = draft.world.below(draft.world.names["loss"])
    where = {line: (path, number) for path, items in scripts.items() for line, number in numbers(items).items()}
    calls = {call: _writer(inner, where) for call, (_, inner) in operators.WRITERS.items()}

    def place(line: Line) -> Place:
        path, number = where[line]
        return Place(path, number, line.text.strip())

    def blamed(line: Line) -> Line:
        return draft.blamed.get(line, line)

    def inside(line: Line, role: int) -> Line:
        return (_writer(draft.inside[line][role], where) if line in draft.inside else None) or line

    def writing(line: Line) -> Place:
        line = inside(blamed(line), 1)
        return place(next((inner for call, inner in calls.items() if inner and call in line.text), line))

    assert failing.spoiled is not None
    saving = {entry.line for entry in draft.world.entries if entry.spoiled and entry.node in below}
    spoiling = [entry.spoiled for entry in draft.world.entries if entry.spoiled and entry.node in below]
    called = [text for name, text in operators.SCRIPTED.items() if f"{name}(" in failing.spoiled.text]
    compiled = [line for line in where if line.text[:1] == " " and any(line.text in t.splitlines() for t in called)]
    needed = saving.union(map(blamed, spoiling))
    node, attribute = failing.shown or (failing.node.name(), failing.attribute)
    return Truth(
        problem,
        node,
        attribute,
        place(inside(failing.line, 0)),
        writing(failing.spoiled),
        place(draft.backward),
        tuple(dict.fromkeys(map(writing, spoiling))),
        draft.made.get(failing.line),
        draft.made.get(blamed(failing.spoiled)),
        tuple(place(line) for line, made in draft.made.items() if line not in needed and _is_decoy(made)),
        tuple(map(place, compiled)),
    )


def _is_decoy(made: Made) -> bool:
    """Whether a line of that make writes, and changes neither what needs gradients nor the shape of anything."""
    changing = ("{1}", "requires_grad", ".t_()", "squeeze_", ".set_")
    return made.template in operators.WRITES and not any(part in made.template for part in changing)


def _writer(text: str, lines: Iterable[Line]) -> Line | None:
    """The line of a definition that does what a call of it says; None where the program has no such definition."""
    return next((line for line in lines if line.text == text), None)
