"""Dresses a straight-line program as a script, without changing what runs in which order.

Stretches of code become functions, methods of modules and closures; blocks and talk are put around and in between. The
lines themselves stay the same objects, so whoever knows a line still finds it.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from corpus.generate import operators
from corpus.generate.choice import Choice
from corpus.generate.code import Block, Item, Line, lines_of, mentioned, names, parsed, renamed, render

_NEVER_MOVED = ("import ", "from ", "optimizer")
_FUNCTIONS = ("forward_step", "encode", "mix", "update", "project", "attend", "decode", "prepare")
_CLASSES = ("Net", "Encoder", "Block", "Head", "Mixer")
_SHARED = {
    "torch",
    *operators.IMPORTS,
    *operators.DEFINITIONS,
    *operators.SCRIPTED,
    "argparse",
    "print",
    "float",
    "tuple",
    "range",
    "map",
    "list",
    "setattr",
}


@dataclass
class Wardrobe:
    """A program while it is being dressed: `front` goes before `body`, all of it at the top level of the script.

    `argv` is what it is to be called with.
    """

    choose: Choice
    imports: list[Item]
    front: list[Item]
    body: list[Item]
    globals: set[str] = field(default_factory=lambda: set(_SHARED))
    argv: list[str] = field(default_factory=list)

    def script(self) -> list[Item]:
        """The whole program."""
        return [*self.front, *self.body]

    def fresh(self, options: Sequence[str]) -> str:
        """A name that nothing has."""
        wanted = self.choose.one_of(options)
        taken = mentioned(self.script()) | self.globals | set(keyword.kwlist)
        name = next(n for n in (wanted, *(f"{wanted}{number}" for number in range(2, 99))) if n not in taken)
        self.globals.add(name)
        return name

    # ---- which stretch

    def levels(self) -> Iterator[list[Item]]:
        """The lists of items that a stretch can be taken from."""
        todo: list[list[Item]] = [self.body]
        while todo:
            level = todo.pop()
            yield level
            todo += [
                item.body for item in level if isinstance(item, Block) and item.header.text.startswith(("for", "with"))
            ]

    def stretch(self) -> tuple[list[Item], int, int] | None:
        """A level and the bounds of a few items in it that can be moved together; None when there is none."""
        level = self.choose.one_of(list(self.levels()))
        runs: list[tuple[int, int]] = []
        start = 0
        for index in range(len(level) + 1):
            if index == len(level) or not _movable(level[index]):
                if index - start >= 1:
                    runs.append((start, index))
                start = index + 1
        if not runs:
            return None
        low, high = self.choose.one_of(runs)
        first = self.choose.integer(low, high - 1)
        last = self.choose.integer(first + 1, min(high, first + 12))
        return level, first, last

    def outside(self, level: list[Item], first: int, last: int) -> set[str]:
        """The names that are mentioned anywhere but in a stretch."""
        taken = level[first:last]
        level[first:last] = [Line("pass")]
        found = mentioned(self.script())
        level[first : first + 1] = taken
        return found

    # ---- what becomes of it

    def function(self) -> None:
        """A stretch becomes a function at the top level, called where it stood."""
        chosen = self.stretch()
        if chosen is None:
            return
        level, first, last = chosen
        body = level[first:last]
        used = names(body)
        given = [name for name in used.needs if name not in self.globals]
        results = [name for name in used.binds if name in self.outside(level, first, last)]
        name = self.fresh(_FUNCTIONS)
        definition = Block(Line(f"def {name}({', '.join(given)}):"), self.talk(name) + body)
        if results:
            definition.body.append(Line(f"return {', '.join(results)}"))
        self.front += [Line(""), definition, Line("")]
        call = f"{name}({', '.join(given)})"
        level[first:last] = [Line(f"{', '.join(results)} = {call}" if results else call)]

    def closure(self) -> None:
        """A stretch becomes a function without parameters, defined where it stood."""
        chosen = self.stretch()
        if chosen is None:
            return
        level, first, last = chosen
        body = level[first:last]
        used = names(body)
        if set(used.needs) & set(used.binds):
            return
        results = [name for name in used.binds if name in self.outside(level, first, last)]
        name = self.fresh(("closure", "run", "compute"))
        definition = Block(Line(f"def {name}():"), list(body))
        if results:
            definition.body.append(Line(f"return {', '.join(results)}"))
        level[first:last] = [definition, Line(f"{', '.join(results)} = {name}()" if results else f"{name}()")]

    def method(self) -> None:
        """A stretch becomes the forward pass of a module, which owns the parameters that it uses."""
        chosen = self.stretch()
        if chosen is None:
            return
        level, first, last = chosen
        if level is not self.body:
            return
        body = level[first:last]
        used = names(body)
        own = [line for line in level[:first] if isinstance(line, Line) and self._ownable(line, used.needs)]
        own = own[: self.choose.integer(0, 3)]
        results = [name for name in used.binds if name in self.outside(level, first, last)]
        kind = self.fresh(_CLASSES)
        instance = self.fresh((kind.lower(),))
        given = [
            name for name in used.needs if name not in self.globals and name not in {_target(line) for line in own}
        ]
        call = f"{instance}({', '.join(given)})"
        level[first:last] = [Line(f"{', '.join(results)} = {call}" if results else call)]
        forward = Block(Line(f"def forward({', '.join(['self', *given])}):"), self.talk(kind) + body)
        if results:
            forward.body.append(Line(f"return {', '.join(results)}"))
        place = level.index(own[0]) if own else 0
        level.insert(place, Line(f"{instance} = {kind}()"))
        for line in own:
            level.remove(line)
            name = _target(line)
            for inner, _ in lines_of(self.body):
                renamed(inner, name, f"{instance}.{name}")
            for inner, _ in lines_of(forward.body):
                renamed(inner, name, f"self.{name}")
            line.text = f"self.{line.text}"
        start = Block(Line("def __init__(self):"), [Line("super().__init__()"), *own])
        self.front += [Line(""), Block(Line(f"class {kind}(torch.nn.Module):"), [start, Line(""), forward]), Line("")]

    def _ownable(self, line: Line, needs: Sequence[str]) -> bool:
        """Whether a line makes, out of nothing, a parameter or a layer that a stretch needs; bound once in all."""
        name = _target(line)
        if name not in needs or names([line]).needs not in (("torch",), ("nn",), ("nn", "torch")):
            return False
        return sum(name in names([item]).binds for item in self.body) == 1

    def around(self) -> None:
        """A stretch gets a block around it that changes nothing."""
        chosen = self.stretch()
        if chosen is None:
            return
        level, first, last = chosen
        header = self.choose.one_of(
            (
                "if True:",
                "for _ in range(1):",
                "with torch.enable_grad():",
                "if torch.is_grad_enabled():",
                "while True:",
            )
        )
        if header != "for _ in range(1):" and level is not self.body:
            return  # elsewhere gradients may be off
        body = level[first:last]
        if header == "while True:":
            body = [*body, Line("break")]
        level[first:last] = [Block(Line(header), body)]

    def dead(self) -> None:
        """Code that never runs: an unused function, a branch not taken."""
        if self.choose.chance(50):
            name = self.fresh(("evaluate", "save", "plot", "report"))
            self.front += [
                *parsed(f"\ndef {name}(model, path='out.txt'):\n    scores = []\n    for i in range(10):"),
                *(parsed("        scores.append(model(i))\n        scores[-1] += 1\n    return scores\n")),
            ]
            return
        place = self.choose.integer(0, len(self.body) - 1)
        self.body.insert(
            place, Block(Line("if torch.cuda.is_available() and False:"), [Line("torch.zeros(3).cuda().add_(1)")])
        )

    def settings(self) -> None:
        """Arguments and a table of settings, as scripts begin."""
        name = self.fresh(("config", "args", "settings"))
        self.body.insert(0, Line(f"{name} = dict(lr=0.1, epochs=3, name='run', verbose=False)"))
        self.body.insert(1, Block(Line(f"if {name}['verbose']:"), [Line(f"print({name})")]))

    def arguments(self) -> None:
        """Numbers come from the command line: the seed, and how often loops turn."""
        if self.argv:
            return
        parser, name = self.fresh(("parser", "cli")), self.fresh(("args", "options", "opt"))
        start: list[Item] = [Line(f"{parser} = argparse.ArgumentParser()")]
        forms = (("torch.manual_seed(", ")", "seed"), ("for ", "):", "steps"))
        for level in self.levels():
            for item in level:
                line = item.header if isinstance(item, Block) else item
                for opening, closing, option in forms:
                    head, _, number = line.text.removesuffix(closing).rpartition("(")
                    if line.text.startswith(opening) and head.endswith(("seed", " in range")) and number.isdigit():
                        flag = f"--{option}{len(self.argv) or ''}"
                        line.text = f"{head}({name}.{flag[2:]}{closing}"
                        start.append(Line(f"{parser}.add_argument('{flag}', type=int, default=1)"))
                        self.argv.append(f"{flag}={number}")
        start.append(Line(f"{parser}.add_argument('--lr', type=float, default=0.1)"))
        self.argv += ["--lr", "0.01"]
        self.imports.append(Line("import argparse"))
        self.body[:0] = [*start, Line(f"{name} = {parser}.parse_args()")]

    def main(self) -> None:
        """Everything below the imports becomes a function that is called at the end."""
        name = self.fresh(("main", "train"))
        body = list(self.body)
        self.body[:] = [Block(Line(f"def {name}():"), body), Line(""), Line("")]
        self.body.append(Block(Line("if __name__ == '__main__':"), [Line(f"{name}()")]))

    def talk(self, name: str) -> list[Item]:
        """A docstring, a comment, or nothing."""
        options: list[list[Item]] = [[], [Line(f'"""Part of the model: {name}."""')], [Line("# as in the paper")]]
        return self.choose.one_of(options)


def dress(choose: Choice, imports: list[Item], definitions: list[Item], body: list[Item]) -> Wardrobe:
    """A script of these imports, definitions and body, some stretches of the body in functions, methods, blocks."""
    wardrobe = Wardrobe(choose, imports, definitions, body)
    steps = (
        [wardrobe.function] * 4
        + [wardrobe.method] * 4
        + [wardrobe.closure] * 2
        + [wardrobe.around] * 3
        + [wardrobe.dead, wardrobe.settings, wardrobe.arguments]
    )
    for _ in range(choose.integer(0, 2 + len(body) // 8)):
        choose.one_of(steps)()
    if choose.chance(25):
        wardrobe.main()
    return wardrobe


def _movable(item: Item) -> bool:
    text = render([item])
    if isinstance(item, Block) and item.header.text.startswith(("try", "except", "def", "if __name__")):
        return False
    return not text.startswith(_NEVER_MOVED) and "backward" not in text and ".grad(" not in text and text.strip() != ""


def _target(line: Line) -> str:
    """The name that a plain assignment binds; empty for any other line."""
    name, equals, _ = line.text.partition(" = ")
    return name if equals and name.isidentifier() else ""
