"""Writes, from what the trace knows, the few small programs that keep only what saved, changed and needed the tensor.

Most of a training script only makes values. The second run (`runtime/capture.py`) knows them: what went into the
torch call that saved the tensor, and which values the names of the changing statement had. So the changing statement
is kept as the user wrote it, with every value that it reads replaced by a simple stand-in; the saving call is written
anew from its arguments; and `.sum().backward()` needs the result. What shares memory in the script shares it here.

Each program is a candidate like any other: the oracle decides. Where none holds, the passes do all the work.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

import libcst as cst

from shrinkrepro.diagnosis import Diagnosis, diagnose
from shrinkrepro.facts import Facts
from shrinkrepro.failure import parse
from shrinkrepro.isolation.workers import Workers
from shrinkrepro.oracle import job_for
from shrinkrepro.program.check import invalid
from shrinkrepro.program.edit import Conflict, Edit, Patch, Piece
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree
from shrinkrepro.runtime.messages import Call, Limits, Moments, Place, Seen, TensorValue, Trace, Value
from shrinkrepro.runtime.naming import function_of, snake

Line = tuple[Piece, ...]
_Drafting = Callable[["Facts", "Trace", "Moments", "Style"], Patch]

# Autocast casts between these for a call, so what the call is seen to get need not fit together without it.
_FLOATING = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")

# What PyTorch's message calls the maker of a view whose base was written.
_VIEWS = ("AsStrided", "View", "Slice", "Select")


def guesses(program: Program, trace: Trace, workers: Workers, limits: Limits) -> list[list[Program]]:
    """The distilled variants of a program, in groups as `candidates` says, after the run that sees the values.

    There are none when `trace`, which a traced run of the program gave, does not say which calls matter, or when the
    second run did not come by there.
    """
    diagnosis = diagnose(trace, dict(program.texts))
    wanted = hint(trace, diagnosis)
    if wanted is None:
        return []
    moments = workers.run(replace(job_for(program, "capture", limits), hint=wanted)).moments
    if moments is None:
        return []
    return candidates(Facts(program, diagnosis, lambda: None), trace, moments, diagnosis.failure.operator)


def hint(trace: Trace, diagnosis: Diagnosis) -> dict[str, Any] | None:
    """What the capturing run must know: which calls saved and changed the tensor, and their statements.

    None when either is unknown, or was not seen as a torch call: there is nothing to capture then.
    """
    saved, culprit = diagnosis.saved, diagnosis.culprit
    if trace.saved is None or saved is None or culprit is None or not trace.mutations[0].place.step:
        return None
    return {
        "saved": [trace.saved.operator, trace.saved.step],
        "changed": [trace.mutations[0].place.operator, trace.mutations[0].place.step],
        "saving": [saved.file, saved.line, saved.end_line],
        "changing": [culprit.file, culprit.line, culprit.end_line],
    }


@dataclass(frozen=True)
class Style:
    """The choices that make one variant.

    `ones`: every dimension has size 1. `method`: the saving call is written as a method of its first argument. `maker`:
    what made the written tensor, an expression with a hole ("{} * 1").
    """

    ones: bool
    method: bool
    maker: str


def candidates(facts: Facts, trace: Trace, moments: Moments, operator: str | None) -> list[list[Program]]:
    """The distilled variants of the program, most promising first; at most ten, in groups.

    Those of the first group save the tensor by the torch call itself, by the user's statement, or, where neither can be
    written, by the node's name or with the changing call written anew as well. Those of the second save it by one of
    PyTorch's modules. Which becomes smaller is for the passes to find out.
    `operator` is the one that PyTorch's message names: where it is the maker of the tensor, a stand-in made by another
    operator would give another message.
    """

    def programs(drafts: Sequence[_Drafting], most: int) -> list[Program]:
        return list(islice(_programs(facts, _patches(facts, trace, moments, operator, drafts)), most))

    first = programs((_from_call, _from_statements), 5)
    last = programs((_between_calls,), 2) + programs((_from_node,), 2)
    return [first + [program for program in last if program not in first], programs((_from_module,), 1)]


def _programs(facts: Facts, patches: Iterable[Patch]) -> Iterator[Program]:
    """The programs that the patches make, each text once, without the files that are no longer needed."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    for patch in patches:
        try:
            program = patch.apply(facts.program)
        except Conflict:
            continue
        entry = program.invocation.entry
        program = program.without({file.path for file in program if file.path != entry})
        if program.texts not in seen and invalid(program) is None:
            seen.add(program.texts)
            yield program


