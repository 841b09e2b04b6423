"""Who saved a tensor, who wrote to it, which backward pass needed it: one run of a program, watched from inside.

Every torch function that Python calls passes by (`TorchFunctionMode`). Before and after each call the versions of
its tensors are compared: a difference is a write. After each call the graph nodes that it made are read: what they
saved, at which version. What is known about a node is kept inside that node and dies with it, so a long training
loop costs no memory. When the engine fails, the graph below the failing pass is read once more: the saved tensor
that now raises the very same message is the one, and the first write to its version counter since is the culprit.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Literal, Protocol

import torch
from torch.autograd import Variable
from torch.overrides import TorchFunctionMode

from shrinkrepro.runtime import graph
from shrinkrepro.runtime.engine import Engine
from shrinkrepro.runtime.graph import Node, Saved
from shrinkrepro.runtime.hidden import Call, Hidden, hidden
from shrinkrepro.runtime.messages import GraphNode, Mutation, Place, Trace, Written
from shrinkrepro.runtime.stack import Note, note, place
from shrinkrepro.runtime.writes import Write, WriteLog

_VERSIONS = re.compile(r"is at version (\d+)\s*[;,] (?:not )?expected version (\d+)")
_SHAPE = re.compile(r"\[\S+ \[([\d, ]*)\]\]")
_PRODUCER = re.compile(r"output \d+ of (?:[\w:]+::)?(\w+?)(?:Backward\d*)?,")
_RUN_BACKWARD = (
    "tensors",
    "grad_tensors",
    "keep_graph",
    "create_graph",
    "inputs",
    "allow_unreachable",
    "accumulate_grad",
)
_PROPERTY = frozenset({"__get__", "__set__", "__delete__"})
_MOST_MUTATIONS = 200
_MOST_WRITERS = 400
_MOST_PLACES = 8
# How far from the stale node the piece of the graph goes that is told of, and how many nodes it has.
_NEAR, _MOST_NODES = 3, 16

Method = Literal["stale", "arithmetic", "polling", "none"]
_Written = tuple[torch.Tensor, int, int]  # a tensor, its version before and after


@dataclass(eq=False)
class Record:
    """What is known about one graph node: what it saved, and the call that made it.

    `hooked`: saved-tensor hooks were active, so what the node saved is whatever they made of it, and reading it
    runs them; `saved` then holds what the call that brought the hooks was given. `hidden` is the call that made a node
    which does not show what it saved; `saved` then holds all that this may be. `sources` is what is known about the
    nodes below the backward pass that made the node, if one did: it has saved again what they had saved.
    """

    node: str
    sequence: int
    clock: int
    step: int
    operator: str
    note: Note
    saved: tuple[Saved, ...]
    hooked: bool = False
    hidden: Hidden | None = None
    sources: tuple[Record, ...] = ()


@dataclass(slots=True)
class _Writer:
    """A call in the program that writes: where it was first made, how often, by how many versions in all."""

    operator: str
    note: Note
    count: int
    versions: int


@dataclass(frozen=True, slots=True)
class _Pass:
    """A backward pass under way: the nodes that it starts from, and who wants it."""

    roots: tuple[Node, ...]
    operator: str
    step: int
    note: Note


class _Moment:
    """A call under way. Where it was made is worked out only if somebody asks, while it lasts.

    `sources` is what is known about the nodes that a backward pass runs, where the call is one that makes a graph.
    """

    __slots__ = ("_called", "_note", "_own", "operator", "sources", "step")

    def __init__(
        self,
        own_files: Mapping[str, str],
        operator: str,
        step: int,
        called: object = None,
        where: Note | None = None,
    ) -> None:
        self.operator, self.step = operator, step
        self.sources: tuple[Record, ...] = ()
        self._own, self._called, self._note = own_files, called, where

    @property
    def note(self) -> Note:
        if self._note is None:
            self._note = note(self._own, self._called)
        return self._note


@dataclass(frozen=True, slots=True)
class _Hooks:
    """Saved-tensor hooks in force: the call that brought them in, and the tensors that it was given."""

    moment: _Moment
    given: tuple[Saved, ...]


class _Thread(threading.local):
    """What one thread is doing."""

    def __init__(self) -> None:
        # Other threads' calls come in between at any time: numbers that a second run repeats must leave them out.
        self.counted = threading.current_thread() is threading.main_thread()
        self.calling = False  # inside a torch function: PyTorch has taken our mode off meanwhile
        self.hooks: list[_Hooks] = []
        self.passes: list[_Pass] = []
        self.failed: _Pass | None = None


class _Mode(TorchFunctionMode):
    """Hands every call of a torch function to the tracer."""

    def __init__(self, call: Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return self._call(func, args, kwargs or {})


class Tap(Protocol):
    """Sees every event that a tracer numbers, by operator and number, outside the tracer's own bookkeeping."""

    def reached(self, operator: str, step: int) -> None:
        """Event number `step` of `operator` is beginning: a torch call, or another that saves tensors."""

    def before(self, operator: str, step: int, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """A torch call is about to be made."""

    def after(
        self, operator: str, step: int, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
    ) -> None:
        """A torch call has come back with `result`."""


class Tracer:
    """Watches a program between `__enter__` and `__exit__`; `failed` tells what is known about a failure.

    `own_files` maps the absolute paths of the program's files (as its code objects name them) to paths relative to
    its root. `recorded` is told of every graph node that saved tensors, as soon as it is seen. Without `calls`, torch
    function calls are left alone: there are then no writes but those that `unseen` is told, and nodes are found
    through `look`, custom Functions and backward passes only. `tap` sees the events that are numbered.
    """

    def __init__(
        self,
        own_files: Mapping[str, str],
        recorded: Callable[[Record], None] | None = None,
        calls: bool = True,
        tap: Tap | None = None,
    ) -> None:
        self._own = own_files
        self._tap = tap
        self._calls = calls
        self._recorded = recorded
        self._key = object()  # under which a node's metadata holds its Record, or None: nothing to know
        self._records: weakref.WeakSet[Record] = weakref.WeakSet()
        self._built: weakref.WeakKeyDictionary[torch.nn.Module, Write] = weakref.WeakKeyDictionary()
        self._writes = WriteLog()
        self._writers: dict[tuple[object, str], _Writer] = {}
        self._mode = _Mode(self._call)
        self._thread = _Thread()
        self._patches = ExitStack()
        self._clock = 0
        self._steps: Counter[str] = Counter()

    def __enter__(self) -> Tracer:
        self._patch(torch.autograd.Function, "apply", classmethod(self._wrap_apply()))
        for compiled in (torch._C.ScriptFunction, torch._C.ScriptMethod):
            self._patch(compiled, "__call__", self._wrap_compiled(compiled.__call__))
        self._patch(torch.nn.Module, "__init__", self._wrap_init())
        hooks = torch.autograd.graph.saved_tensors_hooks
        self._patch(hooks, "__enter__", self._wrap_hooks_enter())
        self._patch(hooks, "__exit__", self._wrap_hooks_exit())
        self._patch(threading.Thread, "start", self._wrap_start())
        self._patch(Variable, "_execution_engine", Engine(Variable._execution_engine, self._backward))
        if self._calls:
            self._patches.enter_context(self._mode)
        return self

    def __exit__(self, *exception: object) -> None:
        self._patches.close()

    def failed(self, message: str) -> Trace:
        """What led to the failure that PyTorch reports as `message`.

        To be called while the failing graph is alive, and to be the last: it spoils the version counters.
        """
        with torch._C.DisableTorchFunction(), torch.no_grad():
            return self._explain(message)

    def unseen(self, saved: Saved, before: int, after: int, where: Note) -> None:
        """Log a rise of the counter of `saved` that somebody else noticed at `where`."""
        if saved.probe is not None:
            write = Write(self._clock, 0, "", before, after, saved.shape or (), where, seen=False)
            self._writes.add_unseen(saved.probe, write)

    def look(self, tensors: Iterable[torch.Tensor], where: Note) -> None:
        """Record the nodes that made `tensors`, as made at `where`. Views are not asked: it might change them."""
        nodes = [graph.node_of(tensor) for tensor in tensors if tensor.requires_grad and not tensor._is_view()]
        self._discover(nodes, _Moment(self._own, "", 0, where=where))

    # ------------------------------------------------------------------ while the program runs

    def _call(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        name = getattr(func, "__name__", "") or str(func)
        if name in _PROPERTY:
            return func(*args, **kwargs)
        thread = self._thread
        now = _Moment(self._own, name, self._number(name), func)
        with torch._C.DisableTorchFunction():
            given = graph.with_inner(graph.tensors_in((args, kwargs)))
            # Nodes made by calls that do not pass by show up as their tensors are first used, maybe by the very
            # call that writes to them.
            self._discover(_makers(given), now)
            before = [graph.version(tensor) for tensor in given]
        if self._tap is not None:
            self._tap.before(name, now.step, func, args, kwargs)
        outer, thread.calling = thread.calling, True
        try:
            result = func(*args, **kwargs)
        finally:
            thread.calling = outer
        if self._tap is not None:
            self._tap.after(name, now.step, func, args, kwargs, result)
        with torch._C.DisableTorchFunction():
            written = [
                (tensor, was, is_)
                for tensor, was in zip(given, before, strict=True)
                if was is not None and (is_ := graph.version(tensor)) is not None and is_ != was
            ]
            if written:
                self._log(written, now, _writes_nothing(name, given, args))
            made = graph.with_inner(graph.tensors_in((result,))) + [tensor for tensor, _, _ in written]
            self._discover(map(graph.node_of, made), now, Call(func, args, kwargs, given, written))
        return result

    def _number(self, operator: str) -> int:
        """The number of the event of `operator` that is beginning, as `Place.step` counts them."""
        if not self._thread.counted:
            return 0
        self._steps[operator] += 1
        if self._tap is not None:
            self._tap.reached(operator, self._steps[operator])
        return self._steps[operator]

    def _discover(
        self,
        nodes: Iterable[Node | None],
        now: _Moment,
        call: Call | None = None,
    ) -> None:
        """Record the nodes at or below `nodes` that are new, as made now by `call`, if it is known.

        What a call saved of tensors that it wrote to (`x.mul_(x)`) cannot be read any more.
        """
        written = () if call is None else call.written
        key = self._key
        todo = [node for node in nodes if node is not None]
        while todo:
            node = todo.pop()
            metadata = node.metadata
            if key in metadata:
                continue
            metadata[key] = None
            todo.extend(below for below, _ in node.next_functions if below is not None)
            hooks = self._thread.hooks
            if hooks:
                self._keep(node, hooks[-1].moment, hooks[-1].given, hooked=True)
                continue
            saved = tuple(
                known
                for found in graph.saved_by(node)
                for known in ((found,) if found.probe is not None or not written else _as_it_was(found, written))
            )
            if saved:
                self._keep(node, now, saved)
            elif call is not None and node.name() == graph.COPY_SLICES:
                veiled = hidden(call, needed_grad=node.next_functions[0][0] is not None)
                self._keep(node, now, veiled.possible, hidden=veiled)

    def _keep(
        self,
        node: Node,
        now: _Moment,
        saved: tuple[Saved, ...],
        hooked: bool = False,
        hidden: Hidden | None = None,
    ) -> None:
        sequence = node._sequence_nr()
        clock = self._tick()
        record = Record(
            node.name(), sequence, clock, now.step, now.operator, now.note, saved, hooked, hidden, now.sources
        )
        node.metadata[self._key] = record
        self._records.add(record)
        if self._recorded is not None:
            self._recorded(record)

    def _log(self, written: Iterable[_Written], now: _Moment, empty: bool) -> None:
        # Looking for the module costs, and optimizers write a lot; activations are written with gradients on.
        module = _writing_module(self._own, sys._getframe(1)) if torch.is_grad_enabled() else None
        built = None if module is None else self._built.get(module)
        clock = self._tick()
        # several views of one tensor rise together
        rises = {graph.address(tensor): after - before for tensor, before, after in written}
        self._count(now, sum(rises.values()))
        for tensor, before, after in written:
            shape = tuple(tensor.shape)
            write = Write(clock, now.step, now.operator, before, after, shape, now.note, built, empty=empty)
            self._writes.add(tensor, write)
        if self._writes.full:
            self._writes.sweep(min((record.clock for record in self._records), default=clock))

    def _count(self, now: _Moment, versions: int) -> None:
        """Count a call that wrote, under the expression of the program that made it."""
        if now.note.own:
            key = (now.note.own[0], now.operator)
            writer = self._writers.get(key)
            if writer is not None:
                writer.count += 1
                writer.versions += versions
            elif len(self._writers) < _MOST_WRITERS:
                self._writers[key] = _Writer(now.operator, now.note, 1, versions)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _backward(self, engine: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Run a backward pass of `engine` (its run_backward with these arguments) under watch."""
        asked = engine_arguments(arguments, keywords)
        operator = "backward" if asked["accumulate_grad"] else "grad"
        now = _Moment(self._own, operator, self._number(operator))
        thread = self._thread
        with torch._C.DisableTorchFunction():
            roots = tuple(node for node in map(_root, asked["tensors"]) if node is not None)
            self._discover(roots, now)
            if asked["create_graph"]:
                now.sources = tuple(record for _, record in self._known(roots))
        thread.passes.append(_Pass(roots, now.operator, now.step, now.note))
        thread.failed = None
        calling, thread.calling = thread.calling, False
        try:
            with self._mode if calling else nullcontext():
                result = engine.run_backward(*arguments, **keywords)
        except BaseException:
            # Remembered for callers who ask after it has been left; of nested passes the innermost failed.
            if thread.failed is None:
                thread.failed = thread.passes[-1]
            raise
        finally:
            thread.calling = calling
            thread.passes.pop()
        with torch._C.DisableTorchFunction():
            if asked["create_graph"]:
                made = [*graph.tensors_in((result,)), *_leaf_gradients(roots)]
                self._discover(map(graph.node_of, made), now)
            if not asked["keep_graph"] and not asked["inputs"]:
                self._release(roots)
        return result

    def _known(self, roots: Iterable[Node]) -> Iterator[tuple[Node, Record]]:
        """The nodes below `roots` that saved something, and what is known about them."""
        for node in graph.reachable(roots):
            record = node.metadata.get(self._key)
            if record is not None:
                yield node, record

    def _release(self, roots: Iterable[Node]) -> None:
        """Forget what is known about a graph that has been used up, though somebody may hold on to it."""
        for node in graph.reachable(roots):
            if node.metadata.get(self._key) is not None:
                node.metadata[self._key] = None

    # ------------------------------------------------------------------ where PyTorch is listened to

    def _patch(self, owner: Any, name: str, value: Any) -> None:
        original = vars(owner).get(name)
        setattr(owner, name, value)
        self._patches.callback(
            delattr if original is None else setattr, owner, name, *([] if original is None else [original])
        )

    def _wrap_apply(self) -> Callable[..., Any]:
        # a class method in Python up to torch 2.13, one in C since: what both have in common is how they are bound
        original = inspect.getattr_static(torch.autograd.Function, "apply")

        @functools.wraps(torch.autograd.Function.apply)
        def apply(function: type, *args: Any, **kwargs: Any) -> Any:
            call = functools.partial(original.__get__(None, function), *args, **kwargs)
            return self._unseen_call(f"{function.__name__}.apply", call)

        return apply

    def _wrap_compiled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            return self._unseen_call(function.name, functools.partial(original, function, *args, **kwargs))

        return __call__

    def _unseen_call(self, operator: str, call: Callable[[], Any]) -> Any:
        """Make a call that is no torch function; the nodes that it makes are known as its own."""
        now = _Moment(self._own, operator, self._number(operator))
        result = call()
        with torch._C.DisableTorchFunction():
            self._discover(map(graph.node_of, graph.tensors_in((result,))), now)
        return result

    def _wrap_init(self) -> Callable[..., None]:
        original = torch.nn.Module.__init__

        @functools.wraps(original)
        def __init__(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(module, *args, **kwargs)
            self._built[module] = Write(self._clock, 0, type(module).__name__, 0, 0, (), note(self._own, original))

        return __init__

    def _wrap_hooks_enter(self) -> Callable[..., Any]:
        original = torch.autograd.graph.saved_tensors_hooks.__enter__

        @functools.wraps(original)
        def __enter__(hooks: Any) -> Any:  # noqa: N807
            result = original(hooks)
            frame = sys._getframe(1)
            with torch._C.DisableTorchFunction():
                given = graph.tensors_in(_library_arguments(self._own, frame))
                snapshots = tuple(graph.snapshot(None, tensor) for tensor in given)
            where = note(self._own)
            source = type(hooks).__name__ if where.library is None else where.library[0].co_filename
            operator = os.path.splitext(os.path.basename(source))[0]
            self._thread.hooks.append(
                _Hooks(_Moment(self._own, operator, self._number(operator), where=where), snapshots)
            )
            return result

        return __enter__

    def _wrap_hooks_exit(self) -> Callable[..., Any]:
        original = torch.autograd.graph.saved_tensors_hooks.__exit__

        @functools.wraps(original)
        def __exit__(hooks: Any, *exception: Any) -> Any:  # noqa: N807
            if self._thread.hooks:
                self._thread.hooks.pop()
            return original(hooks, *exception)

        return __exit__

    def _wrap_start(self) -> Callable[..., None]:
        original = threading.Thread.start

        @functools.wraps(original)
        def start(thread: threading.Thread) -> None:
            # Modes belong to threads; `run` may be anybody's override, so it is wrapped on the object.
            thread.run = functools.partial(self._run_watched, thread.run)  # type: ignore[method-assign]
            original(thread)

        return start

    def _run_watched(self, run: Callable[[], None]) -> None:
        with self._mode if self._calls else nullcontext():
            run()

    # ------------------------------------------------------------------ once it has failed

    def _explain(self, message: str) -> Trace:
        mismatch = Mismatch.read(message)
        failing = self._thread.failed or (self._thread.passes[-1] if self._thread.passes else None)
        needed = None if failing is None else place(failing.note, failing.operator, failing.step, self._own)
        if mismatch is None:
            return Trace(message, None, None, None, (), needed, notes=("PyTorch's message has an unknown wording.",))
        roots = () if failing is None else failing.roots
        found = self._stale(message, mismatch, roots)
        method: Method = "stale"
        if found is None:
            likely, method = self._by_versions(mismatch, roots), "arithmetic"
            found = None if likely is None else (*likely, ())
        record, saved, attributes = (None, None, ()) if found is None else found
        if saved is not None and saved.probe is not None:
            writes = self._writes.sharing(saved.probe)
        else:
            writes, method = self._likely(mismatch, 0 if record is None else record.clock), "arithmetic"
        chain, gaps = _chain(writes, mismatch)
        mutations = tuple(
            Mutation(place(w.note, w.operator, w.step if w.seen else 0, self._own), w.before, w.after, w.empty)
            for w in chain
        )
        if not chain:
            method = "none"
        elif not chain[0].seen:
            method = "polling"
        built = chain[0].built if chain else None
        carried = _carried(roots, record, chain[0].clock, self._key) if chain and record is not None else []
        again = self._saved_again(record, saved) if record is not None and saved is not None else []
        return Trace(
            message,
            node=None if record is None else record.node,
            attribute=None if saved is None else saved.attribute,
            attributes=attributes,
            saved=None if record is None else place(record.note, record.operator, record.step, self._own),
            mutations=mutations,
            needed=needed,
            built=None if built is None else place(built.note, built.operator, built.step, self._own),
            method=method,
            notes=tuple(gaps),
            also_saved=self._places(again),
            carried=self._places(carried),
            written=tuple(
                Written(place(w.note, w.operator, 0, self._own), w.count, w.versions) for w in self._writers.values()
            ),
            graph=() if record is None else self._piece(record, roots),
            operands=() if record is None else graph.operands(record.node),
        )

    def _piece(self, stale: Record, roots: Sequence[Node]) -> tuple[GraphNode, ...]:
        """The graph around the stale node, which comes first; nothing where it is not below `roots`."""
        center = next((node for node, record in self._known(roots) if record is stale), None)
        nodes = [] if center is None else graph.around(center, roots, _NEAR, _MOST_NODES)
        position = {node: number for number, node in enumerate(nodes)}
        return tuple(
            GraphNode(
                node.name(),
                tuple(position[below] for below, _ in node.next_functions if below in position),
                node in roots,
                None if (record := node.metadata.get(self._key)) is None else self._innermost(record),
            )
            for node in nodes
        )

    def _innermost(self, record: Record) -> Place:
        """The statement that made a node, without those that called it."""
        whole = place(record.note, record.operator, record.step, self._own)
        return replace(whole, stack=whole.stack[:1], library=None)

    def _places(self, records: Iterable[Record]) -> tuple[Place, ...]:
        """Where the nodes were made, each expression once, the first few."""
        firsts = {record.note.own[:1]: record for record in reversed(list(records)) if record.note.own}
        return tuple(
            place(r.note, r.operator, r.step, self._own) for r in list(reversed(firsts.values()))[:_MOST_PLACES]
        )

    def _saved_again(self, stale: Record, saved: Saved) -> list[Record]:
        """The other nodes that saved the stale tensor at the same version, in order. Raises that tensor's counter."""
        if saved.probe is None:
            return []
        others = [
            (record, other.probe, other.probe._version)
            for record in self._records
            for other in record.saved
            if record is not stale
            and other.probe is not None
            and other.version == saved.version
            and _certainty(record, other)
        ]
        saved.probe.zero_()
        found = {id(record): record for record, probe, was in others if probe._version != was}
        return sorted(found.values(), key=lambda record: record.clock)

    def _stale(
        self, message: str, mismatch: Mismatch, roots: Iterable[Node]
    ) -> tuple[Record, Saved, tuple[str, ...]] | None:
        """What raises the very same message when it is read now; of several nodes, that which the engine reached first.

        Third, all attributes of that node which raise it: the first, only, of a hooked one.
        """

        # Reading a hooked node runs its hooks (a checkpoint computes its segment again), so these come last, but for
        # those that were given a tensor which has moved as the message says.
        def turn(pair: tuple[Node, Record]) -> tuple[bool, int]:
            record = pair[1]
            return record.hooked and not any(map(mismatch.moved, record.saved)), -record.sequence

        for node, record in sorted(self._known(roots), key=turn):
            complaints = (
                attribute
                for attribute in graph.attributes(node)
                if _gist(graph.complaint(node, attribute) or "") == _gist(message)
            )
            attribute = next(complaints, None)
            if attribute is not None:
                stale = [saved for saved in record.saved if record.hooked or saved.attribute == attribute]
                # a write may have resized the tensor, so its shape only decides among several
                moved = sorted(filter(mismatch.moved, stale), key=lambda saved: not mismatch.fits(saved))
                saved = replace(moved[0], attribute=attribute) if moved else Saved(attribute, None, None, None)
                return record, saved, (attribute, *([] if record.hooked else complaints))
        return None

    def _by_versions(self, mismatch: Mismatch, roots: Iterable[Node]) -> tuple[Record, Saved] | None:
        """What was saved at the expected version and is now at the one reported, where it cannot be read again.

        What a node below `roots` saved comes before all else, which another pass may have needed; of hidden tensors,
        those that torch says were saved.
        """
        below = [record for _, record in self._known(roots)]
        fitting = [(record, saved) for record in below for saved in record.saved if mismatch.fits(saved)]
        if not fitting:
            fitting = [(record, saved) for record in self._records for saved in record.saved if mismatch.fits(saved)]
        return max(
            fitting,
            key=lambda pair: (pair[1].attribute is None, _certainty(*pair), pair[0].sequence),
            default=None,
        )

    def _likely(self, mismatch: Mismatch, clock: int) -> list[Write]:
        """The writes to the counter that best fits the versions, where no saved tensor is known.

        The write that left the expected version behind, after `clock`, on a counter now at the version reported;
        better if of the shape and by the operator that the message names, and better late than early.
        """
        fitting = [
            (write, counter)
            for counter in self._writes.counters()
            for write in counter.writes
            if write.before == mismatch.expected and counter.probe._version == mismatch.version and write.clock >= clock
        ]
        if not fitting:
            return []
        _, best = max(fitting, key=lambda pair: (mismatch.resembles(pair[0]), pair[0].clock))
        return best.writes


def _carried(roots: Iterable[Node], stale: Record, written: int, key: object) -> list[Record]:
    """The nodes made after `written` (a clock reading) that lead to the stale one with none made after it between."""
    above: dict[Node, list[Node]] = {}
    todo: list[Node] = []
    for node in graph.reachable(roots):
        if node.metadata.get(key) is stale:
            todo.append(node)
        for below, _ in node.next_functions:
            if below is not None:
                above.setdefault(below, []).append(node)
    seen, found = set(todo), []
    while todo:
        for node in above.get(todo.pop(), ()):
            if node in seen:
                continue
            seen.add(node)
            record = node.metadata.get(key)
            if record is not None and record.clock > written:
                found.append(record)
            else:
                todo.append(node)
    return sorted(found, key=lambda record: record.clock)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The facts in PyTorch's message that the search needs."""

    version: int
    expected: int
    shape: tuple[int, ...] | None
    producer: str

    @classmethod
    def read(cls, message: str) -> Mismatch | None:
        """The facts in `message`, or None if it has no versions."""
        versions, shape, producer = (pattern.search(message) for pattern in (_VERSIONS, _SHAPE, _PRODUCER))
        if versions is None:
            return None
        sizes = None if shape is None else tuple(int(size) for size in shape[1].split(",") if size.strip())
        return cls(int(versions[1]), int(versions[2]), sizes, "" if producer is None else producer[1].lower())

    def moved(self, saved: Saved) -> bool:
        """Whether the versions of `saved`, then and now, are those of the message."""
        return saved.probe is not None and (saved.version, saved.probe._version) == (self.expected, self.version)

    def fits(self, saved: Saved) -> bool:
        """Whether `saved` can be the tensor that the message means."""
        return self.moved(saved) and self.may_reach(saved)

    def may_reach(self, saved: Saved) -> bool:
        """Whether `saved`, as it was saved, can become the tensor that the message means."""
        return (
            saved.probe is not None
            and saved.version == self.expected
            and (self.shape is None or saved.shape == self.shape)
        )

    def resembles(self, write: Write) -> tuple[bool, bool]:
        """Whether `write` has the shape and the operator of the message."""
        return write.shape == self.shape, bool(self.producer) and self.producer in write.operator.replace("_", "")


def _writes_nothing(operator: str, given: Sequence[torch.Tensor], args: Sequence[Any]) -> bool:
    """Whether a call that wrote was given a tensor without elements, or assigned to items of which there are none."""
    if any(tensor.numel() == 0 for tensor in given):
        return True
    if operator != "__setitem__" or graph.tensors_in(args[1:2]):  # an index with tensors is as large as they are
        return False
    items = args[0].detach()[args[1]]
    return bool(items.numel() == 0)


def _chain(writes: Sequence[Write], mismatch: Mismatch) -> tuple[list[Write], list[str]]:
    """The writes that led from the expected version to the one reported, and a note for each rise that none explains.

    Rises noticed afterwards fill in only where no call shows a write. There are no writes at all where the first
    rise is unexplained: the culprit is then unknown.
    """
    later = sorted((write for write in writes if write.after > mismatch.expected), key=lambda write: write.before)
    seen = [write for write in later if write.seen]
    chain: list[Write] = []
    reached = mismatch.expected
    for write in seen:
        chain += _filling(later, reached, write.before)
        chain.append(write)
        reached = write.after
    chain += _filling(later, reached, mismatch.version)
    notes: list[str] = []
    reached = mismatch.expected
    for start, end in [*((write.before, write.after) for write in chain), (mismatch.version, mismatch.version)]:
        if start > reached:
            notes.append(f"No torch function call shows what took the version from {reached} to {start}.")
        reached = end
    if len(chain) > _MOST_MUTATIONS:
        notes.append(f"{len(chain) - _MOST_MUTATIONS} later writes are left out.")
    unexplained = bool(chain) and chain[0].before > mismatch.expected
    return [] if unexplained else chain[:_MOST_MUTATIONS], notes


def _filling(writes: Iterable[Write], start: int, end: int) -> list[Write]:
    """Those of the unseen `writes` that raised the version between `start` and `end`, cut to that stretch."""
    return [
        replace(write, before=max(write.before, start), after=min(write.after, end))
        for write in writes
        if not write.seen and write.before < end and write.after > start
    ]


def _certainty(record: Record, saved: Saved) -> int:
    """2 if the node of `record` is sure to have saved `saved`, 0 if it is sure not to have, 1 if nobody can tell."""
    known = record.saved if record.hidden is None else record.hidden.saved()
    return 1 if known is None else 2 * any(saved is one for one in known)


def _as_it_was(saved: Saved, written: Iterable[_Written]) -> Iterator[Saved]:
    """What `saved` can have been, when the call that saved it has written to `written` as well."""
    return (replace(graph.snapshot(saved.attribute, tensor), version=before) for tensor, before, _ in written)


def _makers(tensors: Iterable[torch.Tensor]) -> Iterator[Node | None]:
    """The nodes that made `tensors`, as far as asking is harmless.

    Asking a view whose base was written makes PyTorch renew the view's node, which shows in messages. With gradients
    on, the call about to run asks anyway.
    """
    asking = torch.is_grad_enabled()
    return (graph.node_of(tensor) for tensor in tensors if tensor.requires_grad and (asking or not tensor._is_view()))


def engine_arguments(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the engine's `run_backward`, by name."""
    named = dict.fromkeys(_RUN_BACKWARD, None)
    named["accumulate_grad"] = True
    named.update(zip(_RUN_BACKWARD, arguments, strict=False))
    named.update(keywords)
    return named


def _gist(message: str) -> str:
    """A message without its hint, which depends on the moment."""
    return message.split("Hint:", maxsplit=1)[0].strip()


def _root(tensor: Any) -> Node | None:
    """The node that a backward pass from `tensor` (or from a GradientEdge) starts at."""
    return graph.node_of(tensor) if isinstance(tensor, torch.Tensor) else tensor.node


def _leaf_gradients(roots: Iterable[Node]) -> list[torch.Tensor]:
    """The gradients that a backward pass from `roots` left in leaves."""
    leaves = (getattr(node, "variable", None) for node in graph.reachable(roots))
    return [leaf.grad for leaf in leaves if leaf is not None and leaf.grad is not None]


def _library_arguments(own_files: Mapping[str, str], frame: FrameType | None) -> list[Any]:
    """The local variables of the library's frames between `frame` and the program's own."""
    values: list[Any] = []
    while frame is not None and frame.f_code.co_filename not in own_files:
        values.extend(frame.f_locals.values())
        frame = frame.f_back
    return values if frame is not None else []


def _writing_module(own_files: Mapping[str, str], frame: FrameType | None) -> torch.nn.Module | None:
    """The module with `inplace=True` whose forward is running, nearest to `frame`, the program's innermost included."""
    while frame is not None:
        if frame.f_code.co_varnames[:1] == ("self",):
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module) and getattr(owner, "inplace", None) is True:
                return owner
        if frame.f_code.co_filename in own_files:
            return None
        frame = frame.f_back
    return None
