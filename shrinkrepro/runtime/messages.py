"""What crosses the process border: jobs going in, reports coming out. Standard library only.

A job says which program to run and what to watch; a report says what happened. Both travel as JSON, never as
pickles: the process that writes a report has just run a damaged program, so its bytes are data and nothing more.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

# The part of PyTorch's message that no release has changed since 1.5.
PHRASE = "modified by an inplace operation"
# As a job's folder: one that holds nothing but the job's own files.
NOWHERE = "/shrinkrepro-nowhere"

Protection = Literal["off", "audit", "kernel"]
Watch = Literal["plain", "trace", "poll", "observe", "capture", "prove", "fresh"]
Kind = Literal["literal", "tensor", "slice", "list", "tuple", "dict", "module", "optimizer", "import", "own", "opaque"]
Outcome = Literal["failed", "raised", "finished", "exhausted", "captured", "timeout", "killed", "invalid"]

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Bounds of one run.

    `wall` and `cpu` are seconds, `memory` (address space a program may add), `file`, `scratch` (all that it writes) and
    `output` (what is kept of what it prints) are bytes, `processes` counts all that it starts,
    `backwards` is how many backward passes may finish before the run is stopped as "exhausted" (None: any number).
    """

    wall: float = 600.0
    cpu: float = 600.0
    memory: int = 16 << 30
    file: int = 1 << 30
    scratch: int = 4 << 30
    output: int = 1 << 20
    processes: int = 512
    backwards: int | None = None


@dataclass(frozen=True)
class Job:
    """One run of one program.

    `files` maps paths relative to `root` (POSIX style) to source text and is served from memory; `root` is the
    absolute folder that they live in for the script (`__file__`, tracebacks); `cwd` is the folder whose content
    relative paths show; `argv` excludes the script itself; `module` is set for `-m package.module`; `hidden` are paths
    relative to `root` of files that the program is not to find there, `folders` those relative to `root` that modules
    are imported from, the script's own first; `network` lets it use the network. `protection` is what guards the run:
    "kernel" what the kernel can enforce, and the audit hook, "audit" the hook alone, "off" nothing but limits.
    `stdin` is what it reads as standard input, decoded by `os.fsdecode`. `seed` is what the random generators begin
    with (None: with what they have in the warm process). `patient`: whenever others could run, they go first.

    `watch`: "plain" runs without instrumentation, "trace" diagnoses the failure, "poll" watches the version of the
    tensors in `hint` per executed line, "observe" records what ran, "capture" describes the values at the steps named
    in `hint`, "prove" writes down the losses and gradients of the backward passes named in `hint`, "fresh" starts a
    new interpreter on real files and reads what it prints. `hint` is the JSON-able state that a watch needs from an
    earlier run.
    """

    files: dict[str, str]
    root: str
    entry: str
    cwd: str
    argv: tuple[str, ...] = ()
    module: str | None = None
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    folders: tuple[str, ...] = ("",)
    network: bool = False
    protection: Protection = "kernel"
    stdin: str = ""
    seed: int | None = None
    watch: Watch = "plain"
    hint: dict[str, Any] = dataclasses.field(default_factory=dict)
    limits: Limits = Limits()
    patient: bool = False


@dataclass(frozen=True)
class Frame:
    """One frame of a Python stack.

    `file` is relative to the program's root for the program's own files, absolute for libraries. `line` counts
    from 1; `end_line`, `column`, `end_column` (characters, from 0) delimit the running expression where Python tells
    (3.11+).
    """

    file: str
    line: int
    function: str
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None


@dataclass(frozen=True)
class Place:
    """Where something happened: the program's own frames, innermost first, and the library frame just below them.

    `operator` is the torch function called, without its namespace: "add_", "__setitem__", "relu".
    `step` is the number of that call among the calls of the same operator in the main thread, from 1: operator and
    step name the same moment in a second, equal run, whatever other threads and worker processes do meanwhile. It is 0
    in other threads, and where no torch call shows.
    """

    operator: str
    stack: tuple[Frame, ...]
    library: Frame | None = None
    step: int = 0