def _patches(
    facts: Facts, trace: Trace, moments: Moments, operator: str | None, drafts: Sequence[_Drafting]
) -> Iterator[Patch]:
    if facts.culprit is None or not trace.mutations or not trace.mutations[0].place.stack:
        return
    for (maker, ones), draft, method in product(_manners(operator), drafts, (True, False)):
        try:
            yield draft(facts, trace, moments, Style(ones, method, maker))
        except _Unwritable:
            continue


def _manners(operator: str | None) -> list[tuple[str, bool]]:
    """Ways to make the written tensor, each with all sizes 1 and with the real ones."""
    makers = ["{} * 1"]
    if operator in _VIEWS:
        makers.insert(0, "({} * 1)[:]")
    elif operator and operator.isidentifier() and operator not in ("Mul", "Add", "Sub", "Div"):
        makers.append("{}." + snake(operator) + "()")
    return list(product(makers, (True, False)))


class _Unwritable(Exception):
    """A value has no simple stand-in."""


def _from_call(facts: Facts, trace: Trace, moments: Moments, style: Style) -> Patch:
    """The saving call written from its arguments, then the changing statement, then backward from the call's result."""
    call = moments.saved
    operator = trace.saved.operator if trace.saved else None
    if call is None or call.function.rpartition(".")[2] != operator:  # a custom Function is no torch call
        raise _Unwritable("the saving call is not known")
    if _is_one_call(trace):
        raise _Unwritable("the changing statement makes the saving call")
    draft = _Draft.of(facts, trace, moments, style, _passing(call))
    draft.change()
    return draft.patch(draft.save(call, draft.changed))


def _is_one_call(trace: Trace) -> bool:
    """Whether the call that saved the tensor is the one that changed it."""
    change = trace.mutations[0].place
    return trace.saved is not None and (trace.saved.operator, trace.saved.step) == (change.operator, change.step)


def _between_calls(facts: Facts, trace: Trace, moments: Moments, style: Style) -> Patch:
    """Both calls written from their arguments: for a statement that writes from deep inside the user's own objects."""
    saved, change = moments.saved, moments.change
    if saved is None or change is None or not change.function or not saved.function:
        raise _Unwritable("one of the calls is not known")
    draft = _Draft.of(facts, trace, moments, style, _passing(saved))
    draft.names.add(draft.written_name)
    result = draft.save(saved, _tensors(_given(change)))
    draft.changing.append((draft.writing(change),))
    return draft.patch(result, moments.grad_change)


def _from_statements(facts: Facts, trace: Trace, moments: Moments, style: Style) -> Patch:
    """Both statements as the user wrote them, or the changing one alone where it is also the one that saves."""
    if not style.method:
        raise _Unwritable("nothing here is written as a call of ours")
    saving, culprit = facts.saving, facts.culprit
    if saving is None or culprit is None or trace.saved is None:
        raise _Unwritable("the saving statement is not known")
    seen = [item.value for item in moments.saving]
    used = bool(_storages(seen) & frozenset(moments.written))  # else the tensor is what the saving statement makes
    draft = _Draft.of(facts, trace, moments, style, seen if used else [])
    if saving.node is culprit.node:
        target = draft.change(keep_result=True)
        if target is None:
            raise _Unwritable("the statement has no result")
        if used:
            draft.define_written([*_tensors(seen), *draft.changed])
        return draft.patch(target)
    draft.change()
    if used:
        draft.define_written([*_tensors(seen), *draft.changed])
    pieces = draft.expression(saving, moments.saving)
    if used and _writes(trace.saved.operator):
        draft.saving.append(pieces)
        return draft.patch(draft.written_name)
    name = draft.fresh("y") if used else draft.written_name
    draft.saving.append((f"{name} = ", *pieces))
    return draft.patch(name)


