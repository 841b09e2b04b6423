"""Writes one straight-line program, a line at a time, each line run as soon as it is written."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from corpus.generate import operators
from corpus.generate.choice import Choice
from corpus.generate.code import Block, Item, Line
from corpus.generate.truth import Made
from corpus.generate.world import COPY_SLICES, Entry, Node, Spent, World, broken, node_of, own_spoil, storage_of

PRELUDE = "\n".join(["import torch", *operators.IMPORTS.values(), *operators.DEFINITIONS.values()])

_TRIES = 12
_RECENT = 12
_MOST_NODES = 600


@dataclass(frozen=True)
class Draft:
    """A program before it is dressed: its items, the line whose backward pass ends it, and what was accounted for.

    `made` tells what lines were made from, `blamed` by which other line a line writes (a hook), `inside` the lines of a
    definition that save and write when a line calls it.
    """

    items: list[Item]
    loss: Line
    backward: Line
    world: World
    made: dict[Line, Made]
    blamed: dict[Line, Line]
    inside: dict[Line, tuple[str, str]]


@dataclass
class Author:
    """Draws one program. `moves` is about how many lines it gets before the loss, `faults` how many harmful ones."""

    choose: Choice
    moves: int
    faults: int
    world: World = field(default_factory=lambda: World(PRELUDE))
    items: list[Item] = field(default_factory=list)
    made: dict[Line, Made] = field(default_factory=dict)
    tensors: list[str] = field(default_factory=list)
    pickers: list[str] = field(default_factory=list)
    size: int = 2
    depth: int = 0
    forced: list[str] = field(default_factory=list)
    hidden: set[int | None] = field(default_factory=set)
    optimizers: dict[str, Made] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    blamed: dict[Line, Line] = field(default_factory=dict)
    inside: dict[Line, tuple[str, str]] = field(default_factory=dict)

    def write(self) -> Draft:
        """The whole program. Raises Spent when no loss can reach what was spoiled."""
        self.body = self.items
        self.size = self.choose.integer(2, 4)
        if self.choose.chance(50):
            self.emit(f"torch.manual_seed({self.choose.integer(0, 9)})")
        for _ in range(self.choose.integer(2, 4)):
            self.leaf()
        self.operate()
        in_backward = self.faults > 0 and self.choose.chance(8)
        due = sorted(self.choose.integer(0, self.moves) for _ in range(self.faults - in_backward))
        for number in range(self.moves + 1):
            while due and due[0] <= number:
                due.pop(0)
                self.plant()
            if number < self.moves:
                self.move()
        loss = self.loss()
        if in_backward:
            self._plant_hook()
        return Draft(self.items, loss, self.backward(loss), self.world, self.made, self.blamed, self.inside)

    # ---- lines

    def emit(self, text: str, made: Made | None = None) -> bool:
        """Run a line and keep it; False when it is refused."""
        line = Line(text)
        if not self.world.run(line):
            return False
        self.body.append(line)
        if made is not None:
            self.made[line] = made
        return True

    def name(self, wanted: str) -> str:
        """A name that is free: `wanted`, or that with a number."""
        numbered = (f"{wanted}{number}" for number in itertools.count(2))
        return next(name for name in itertools.chain((wanted,), numbered) if name not in self.world.names)

    def result(self) -> str:
        """The name for a result: most often a new one, sometimes one that is taken."""
        plain = [name for name in self.tensors if name.isidentifier() and self.node(name) is not None]
        if plain and self.choose.chance(15):
            return self.choose.one_of(plain)
        return self.name(self.choose.one_of(operators.NAMES))

    def tensor(self, expression: str) -> Any:
        """The tensor that an expression is now; None where torch forbids its use."""
        value = self.world.value(expression)
        return None if isinstance(value, torch.Tensor) and broken(value) else value

    def node(self, expression: str) -> Node:
        """The graph node that made the tensor of an expression, or None."""
        value = self.tensor(expression)
        return node_of(value) if isinstance(value, torch.Tensor) else None

    def know(self, expression: str) -> None:
        """Remember how to get at a tensor."""
        if expression not in self.tensors:
            self.tensors.append(expression)

    def usable(self) -> list[str]:
        """The expressions that still give a floating point tensor with elements."""
        return [expression for expression in self.tensors if _is_fit(self.tensor(expression))]

    def recent(self) -> list[str]:
        """The last few of the usable expressions."""
        fit = (expression for expression in reversed(self.tensors) if _is_fit(self.tensor(expression)))
        return list(itertools.islice(fit, _RECENT))

    def options(self, table: Sequence[str]) -> list[str]:
        """The templates that may be used now: of those with a scripted function, only the first call, in no loop."""
        used = [name for name in operators.SCRIPTED if self.depth or name in self.world.names]
        return [template for template in table if not any(f"{name}(" in template for name in used)]

    def fill(self, template: str, name: str = "") -> Made:
        """A template with any tensors in its holes."""
        count = len(set(re.findall(r"\{(\d)\}", template)))
        usable = self.recent()
        return Made(template, tuple(self.choose.one_of(usable) for _ in range(count)))

    # ---- moves

    def move(self) -> None:
        """One more step of the program."""
        moves: Sequence[tuple[int, Callable[[], None]]] = (
            (40, self.operate),
            (8, self.leaf),
            (12, self.look),
            (8, self.alias),
            (6, self.index),
            (14, self.touch),
            (8, self.module),
            (4, self.again),
            (4, self.hook),
            (6, self.log),
            (5, self.loop),
            (4, self.freeze),
            (4, self.train),
            (2, self.keep),
        )
        weighted = [move for weight, move in moves for _ in range(weight)]
        self.choose.one_of(weighted)()

    def leaf(self) -> None:
        """A parameter, a tensor of data, or a buffer."""
        n = self.size
        shape = self.choose.one_of((f"{n}, {n}", f"{n}, {n}", f"{n}"))
        wanted, text = self.choose.one_of(
            (
                ("w", f"torch.randn({shape}, requires_grad=True)"),
                ("weight", f"nn.Parameter(torch.rand({shape}) + 0.5)"),
                ("data", f"torch.randn({shape})"),
                ("p", f"torch.ones({shape}, requires_grad=True)"),
                ("buffer", f"torch.zeros({shape})"),
                ("scale", f"torch.full(({shape},), 0.5, requires_grad=True)"),
            )
        )
        name = self.name(wanted)
        if not any(isinstance(v, torch.Tensor) and v.requires_grad for v in map(self.tensor, self.tensors)):
            text = f"torch.randn({n}, {n}, requires_grad=True)"
        if self.emit(f"{name} = {text}"):
            self.know(name)

    def operate(self) -> None:
        """A new tensor out of known ones."""
        for _ in range(_TRIES):
            table = self.choose.one_of((operators.UNARY, operators.UNARY, operators.BINARY))
            made = self.fill(self.choose.one_of(self.options(table)))
            name, memory = self.result(), storage_of(self.tensor(made.holes[0]))
            if self.emit(f"{name} = {made.template.format(*made.holes)}", made):
                self.know(name)
                if "use_reentrant=False" in made.template:
                    self._keeps(memory)
                return

    def _keeps(self, memory: int | None) -> None:
        """What the last line saved is computed again when it is needed, out of an input with that memory."""
        for entry in self.world.entries:
            if entry.line is self.body[-1]:
                entry.storage = memory

    def look(self) -> None:
        """A view."""
        for _ in range(_TRIES):
            made = self.fill(self.choose.one_of(operators.VIEWS))
            name = self.name("view")
            if self.emit(f"{name} = {made.template.format(*made.holes)}", made):
                self.know(name)
                return

    def index(self) -> None:
        """A new tensor picked out by an index or a mask that has a name of its own."""
        for _ in range(_TRIES):
            source = self.choose.one_of(self.recent())
            kind, text, template = self.choose.one_of(operators.PICKS)
            picker, name = self.name(kind), self.result()
            count = len(self.body)
            if self.emit(f"{picker} = {text.format(source)}"):
                if self.emit(f"{name} = {template.format(source, picker)}", Made(template, (source, picker))):
                    self.know(name)
                    self.pickers.append(picker)
                    return
                del self.body[count:], self.world.names[picker]

    def alias(self) -> None:
        """Another way to get at a tensor: by a list, a dictionary, an attribute, a name, a closure."""
        target = self.choose.one_of(self.recent())
        kind = self.choose.integer(0, 4)
        name = self.name(("cache", "batch", "holder", "alias", "get")[kind])
        text, access = (
            (f"[{target}]", f"{name}[0]"),
            (f"{{'h': {target}}}", f"{name}['h']"),
            (f"SimpleNamespace(h={target})", f"{name}.h"),
            (target, name),
            (f"lambda kept={target}: kept", f"{name}()"),
        )[kind]
        if self.emit(f"{name} = {text}"):
            self.know(access)

    def module(self) -> None:
        """A module, built and called."""
        for _ in range(_TRIES):
            made = self.choose.one_of(operators.MODULES).format(n=self.size)
            layer = self.name("layer")
            inner = self.choose.one_of(self.recent())
            if ("inplace" in made and self.touches(self.tensor(inner))) or ("Scaler" in made and self.depth):
                continue
            count = len(self.body)
            if not self.emit(f"{layer} = {made}"):
                continue
            second = f", {self.choose.one_of(self.recent())}" if "Bilinear" in made else ""
            name = self.result()
            query = f", {inner}, {inner}" if "Attention" in made else ""
            item = "[0]" if "LSTM" in made or "GRU(" in made or "Attention" in made else ""
            call = Made(f"{made}({{0}}){item}", (inner,))
            if self.emit(f"{name} = {layer}({inner}{second}{query}){item}", None if second or query else call):
                self.know(name)
                self._built(layer, made)
                for part, _ in self.tensor(layer).named_parameters():
                    if "parametrizations" not in part:
                        self.know(f"{layer}.{part}" if not part[0].isdigit() else f"{layer}[{part[0]}]{part[1:]}")
                return
            del self.body[count:], self.world.names[layer]

    def _built(self, layer: str, made: str) -> None:
        """The last line has called a module; remember what it is."""
        self.layers[layer] = made
        inner = operators.INSIDE.get(made.partition("(")[0])
        line = self.body[-1]
        if inner is not None and isinstance(line, Line):
            self.inside[line] = inner

    def again(self) -> None:
        """A module called once more."""
        calm = [
            n for n, made in self.layers.items() if all(part not in made for part in ("inplace", "Scaler", "Bilinear"))
        ]
        if calm:
            layer, name = self.choose.one_of(calm), self.result()
            item = "[0]" if isinstance(self.world.value(layer), (torch.nn.LSTMCell, torch.nn.GRU)) else ""
            if self.emit(f"{name} = {layer}({self.choose.one_of(self.recent())}){item}"):
                self.know(name)

    def hook(self) -> None:
        """A hook that harms nothing."""
        # torch crashes on a hook for a view that was written without gradients
        graph = [e for e in self.recent() if self.tensor(e).requires_grad and not self.tensor(e)._is_view()]
        layers = [name for name, made in self.layers.items() if "inplace" not in made]
        if layers and self.choose.chance(30):
            hook = "register_forward_hook(lambda module, inputs, output: print(tuple(inputs[0].shape)))"
            self.emit(f"{self.choose.one_of(layers)}.{hook}")
        elif graph:
            form = self.choose.one_of(
                (
                    "{}.register_hook(lambda grad: grad * 0.5)",
                    "{}.register_hook(lambda grad: print('grad', grad.shape))",
                    "{}.register_hook(lambda grad: grad.clone().clamp_(-1, 1))",
                    "{}.retain_grad()",
                )
            )
            self.emit(form.format(self.choose.one_of(graph)))

    def touch(self) -> None:
        """A write that harms nothing: to a tensor that nothing good was saved of, or past the version counter."""
        for _ in range(_TRIES):
            made = self.fill(self.choose.one_of(self.options(operators.WRITES)))
            written = made.holes if "_foreach_" in made.template else made.holes[:1]
            if ".data" not in made.template and any(self.touches(self.tensor(hole)) for hole in written):
                continue
            memories = [storage_of(self.tensor(hole)) for hole in made.holes]
            again = self.depth or memories[0] in memories[1:]
            if again and self.tensor(made.holes[0])._is_view():
                continue  # the node hides what it saves, and that is written at once or in the next turn
            if self.emit(made.template.format(*made.holes), made):
                target = self.tensor(made.holes[0])
                # in a loop, a second line that writes to it is one too many; in new memory, nobody knows what was saved
                if isinstance(target, torch.Tensor) and (
                    target._is_view() or self.depth or storage_of(target) != memories[0]
                ):
                    self.hidden.update((storage_of(target), *memories))
                return

    def freeze(self) -> None:
        """A few lines under `no_grad`, among them a write that harms nothing."""
        block = Block(Line(self.choose.one_of(("with torch.no_grad():", "with torch.enable_grad():"))))
        outer, self.body = self.body, block.body
        with next(self.world.turns(block.header)):
            self.touch()
            if self.choose.chance(30):
                self.operate()
        self.body = outer
        if block.body:
            self.body.append(block)

    def loop(self) -> None:
        """A loop: its first turn is written, the others follow."""
        if self.depth:
            return
        variable = self.name("step")
        turns = self.choose.integer(1, 3)
        block = Block(Line(f"for {variable} in range({turns}):"))
        outer, self.body = self.body, block.body
        self.world.names[variable] = 0
        self.depth += 1
        for _ in range(self.choose.integer(1, 6)):
            self.move()
        if self.choose.chance(20) and self.faults:
            self.plant()
        self.depth -= 1
        self.body = outer
        if not block.body:
            return
        self.body.append(block)
        for turn in range(1, turns):
            self.world.names[variable] = turn
            for inner in block.body:
                if not self.world.run(inner):
                    raise Spent("a later turn of a loop fails")
            if len(self.world.entries) > _MOST_NODES:
                raise Spent("the graph grows too large")

    def train(self) -> None:
        """An optimizer's step on a small graph of its own."""
        leaves = [
            e
            for e in self.usable()
            if self.tensor(e).is_leaf and self.tensor(e).requires_grad and not self.touches(self.tensor(e))
        ]
        if not leaves:
            return
        leaf = self.choose.one_of(leaves)
        kind = self.choose.one_of(
            (
                "SGD({}, lr=0.1)",
                "Adam({}, lr=0.01)",
                "SGD({}, lr=0.1, momentum=0.9)",
                "AdamW({})",
                "SGD({}, lr=0.1, foreach=True)",
                "RMSprop({}, foreach=True)",
                "Adagrad({})",
            )
        )
        optimizer = self.name("optimizer")
        if not self.emit(f"{optimizer} = torch.optim.{kind.format(f'[{leaf}]')}"):
            return
        self.optimizers[optimizer] = Made(f"torch.optim.{kind.format('[{0}]')}.step()", (leaf,))
        self.emit(f"{optimizer}.zero_grad()")
        self.emit(f"{leaf}.pow(2).sum().backward()")
        self.emit(f"{optimizer}.step()")

    def keep(self) -> None:
        """A backward pass that keeps its graph."""
        roots = [e for e in self.usable() if self.node(e) is not None]
        for expression in self.choose.shuffled(roots)[:3]:
            below = self.world.below(self.tensor(expression))
            if all(entry.spoiled is None for entry in self.world.entries if entry.node in below):
                self.emit(f"{expression}.sum().backward(retain_graph=True)")
                return

    def log(self) -> None:
        """A line that only talks."""
        target = self.choose.one_of(self.recent())
        self.emit(
            self.choose.one_of(
                (
                    f"print('{target.split('[')[0]}', tuple({target}.shape))",
                    f"print(f'mean {{{target.split('[')[0]}}}'[:40])",
                    f"assert {target}.numel() > 0",
                    f"norm = {target}.detach().norm().item()",
                    f"print(float({target}.detach().sum()))",
                )
            )
        )

    # ---- the fault

    def touches(self, tensor: torch.Tensor) -> bool:
        """Whether something was saved of the memory of `tensor`, spoiled since or not."""
        known = any(self.world.shares(entry, tensor) for entry in self.world.entries)
        return known or storage_of(tensor) in self.hidden

    def good(self, tensor: torch.Tensor) -> bool:
        """Whether something was saved of the memory of `tensor` and nothing of it is spoiled."""
        sharing = [entry for entry in self.world.entries if self.world.shares(entry, tensor)]
        calm = all(entry.spoiled is None for entry in sharing) and storage_of(tensor) not in self.hidden
        return bool(sharing) and calm

    def plant(self) -> None:
        """A write that spoils what a reachable node has saved."""
        before = {entry for entry in self.world.entries if entry.spoiled}
        if self.choose.chance(15) and self._plant_binding(before):
            return
        if not self.depth and self.choose.chance(15) and self._plant_hidden():
            return  # in a loop, each turn would leave a node of its own
        if self.choose.chance(10) and self._plant_module_hook(before):
            return
        if not self.depth and self.choose.chance(10) and self._plant_segment():
            return
        if self.choose.chance(50) and self._plant_call(before):
            return
        usable = self.usable()
        seen = [e for e in usable if storage_of(self.tensor(e)) not in self.hidden]
        targets = [e for e in (*seen, *self.pickers) if self.good(self.tensor(e))]
        for target in self.choose.shuffled(targets)[:8]:
            table = operators.PICKER_WRITES if target in self.pickers else operators.WRITES
            for template in self.choose.shuffled(self.options(table))[:8]:
                others = [self.choose.one_of(seen)] if "{1}" in template else []
                made = Made(template, (target, *others))
                text = template.format(*made.holes)
                value = self.tensor(target)
                if not isinstance(value, torch.Tensor):
                    break  # an earlier try has made it unusable
                frozen = value.is_leaf and value.requires_grad
                if self.optimizers and frozen and self.choose.chance(50):
                    name, made = self.choose.one_of(list(self.optimizers.items()))
                    text, frozen = f"{name}.step()", False
                if (self._frozen(text, made) if frozen else self.emit(text, made)) and self._spoiled(before):
                    return

    def _frozen(self, text: str, made: Made) -> bool:
        line = Line(text)
        block = Block(Line("with torch.no_grad():"), [line])
        if not self.world.run(block):
            return False
        self.body.append(block)
        self.made[line] = made
        return True

    def _plant_binding(self, before: set[Entry]) -> bool:
        for template in self.choose.shuffled(operators.WRITING)[:4]:
            made = self.fill(template)
            if storage_of(self.tensor(made.holes[0])) in self.hidden:
                continue
            name = self.name(self.choose.one_of(operators.NAMES))
            if self.emit(template.format(*made.holes, name=name), made):
                self.know(name)
                if self._spoiled(before):
                    self.hidden.add(storage_of(self.tensor(name)))
                    return True
        return False

    def _plant_hidden(self) -> bool:
        """A write to a view, whose node hides what it saves, and later a write to that."""
        base, other = self.name("grid"), self.name("gain")
        form, target = self.choose.one_of(operators.HIDING)
        sources = [e for e in self.recent() if self.tensor(e).dim() and self.node(e) is not None]
        if not sources or not self.emit(f"{base} = {self.choose.one_of(sources)}.clone()"):
            return False
        if target == "other" and not self.emit(f"{other} = torch.rand(1, requires_grad=True) + 0.5"):
            return False
        if not self.emit(form.format(base=base, other=other)):
            return False
        saving, node = self.body[-1], self.node(base)
        assert isinstance(saving, Line)
        if node is None or node.name() != COPY_SLICES:
            return False
        for _ in range(self.choose.integer(0, 2)):
            self.operate()
        if target == "itself":
            self._hide(base, node, saving, saving)
            self.made[saving] = Made(form.replace("{base}", "{0}"), (base,))
            return True
        made = Made(self.choose.one_of(("{0} += 1", "{0}.mul_(2)", "{0}.zero_()", "{0}.clamp_(min=0)")), ())
        if not self.emit(made.template.format({"other": other, "base": base}[target])):
            return False
        writing = self.body[-1]
        assert isinstance(writing, Line)
        self._hide(base, node, saving, writing)
        self.hidden.add(storage_of(self.tensor({"other": other, "base": base}[target])))
        return True

    def _hide(self, name: str, node: Node, saving: Line, writing: Line, shown: tuple[str, str] | None = None) -> None:
        """What a node hides that `name` depends on is spoiled; the loss must reach it."""
        self.world.entries.append(Entry(node, "", saving, None, writing, shown=shown))
        self.know(name)
        self.hidden.add(storage_of(self.tensor(name)))
        self.forced.append(name)

    def _plant_segment(self) -> bool:
        """A checkpointed segment that spoils what it saves: it fails as backward computes it again."""
        sources = [e for e in self.recent() if self.tensor(e).requires_grad]
        if not sources:
            return False
        segment, source, name = self.choose.one_of(operators.SEGMENTS), self.choose.one_of(sources), self.name("z")
        if not self.emit(f"{name} = checkpoint({segment}, {source}, use_reentrant=True)"):
            return False
        line, again = self.body[-1], self.world.value(f"({segment})({source}.detach().requires_grad_())")
        shown = own_spoil(again) if isinstance(again, torch.Tensor) else None
        if shown is None:
            raise Spent("a segment cannot be computed again")
        assert isinstance(line, Line)
        self._hide(name, self.node(name), line, line, shown)
        return True

    def _plant_module_hook(self, before: set[Entry]) -> bool:
        """A hook on a module's call that writes to what comes out."""
        made, (hook, plain) = (
            self.choose.one_of(operators.HOOKED),
            self.choose.one_of(tuple(operators.MODULE_HOOKS.items())),
        )
        layer, source = self.name("layer"), self.choose.one_of(self.recent())
        if not self.emit(f"{layer} = {made}") or not self.emit(f"{layer}.register_forward_hook({hook})"):
            return False
        registered, name = self.body[-1], self.name("y")
        if not self.emit(f"{name} = {layer}({source})"):
            return False
        self.know(name)
        line = self.body[-1]
        assert isinstance(line, Line) and isinstance(registered, Line)
        self.blamed[line] = registered
        self.made[registered] = Made(plain, (name,))
        self.hidden.add(storage_of(self.tensor(name)))
        return self._spoiled(before)

    def _plant_call(self, before: set[Entry]) -> bool:
        """A second call of a module that writes to the buffer which its first call saved."""
        layers = [n for n, made in self.layers.items() if "Scaler" in made and self.good(self.tensor(f"{n}.running"))]
        if not layers or self.depth:
            return False
        layer, name = self.choose.one_of(layers), self.name("y")
        if not self.emit(f"{name} = {layer}({self.choose.one_of(self.recent())})"):
            return False
        self.know(name)
        self._built(layer, self.layers[layer])
        return self._spoiled(before)

    def _plant_hook(self) -> None:
        """A tensor's hook that writes, while the backward pass runs, to what a node below that tensor has saved."""
        nodes = self.world.below(self.world.names["loss"])
        roots = [e for e in self.usable() if self.node(e) in nodes and not self.tensor(e)._is_view()]
        for root in self.choose.shuffled(roots)[:6]:
            through = self.node(root)
            later = [
                e for e in self.world.entries if not e.spoiled and e.node in nodes and e.order <= through._sequence_nr()
            ]
            targets = [e for e in (*self.usable(), *self.pickers) if self._caught(later, e)]
            if targets:
                target = self.choose.one_of(targets)
                hook, plain = self.choose.one_of(tuple(operators.HOOKS.items()))
                if self.emit(f"{root}.register_hook({hook.format(target)})", Made(plain, (target,))):
                    line = self.body[-1]
                    assert isinstance(line, Line)
                    for entry in self._caught(later, target):
                        entry.spoiled, entry.through = line, through
                    return

    def _caught(self, entries: Sequence[Entry], target: str) -> list[Entry]:
        """Those of the saved tensors that a write to `target` would spoil."""
        tensor = self.tensor(target)
        return [e for e in entries if isinstance(tensor, torch.Tensor) and self.world.shares(e, tensor)]

    def _spoiled(self, before: set[Entry]) -> bool:
        return any(entry.spoiled for entry in self.world.entries if entry not in before)

    # ---- the end

    def loss(self) -> Line:
        """The line that adds up a loss which reaches what was spoiled, if anything was."""
        spoiled = {entry.node for entry in self.world.entries if entry.spoiled}
        graph = [e for e in self.usable() if self.node(e) is not None or self.tensor(e).requires_grad]
        reaching = [e for e in graph if self.world.below(self.tensor(e)) & spoiled]
        clean = [e for e in graph if e not in reaching]
        chosen = [self.choose.one_of([e for e in reaching if e in self.forced] or reaching)] if reaching else []
        chosen += self.choose.shuffled(clean)[: self.choose.integer(0 if reaching else 1, 3)]
        for _ in range(_TRIES):
            terms = [self.choose.one_of(operators.REDUCTIONS).format(e) for e in self.choose.shuffled(chosen)]
            if self.emit(f"loss = {' + '.join(terms)}"):
                loss = self.world.names["loss"]
                if loss.grad_fn is None:
                    break
                line = self.body[-1]
                assert isinstance(line, Line)
                return line
        raise Spent("no loss needs a gradient")

    def backward(self, loss: Line) -> Line:
        """The line that runs the last backward pass; it is not run here."""
        leaves = [
            e for e in self.tensors if isinstance(v := self.tensor(e), torch.Tensor) and v.is_leaf and v.requires_grad
        ]
        text = self.choose.one_of(
            (
                "loss.backward()",
                "loss.backward()",
                "torch.autograd.backward(loss)",
                f"grads = torch.autograd.grad(loss, [{', '.join(leaves[:6])}], allow_unused=True)",
            )
        )
        line = Line(text)
        if self.choose.chance(15):
            swallow = Block(Line("except RuntimeError as error:"), [Line("print('failed:', error)")])
            self.items.append(Block(Line("try:"), [line], [swallow]))
        else:
            self.items.append(line)
        return line


def _is_fit(value: Any) -> bool:
    """Whether a value is a tensor to compute with, and not too large."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and 0 < value.numel() < 400