@dataclass(frozen=True)
class Mutation:
    """One write that raised a version counter: from `before` to `after`, seen at `place`.

    `empty`: no element was written (`x[3:] = 0` where x has three), or a tensor that the call was given has none.
    """

    place: Place
    before: int
    after: int
    empty: bool = False


@dataclass(frozen=True)
class Written:
    """A call in the program that wrote to tensors: how often, and by how many versions in all."""

    place: Place
    count: int
    versions: int


@dataclass(frozen=True)
class GraphNode:
    """A node of the autograd graph near the stale one: the name of its class, and where it was made, if that is known.

    `feeds` are the positions, among the nodes told of, of those that it hands gradients to. `start`: the backward pass
    begins there.
    """

    name: str
    feeds: tuple[int, ...] = ()
    start: bool = False
    place: Place | None = None


@dataclass(frozen=True)
class Trace:
    """What a traced run knows about its first version-mismatch error.

    `message` is PyTorch's text. `node` is the class name of the graph node whose saved tensor is stale
    ("SigmoidBackward0") and `attribute` the name it is saved under ("_saved_result"); both None when the node hides
    its saved tensors; `attributes` are all that are stale in the same words (`x * x` saves x twice). `mutations` are
    the writes to the saved tensor's storage after it was saved, in order; the first is the culprit. `built` is where
    a module that wrote in place because of its own `inplace=True` was constructed. `method` says how the culprit was
    found: "stale" (read from the graph), "arithmetic" (version counters of the log of writes), "polling" (line by
    line), "none". `also_saved` are other places that saved the same tensor at the same version. `carried` are those
    that read, after the first write, what was computed before it and leads to the stale tensor. `written` are all calls
    that wrote to any tensor before the failure, the first ones. `graph` is the piece of the autograd graph around the
    stale node, which comes first. `operands` says with how many tensors, itself included, the method of a tensor that
    the node is named after can be called; empty where there is no such method.
    """

    message: str
    node: str | None
    attribute: str | None
    saved: Place | None
    mutations: tuple[Mutation, ...]
    needed: Place | None
    built: Place | None = None
    method: Literal["stale", "arithmetic", "polling", "none"] = "none"
    notes: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    also_saved: tuple[Place, ...] = ()
    carried: tuple[Place, ...] = ()
    written: tuple[Written, ...] = ()
    graph: tuple[GraphNode, ...] = ()
    operands: tuple[int, ...] = ()


@dataclass(frozen=True)
class TensorValue:
    """A strided tensor without its numbers. `storage` identifies the memory: equal for tensors that share it.

    `offset` and `stride` count elements. `low` and `high` bound the elements of an integer or boolean tensor.
    """

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool
    leaf: bool
    storage: int
    offset: int
    stride: tuple[int, ...]
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Value:
    """A value that the program had, as far as a stand-in for it needs.

    `text` is source code for a literal, the constructor's name for a module or an optimizer, "module" or
    "module:name" for an import, the name of something that the program's own `file` defines, else the type's name.
    `items` are the parts of a composite (start, stop and step of a slice, values of a dict under `keys`, modules in a
    container, parameters of a module under `keys`, parameters of an optimizer), `keywords` the constructor's arguments
    other than defaults. `identity` is equal for the same object.
    """

    kind: Kind
    text: str = ""
    identity: int = 0
    tensor: TensorValue | None = None
    items: tuple[Value, ...] = ()
    keys: tuple[str, ...] = ()
    keywords: dict[str, Value] = dataclasses.field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True)
class Call:
    """A call of a torch function: `function` as users write it, and the values that went in and came out.

    `method`: tensors have a method of that name. `module` is the innermost of PyTorch's own modules whose `forward`
    made the call, `inputs` are what that was given.
    """

    function: str
    arguments: tuple[Value, ...]
    keywords: dict[str, Value]
    result: Value | None
    module: Value | None = None
    inputs: tuple[Value, ...] = ()
    method: bool = True