def _from_module(facts: Facts, trace: Trace, moments: Moments, style: Style) -> Patch:
    """The tensor saved by one of PyTorch's modules, as its input or as a parameter of it."""
    call = moments.saved
    if not style.method or call is None or call.module is None or not call.inputs:
        raise _Unwritable("no module of PyTorch's saves the tensor")
    draft = _Draft.of(facts, trace, moments, style, [call.module, *call.inputs])
    made = draft.module(call.module)
    owned = zip(call.module.keys, call.module.items, strict=False)
    parameter = next((key for key, item in owned if item.tensor and item.tensor.storage == draft.base), None)
    if parameter is None:
        draft.change()
        draft.define_written([*_tensors(call.inputs), *draft.changed])
    else:
        module = draft.fresh("m")
        draft.change(name=f"{module}.{parameter}")
        draft.making.insert(0, (f"{module} = {made}",))
        made = module
    name = draft.fresh("y")
    draft.saving.append((f"{name} = {made}({', '.join(draft.value(value) for value in call.inputs)})",))
    return draft.patch(name + (_item(call.result, None) if call.result else ""))


def _from_node(facts: Facts, trace: Trace, moments: Moments, style: Style) -> Patch:
    """A call that makes the graph node which the trace names, where the one that made it cannot be written.

    The node of `torch.mm` is MmBackward0, and it saves its arguments under their names, its result as `result`.
    """
    node, attribute = trace.node, trace.attribute
    if not style.ones or node is None or attribute is None or not node.rstrip("0123456789").endswith("Backward"):
        raise _Unwritable("the node does not tell which call makes it")
    function = function_of(node)
    failure = parse(trace.message)
    shape = ", ".join("1" for _ in (failure.shape if failure and failure.shape else ())) or "()"
    draft = _Draft.of(facts, trace, moments, style, [])
    draft.change()
    leaf = f"torch.ones({shape}, requires_grad=True)"
    if attribute == "_saved_result":
        draft.saving.append((f"{draft.written_name} = {leaf}.{function}()",))
        return draft.patch(draft.written_name)
    draft.making.insert(0, (f"{draft.written_name} = {style.maker.format(leaf)}",))
    name = draft.fresh("y")
    if attribute == "_saved_self":
        argument = "2" if style.method else ""
        draft.saving.append((f"{name} = {draft.written_name}.{function}({argument})",))
    else:
        draft.saving.append((f"{name} = {leaf}.{function}({draft.written_name})",))
    return draft.patch(name)


@dataclass
class _Draft:
    """One distilled program under construction."""

    facts: Facts
    trace: Trace
    moments: Moments
    style: Style
    making: list[Line] = field(default_factory=list)
    saving: list[Line] = field(default_factory=list)
    preparing: list[Line] = field(default_factory=list)
    changing: list[Line] = field(default_factory=list)
    imports: set[str] = field(default_factory=lambda: {"torch"})
    definitions: dict[Span, None] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    base: int = 0
    dtype: str | None = None
    written_name: str = "x"
    root: Value | None = None
    steps: bool = False

    @classmethod
    def of(cls, facts: Facts, trace: Trace, moments: Moments, style: Style, saving: Sequence[Value]) -> _Draft:
        """An empty draft, for the memory that the values of the saving call share with what is changed.

        Of several, the one whose tensor has as many elements as the one in PyTorch's message. Raises _Unwritable when
        nothing is shared (where there are values to share).
        """
        shared = _storages(saving) & frozenset(moments.written)
        if saving and not shared:
            raise _Unwritable("the two moments share no tensor")
        failure = parse(trace.message)
        size = math.prod(failure.shape) if failure and failure.shape is not None else -1
        tensors = [t.tensor for t in _tensors(saving) if t.tensor and t.tensor.storage in shared]
        best = min(tensors, key=lambda t: math.prod(t.shape) != size, default=None)
        changed = [t.tensor for t in _tensors(s.value for s in moments.changing) if t.tensor]
        written = best or next((t for t in changed if t.storage in moments.written), None)
        if written is None:
            return cls(facts, trace, moments, style)
        return cls(facts, trace, moments, style, base=written.storage, dtype=written.dtype)

    @property
    def changed(self) -> list[Value]:
        """The tensors that the changing statement sees."""
        return _tensors(seen.value for seen in self.moments.changing)

    def fresh(self, name: str) -> str:
        """`name`, or `name` with a number when it is taken; taken from now on."""
        taken = self.names | set(dir(builtins)) | {"torch"}
        found = next(n for n in (name, *(f"{name}{i}" for i in range(2, 1000))) if n not in taken)
        self.names.add(found)
        return found

    def patch(self, result: str, grad: bool | None = None) -> Patch:
        """Everything put together, with backward from `result` at the end.

        `grad`: whether the change is recorded; None: as around the user's statement.
        """
        lines: list[Line] = [(f"import {name}\n",) for name in sorted(self.imports)]
        lines += [(span,) for span in self.definitions]
        body = [*self.making, *self.saving, *self.preparing]
        if self.steps:
            body.append((f"{result}.sum().backward(retain_graph=True)",))
        lines += [(*line, "\n") for line in body]
        if self.moments.grad_changing if grad is None else grad:
            lines += [(*line, "\n") for line in self.changing]
        else:
            lines.append(("with torch.no_grad():\n",))
            lines += [("    ", *line, "\n") for line in self.changing]
        lines.append((f"{result}.sum().backward()\n",))
        entry = self.facts.program.entry
        whole = Span(entry.path, 0, len(entry.text))
        pieces = tuple(piece for line in lines for piece in line)
        return Patch((Edit(whole, pieces), *self.edits), "distil")

    # ---- the tensor that is written

    def define_written(self, tensors: Sequence[Value]) -> None:
        """The line that makes the tensor which both the saving call and the changing statement use.

        Where they see different parts of it, it is the largest of these, and the others are views of it.
        """
        shared = [t for t in tensors if t.tensor and t.tensor.storage == self.base]
        self.root = max(shared, key=lambda t: math.prod(t.tensor.shape) if t.tensor else 0)
        root = self.root.tensor
        assert root is not None
        text = self.tensor(root)
        if root.requires_grad and not root.leaf:
            text = self.style.maker.format(text)
        self.making.insert(0, (f"{self.written_name} = {text}",))

    # ---- the changing statement

    def change(self, keep_result: bool = False, name: str | None = None) -> str | None:
        """Add the changing statement; the name of its result, where it has one and it is asked for.

        `name` is the expression for the tensor that it changes; None: the name by which the statement knows it.
        """
        statement = self.facts.culprit
        assert statement is not None
        self.written_name = name or self._name_of_written(statement)
        self.names.add(self.written_name)
        pieces, target = self._as_line(statement, keep_result)
        tree = self.facts.tree(statement.code.path)
        running = self._running(tree, self.trace.mutations[0].place)
        self._cut(tree, statement.node, _by_span(tree, self.moments.changing), running)
        self.changing.append(pieces)
        return target

    def expression(self, statement: Statement, seen: Sequence[Seen]) -> Line:
        """The value that a statement computes, as pieces."""
        tree = self.facts.tree(statement.code.path)
        node = _value_of(statement.node)
        if node is None:
            raise _Unwritable("the saving statement has no value")
        assert self.trace.saved is not None
        self._cut(tree, node, _by_span(tree, seen), self._running(tree, self.trace.saved))
        return (tree.span(node),)

    def _as_line(self, statement: Statement, keep_result: bool) -> tuple[Line, str | None]:
        tree, node = self.facts.tree(statement.code.path), statement.node
        running = self._running(tree, self.trace.mutations[0].place)
        inner = None if running is None else _lifted_out_of(tree, running)
        value = inner or _value_of(node)
        if inner is None and isinstance(node, cst.AugAssign):
            return (statement.code,), self.written_name
        if inner is None and isinstance(node, cst.Assign) and _writes_to_target(node):
            return (statement.code,), self.written_name
        if value is None:
            raise _Unwritable(f"{type(node).__name__} has no value to keep")
        if keep_result:
            name = self.fresh("y")
            return (f"{name} = ", tree.span(value)), name
        return (tree.span(value),), None

    def _running(self, tree: Tree, place: Place) -> cst.CSTNode | None:
        """The expression that was running at a place, where Python told its columns."""
        if not place.stack:
            return None
        frame, file = place.stack[0], tree.file
        if frame.column is None or frame.end_column is None or frame.file != file.path:
            return None
        span = file.span_of(frame.line, frame.column, frame.end_line or frame.line, frame.end_column)
        return next((node for node in tree.expressions if tree.span(node) == span), None)

    def _name_of_written(self, statement: Statement) -> str:
        """What to call the written tensor: the last name of the chain by which the statement knows it."""
        tree = self.facts.tree(statement.code.path)
        seen = _by_span(tree, self.moments.changing)
        for node in _nodes(statement.node):
            value = seen.get(tree.spans.get(node))  # type: ignore[arg-type]
            if value is not None and value.tensor and value.tensor.storage == self.base:
                if isinstance(node, cst.Name):
                    return node.value
                if isinstance(node, cst.Attribute) and node.attr.value not in ("data", "grad", "T"):
                    return node.attr.value
        return "x"

    def _cut(self, tree: Tree, node: cst.CSTNode, seen: Mapping[Span, Value], running: cst.CSTNode | None) -> None:
        """Replace the largest expressions inside `node` that have a stand-in, leaving those that do the writing."""
        span = tree.spans.get(node)
        writing = running is not None and span is not None and tree.span(running) in span
        if span is not None and not writing and span in seen and isinstance(node, cst.BaseExpression):
            text = self._stand_in(seen[span], node)
            if text is not None:
                if text != tree.text(node):
                    self.edits.append(Edit(span, (text,)))
                return
        for child in node.children:
            if isinstance(node, cst.Attribute) and child is node.attr:
                continue
            if isinstance(node, (cst.Arg, cst.FormattedStringExpression)) and child is getattr(node, "keyword", None):
                continue
            self._cut(tree, child, seen, running)

    def _stand_in(self, value: Value, node: cst.CSTNode) -> str | None:
        """The text to put in the place of `node`; None to look inside it instead."""
        chain = isinstance(node, (cst.Name, cst.Attribute))
        if value.kind == "literal":
            if isinstance(node, (cst.Tuple, cst.List)):
                return None
            return "0" if self.style.ones and value.text.isdecimal() and self._indexes(node) else value.text
        if value.tensor is not None:
            if value.tensor.storage == self.base:
                return self._alias(value) if chain or _is_plain_call(node) else None
            return self.tensor(value.tensor)
        if value.kind in ("list", "tuple", "dict", "slice"):
            return self._container(value) if chain or isinstance(node, cst.Call) else None
        if value.kind in ("module", "optimizer") and not (chain or isinstance(node, cst.Call)):
            return None
        try:
            return self.value(value)
        except _Unwritable:
            return None

    def _indexes(self, node: cst.CSTNode) -> bool:
        """Whether an expression is the whole of an index."""
        trees = (self.facts.tree(file.path) for file in self.facts.program)
        return any(isinstance(tree.parents.get(node), cst.Index) for tree in trees)

    def _alias(self, value: Value) -> str:
        """The written tensor under the shape in which somebody sees it."""
        here = value.tensor
        assert here is not None
        if self.root is None or self.root.tensor is None or value.identity == self.root.identity:
            return self.written_name
        return self.written_name + _view(self.root.tensor, here, self.style.ones)

    def _container(self, value: Value) -> str:
        """A composite; of tensors only the written one, since the others cannot matter to the counter."""
        tensors = [item for item in value.items if item.tensor]
        if len(value.items) > 1 and len(tensors) == len(value.items) and value.kind in ("list", "tuple"):
            kept = [t for t in tensors if t.tensor and t.tensor.storage == self.base][:1] or tensors[:1]
            return self.value(replace(value, items=tuple(kept)))
        return self.value(value)

    # ---- stand-ins as text

    def value(self, value: Value) -> str:
        """An expression for the value. Raises _Unwritable when there is no simple one."""
        match value.kind:
            case "literal":
                return value.text
            case "tensor":
                assert value.tensor is not None
                return self._alias(value) if value.tensor.storage == self.base else self.tensor(value.tensor)
            case "list":
                return f"[{self._all(value.items)}]"
            case "tuple":
                return f"({self._all(value.items)}{',' if len(value.items) == 1 else ''})"
            case "dict":
                return (
                    "{" + ", ".join(f"{k}: {self.value(v)}" for k, v in zip(value.keys, value.items, strict=True)) + "}"
                )
            case "slice":
                return f"slice({self._all(value.items)})"
            case "import":
                return self._import(value.text)
            case "module":
                return self._module(value)
            case "optimizer":
                return self._optimizer(value)
            case "own":
                self._define(value)
                return value.text
        raise _Unwritable(f"a {value.text} has no simple stand-in")

    def _all(self, values: Iterable[Value]) -> str:
        return ", ".join(self.value(value) for value in values)

    def tensor(self, tensor: TensorValue) -> str:
        """A new tensor of the shape, type and need for gradients; floating-point ones are of the written one's type."""
        shape = ", ".join("1" if self.style.ones else str(size) for size in tensor.shape) or "()"
        dtype = self.dtype if {self.dtype, tensor.dtype} <= set(_FLOATING) else tensor.dtype
        if dtype == "torch.float32":
            return f"torch.ones({shape}{', requires_grad=True' if tensor.requires_grad else ''})"
        if tensor.requires_grad:
            return f"torch.ones({shape}, dtype={dtype}, requires_grad=True)"
        return f"torch.zeros({shape}, dtype={dtype})"

    def save(self, call: Call, others: Iterable[Value]) -> str:
        """Add the saving call; the expression for the tensor that it made.

        Where the written tensor is one that the call was given, it is made before; `others` are tensors that the
        changing statement uses.
        """
        given = _given(call)
        if self.base in _storages(given):
            self.define_written([*_tensors(given), *others])
            name = self.fresh("y")
            self.saving.append((f"{name} = {self.call(call)}",))
            return name + (_item(call.result, None) if call.result else "")
        assert call.result is not None
        self.saving.append((f"{self.written_name} = {self.call(call)}{_item(call.result, self.base)}",))
        return self.written_name

    def call(self, call: Call) -> str:
        """The saving call as source code."""
        arguments = [self.value(argument) for argument in call.arguments]
        keywords = [f"{name}={self.value(value)}" for name, value in call.keywords.items()]
        name = call.function.rpartition(".")[2]
        if name == "__getitem__" and len(arguments) == 2:
            return f"{arguments[0]}[{arguments[1].removeprefix('(').removesuffix(')')}]"
        of_tensor = bool(call.arguments) and call.arguments[0].kind == "tensor"
        if of_tensor and call.method and (self.style.method or call.function.startswith("torch.Tensor.")):
            return f"{arguments[0]}.{name}({', '.join(arguments[1:] + keywords)})"
        return f"{self._import_function(call.function)}({', '.join(arguments + keywords)})"

    def writing(self, call: Call) -> str:
        """The changing call as a statement."""
        if call.function.endswith(".__setitem__") and len(call.arguments) == 3:
            target, index, value = map(self.value, call.arguments)
            return f"{target}[{index.removeprefix('(').removesuffix(')')}] = {value}"
        return self.call(call)

    def _import_function(self, function: str) -> str:
        if not function.startswith("torch."):
            raise _Unwritable(f"{function} has no public name")
        return function

    def _import(self, text: str) -> str:
        module, _, name = text.partition(":")
        if module == "builtins":
            return name
        if module.split(".")[0] != "torch":  # which is imported anyway
            self.imports.add(module)
        return f"{module}.{name}" if name else module

    def _module(self, value: Value) -> str:
        if self.base in _storages([value]):
            raise _Unwritable("the module owns the written tensor")
        return self.module(value)

    def module(self, value: Value) -> str:
        """A new module like the one described."""
        if value.items and not value.keys:
            inner = ", ".join(self._module(item) if item.kind == "module" else self.value(item) for item in value.items)
            return f"{value.text}([{inner}])" if value.text.endswith("ModuleList") else f"{value.text}({inner})"
        keywords = [f"{name}={_least(self.value(part), self.style.ones)}" for name, part in value.keywords.items()]
        return f"{value.text}({', '.join(keywords)})"

    def _optimizer(self, value: Value) -> str:
        if self.base not in _storages([value]):
            raise _Unwritable("the optimizer does not own the written tensor")
        self.steps = True
        keywords = [f"{name}={self.value(part)}" for name, part in value.keywords.items()]
        name = self.fresh("optimizer")
        arguments = ", ".join([f"[{self.written_name}]", *keywords])
        self.preparing.append((f"{name} = {value.text}({arguments})",))
        return name

    def _define(self, value: Value) -> None:
        """Bring along something that the program itself defines at the top level of a file, and what that needs."""
        tree = self.facts.tree(value.file)
        top = {name: s for s in tree.statements if not s.indent for name in _bound_by(s.node)}
        waiting, needed = [value.text], dict[str, Statement]()
        while waiting:
            name = waiting.pop()
            statement = top.get(name)
            if statement is None or name in needed:
                continue
            needed[name] = statement
            waiting += [n.value for n in _nodes(statement.node) if isinstance(n, cst.Name)]
        self.names |= set(needed)
        for statement in sorted(set(needed.values()), key=lambda s: s.span):
            self.definitions.setdefault(statement.span)