@dataclass(frozen=True)
class Seen:
    """An expression of the program, by its place (line from 1, columns in characters from 0), and its value."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    value: Value


@dataclass(frozen=True)
class Observation:
    """What one run executed: lines per file, seconds spent per line (callees included), first values of expressions.

    Lines and seconds are keyed by paths relative to the program's root.
    """

    executed: dict[str, tuple[int, ...]]
    seconds: dict[str, dict[int, float]]
    values: tuple[Seen, ...] = ()


@dataclass(frozen=True)
class Moments:
    """The values at two moments: when the tensor was saved, and just before it was changed.

    `saved` is the torch call that saved it, `changing` and `saving` the expressions of the two statements,
    `grad_changing` and `grad_saving` whether gradients were being recorded around them. `written` are the storages
    that the changing call wrote to; `change` is that call, `grad_change` whether gradients were recorded in it.
    """

    saved: Call | None
    saving: tuple[Seen, ...]
    changing: tuple[Seen, ...]
    grad_saving: bool
    grad_changing: bool
    written: tuple[int, ...]
    change: Call | None = None
    grad_change: bool = True


@dataclass(frozen=True)
class Numbers:
    """What identifies the elements of a tensor: a digest of all of them, their norm, and some, evenly spaced.

    `sample` holds those as double precision numbers in base64.
    """

    shape: tuple[int, ...]
    dtype: str
    digest: str
    norm: float
    sample: str


@dataclass(frozen=True)
class Pass:
    """One backward pass: the tensors that it started from, and what it added to the gradient of each leaf.

    `number` counts finished passes from 1. One that failed is not `finished`, and has no gradients.
    """

    number: int
    losses: tuple[Numbers, ...]
    gradients: tuple[Numbers, ...]
    finished: bool = True


@dataclass(frozen=True)
class Report:
    """How a run ended.

    `outcome`: "failed" (the version-mismatch error occurred, swallowed or not), "raised" (another exception ended it),
    "finished", "exhausted" (more backward passes than allowed), "captured" (the values asked for are there),
    "timeout", "killed" (died without a word, or by a limit), "invalid" (does not compile). `failure` is the first
    version-mismatch message; `error_type`, `error` and `error_frame` are type, text and innermost own frame of the
    exception that ended the run otherwise. `seconds` run from the first line of the program to its end, or to the
    failure. `backwards` counts finished backward passes, one within another left out. `modules` are the modules, not
    the program's own, that the run imported; `strays` are those of the user's own modules that the job did not bring:
    name and file. `output` is the end of what it printed. `guard` says what guarded the run, `written` names files that
    it wrote, in its words.
    """

    outcome: Outcome
    failure: str | None = None
    error_type: str | None = None
    error: str | None = None
    error_frame: Frame | None = None
    seconds: float = 0.0
    backwards: int = 0
    trace: Trace | None = None
    observation: Observation | None = None
    moments: Moments | None = None
    passes: tuple[Pass, ...] = ()
    modules: tuple[str, ...] = ()
    strays: dict[str, str] = dataclasses.field(default_factory=dict)
    output: str = ""
    guard: str = ""
    written: tuple[str, ...] = ()


def to_json(message: Job | Report) -> str:
    """The message as one line of JSON."""
    return json.dumps(dataclasses.asdict(message), separators=(",", ":"))


def from_json(kind: type[T], text: str | bytes) -> T:
    """The message of `kind` that `to_json` wrote.

    Raises ValueError when the text is not JSON, lacks a field or has one of another type: it may come from a damaged
    process.
    """
    try:
        value = _revive(kind, json.loads(text))
    except (KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise ValueError(f"not a {kind.__name__}: {problem!r}") from problem
    return typing.cast(T, value)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _revive(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        return kind(**{name: _revive(hints[name], part) for name, part in value.items()})  # type: ignore[operator]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union or origin is types.UnionType:
        inner = [a for a in arguments if a is not type(None)]
        return None if value is None else _revive(inner[0], value)
    if origin is tuple:
        return tuple(_revive(arguments[0], part) for part in value)
    if origin is dict:
        return {arguments[0](key): _revive(arguments[1], part) for key, part in value.items()}
    fits = (
        value in arguments
        if origin is Literal
        else kind is Any or isinstance(value, (int, kind) if kind is float else kind)
    )
    if not fits:
        raise TypeError(f"{value!r} is not {kind}")
    return value