def _by_span(tree: Tree, seen: Iterable[Seen]) -> dict[Span, Value]:
    file = tree.file
    return {
        file.span_of(item.line, item.column, item.end_line, item.end_column): item.value
        for item in seen
        if item.file == file.path
    }


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _nodes(child)


def _value_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression whose value a statement is about."""
    match node:
        case cst.Assign() | cst.AnnAssign() | cst.Return() | cst.Expr() | cst.AugAssign():
            return node.value
        case cst.For():
            return node.iter
        case cst.If() | cst.While():
            return node.test
        case cst.With():
            return node.items[0].item
    return None


def _writes_to_target(node: cst.Assign) -> bool:
    return any(isinstance(target.target, cst.Subscript) for target in node.targets)


def _is_plain_call(node: cst.CSTNode) -> bool:
    """Whether `node` calls a name: a function of the user's own, which has nothing inside to keep."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name)


def _lifted_out_of(tree: Tree, running: cst.CSTNode) -> cst.BaseExpression | None:
    """The running expression itself, when it stands in a lambda or a comprehension, whose names exist only there."""
    scopes = (cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
    if isinstance(running, cst.BaseExpression) and tree.inside(running, *scopes):
        return running
    return None


def _bound_by(node: cst.CSTNode) -> Iterator[str]:
    """The names that a top-level statement binds."""
    match node:
        case cst.FunctionDef() | cst.ClassDef():
            yield node.name.value
        case cst.Assign():
            for target in node.targets:
                yield from (n.value for n in _nodes(target.target) if isinstance(n, cst.Name))
        case cst.Import() | cst.ImportFrom() if not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                yield alias.evaluated_alias or alias.evaluated_name.partition(".")[0]


def _given(call: Call) -> list[Value]:
    """What a call was given."""
    return [*call.arguments, *call.keywords.values()]


def _passing(call: Call) -> list[Value]:
    """What a call was given and what it made."""
    return [*_given(call), *([call.result] if call.result else [])]


def _tensors(values: Iterable[Value]) -> list[Value]:
    return [tensor for value in values for tensor in _tensors_in(value)]


def _tensors_in(value: Value) -> Iterator[Value]:
    if value.tensor is not None:
        yield value
    for item in value.items:
        yield from _tensors_in(item)


def _storages(values: Iterable[Value]) -> frozenset[int]:
    return frozenset(tensor.tensor.storage for tensor in _tensors(values) if tensor.tensor)


def _item(result: Value, storage: int | None) -> str:
    """The index that takes a composite result to its tensor: that in `storage`, else the first that needs gradients."""
    if result.kind not in ("tuple", "list"):
        return ""
    for index, item in enumerate(result.items):
        if storage in _storages([item]) if storage is not None else _needs_gradient(item):
            return f"[{index}]{_item(item, storage)}"
    return ""


def _needs_gradient(value: Value) -> bool:
    return any(tensor.tensor.requires_grad for tensor in _tensors_in(value) if tensor.tensor)


def _view(root: TensorValue, part: TensorValue, ones: bool) -> str:
    """What to append to a tensor like `root` to see `part` of its memory."""
    if part.shape == root.shape and part.stride == root.stride:
        return ""
    depth = len(root.shape) - len(part.shape)
    if ones:
        return f"[{', '.join('0' * depth)}]" if depth > 0 else ""
    if depth > 0 and part.shape == root.shape[depth:] and part.stride == root.stride[depth:]:
        rest, indices = part.offset - root.offset, []
        for stride in root.stride[:depth]:
            indices.append(rest // stride if stride else 0)
            rest -= indices[-1] * stride
        return f"[{', '.join(map(str, indices))}]"
    return f".as_strided({part.shape}, {part.stride}, {part.offset})"


def _least(text: str, ones: bool) -> str:
    """A constructor's argument; its sizes, where all are to be 1, as 1."""
    return re.sub(r"\b[1-9]\d*\b(?!\.)", "1", text) if ones and re.fullmatch(r"[\d(), ]+", text) else text


def _writes(operator: str) -> bool:
    """Whether a torch function of that name writes to its first argument."""
    return operator.endswith("_") and not operator.endswith("__")
