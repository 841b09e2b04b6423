"""Passes that bring a program onto one CPU, in one process and in plain precision: every later run is faster for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, removal, replaced_by_block, whole, without
from shrinkrepro.passes.syntax import (
    argument,
    canonical,
    dotted,
    last_name,
    plain_arguments,
    replaced,
    without_link,
)
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import Statement, Tree

_ACCELERATOR = re.compile(r"[rf]?(['\"]{1,3})(cuda|mps|xpu|hip|hpu)(:.*)?\1", re.IGNORECASE)
_DEVICE_LITERAL = re.compile(r"[rf]?(['\"]{1,3})(cpu|cuda|mps|xpu|hip|hpu)(:.*)?\1", re.IGNORECASE)
_DEVICE_NAME = re.compile(r"(.*_)?(device|dev|gpu)(_.*)?", re.IGNORECASE)
_LOADER_KEYWORDS = frozenset(
    {"num_workers", "pin_memory", "pin_memory_device", "prefetch_factor", "persistent_workers", "worker_init_fn"}
    | {"multiprocessing_context"}
)
_WRAPPERS = frozenset(
    {
        "torch.compile",
        "torch.fx.symbolic_trace",
        "torch.jit.script",
        "torch.jit.trace",
        "torch.nn.DataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
    }
)
_PRECISIONS = frozenset({"bfloat16", "double", "float", "half"})
_DTYPE = re.compile(r"torch\.(bfloat16|double|float(16|32|64)?|half)")
_SEEDS = re.compile(
    r"torch(\.\w+)*\.(manual_seed|manual_seed_all|seed)|(numpy\.)?random\.seed|torch\.use_deterministic_algorithms"
)
_ANOMALY = re.compile(r"torch\.autograd(\.anomaly_mode)?\.(set_)?detect_anomaly")
_AUTOCAST = re.compile(r"torch\.(\w+\.)*autocast")


def devices_to_cpu(program: Program, facts: Facts) -> Iterator[Patch]:
    """Run everything on the CPU: device strings, moves to a device and `device=` arguments, all at once, then each.

    Before:
        import torch
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = make().to(device)
        x = torch.ones(2, device=device)
    After:
        import torch
        device = "cpu"
        model = make()
        x = torch.ones(2)
    """
    yield from _together_then_each(facts, "run on the CPU", _device_patches)


def loaders_in_process(program: Program, facts: Facts) -> Iterator[Patch]:
    """Load data in the process itself: no workers, no pinned memory.

    Before:
        loader = DataLoader(data, 8, num_workers=4, pin_memory=True)
    After:
        loader = DataLoader(data, 8)

    Before:
        config = {"num_workers": 4}
    After:
        config = {"num_workers": 0}
    """
    yield from _together_then_each(facts, "load data in the process", _loader_patches)


def unwrap_models(program: Program, facts: Facts) -> Iterator[Patch]:
    """Use a model itself instead of its compiled, scripted or data-parallel wrapper.

    Before:
        import torch
        model = torch.nn.DataParallel(make(), [0])
        save(model.module)
    After:
        import torch
        model = make()
        save(model)
    """
    wrappers = [edit for tree in facts.trees for edit in _wrappers(tree)]
    if wrappers:
        inner = [
            Edit(tree.span(node), (tree.span(node.value),))
            for tree in facts.trees
            for node in tree.walk(cst.Attribute)
            if node.attr.value in {"module", "_orig_mod"}
        ]
        yield patch("unwrap every model", *wrappers, *inner)
        yield patch("unwrap every model", *wrappers)
        yield from (patch("unwrap a model", edit) for edit in reversed(wrappers))


def full_precision(program: Program, facts: Facts) -> Iterator[Patch]:
    """Compute in the default precision: no autocast, no gradient scaler, no casts between floating-point types.

    Before:
        import torch
        scaler = torch.amp.GradScaler()
        with torch.autocast("cuda"):
            loss = model(x.half())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    After:
        import torch
        loss = model(x)
        loss.backward()
        optimizer.step()
    """
    yield from _together_then_each(
        facts,
        "compute in the default precision",
        lambda tree: (*_precision_patches(tree), *_scaler_patches(tree, facts)),
    )


def drop_seeds(program: Program, facts: Facts) -> Iterator[Patch]:
    """Set no random seed and pass no random generator.

    Before:
        import torch
        torch.manual_seed(0)
        g = torch.Generator().manual_seed(1)
        x = torch.randn(2, generator=g)
    After:
        import torch
        x = torch.randn(2)
    """
    yield from _together_then_each(facts, "set no seed", _seed_patches)


def drop_anomaly_mode(program: Program, facts: Facts) -> Iterator[Patch]:
    """Leave anomaly mode off.

    Before:
        import torch
        torch.autograd.set_detect_anomaly(True)
        with torch.autograd.detect_anomaly():
            loss.backward()
    After:
        import torch
        loss.backward()
    """
    yield from _together_then_each(facts, "leave anomaly mode off", _anomaly_patches)


def _together_then_each(facts: Facts, label: str, patches_of: Callable[[Tree], Iterable[Patch]]) -> Iterator[Patch]:
    """What a function proposes for each file: all of it as one patch, then one by one from the end."""
    patches = [found for tree in facts.trees for found in patches_of(tree)]
    if len(patches) > 1:
        yield patch(label, *dict.fromkeys(edit for found in patches for edit in found.edits))
    yield from reversed(patches)


def _device_patches(tree: Tree) -> Iterator[Patch]:
    label = "run on the CPU"
    for choice in tree.walk(cst.IfExp):
        if "is_available()" in tree.text(choice.test):
            negated = m.matches(choice.test, m.UnaryOperation(operator=m.Not()))
            yield patch(label, replaced(tree, choice, choice.body if negated else choice.orelse))
    for literal in (*tree.walk(cst.SimpleString), *tree.walk(cst.FormattedString)):
        match = _ACCELERATOR.fullmatch(tree.text(literal))
        if match:
            yield patch(label, Edit(tree.span(literal), (f"{match[1]}cpu{match[1]}",)))
    for call in tree.walk(cst.Call):
        first = plain_arguments(call)[:1]
        if canonical(tree, call.func) == "torch.device" and len(first) == len(call.args) == 1:
            yield patch(label, replaced(tree, call, first[0].value))
        elif _moves(tree, call):
            yield _without_call(tree, call, label)
        else:
            keywords = [index for index, arg in enumerate(call.args) if _keyword(arg) in {"device", "non_blocking"}]
            if keywords:
                yield patch(label, *without(tree, call.args, keywords))
    for statement in tree.statements:
        name = _effect(tree, statement)
        if name.startswith(("torch.cuda.", "torch.backends.")) and not _SEEDS.fullmatch(name):
            yield patch(label, removal(tree, statement))


def _moves(tree: Tree, call: cst.Call) -> bool:
    """Whether a call does nothing but move what it is called on to a device."""
    if not isinstance(call.func, cst.Attribute) or canonical(tree, call.func) is not None:
        return False
    if call.func.attr.value in {"cuda", "cpu", "mps", "xpu", "hpu"}:
        return True
    target = argument(call, "device", 0)
    others = [arg for arg in call.args if arg is not target and _keyword(arg) not in {"non_blocking", "copy"}]
    return call.func.attr.value == "to" and target is not None and _is_device(tree, target.value) and not others


def _is_device(tree: Tree, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        return canonical(tree, node.func) == "torch.device"
    if isinstance(node, cst.Subscript):
        literal = tree.text(node.slice[0]) if len(node.slice) == 1 else ""
        return _DEVICE_NAME.fullmatch(literal.strip("'\"")) is not None
    return bool(_DEVICE_NAME.fullmatch(last_name(node)) or _DEVICE_LITERAL.fullmatch(tree.text(node)))


def _loader_patches(tree: Tree) -> Iterator[Patch]:
    label = "load data in the process"
    for call in tree.walk(cst.Call):
        keywords = [index for index, arg in enumerate(call.args) if _keyword(arg) in _LOADER_KEYWORDS]
        if keywords:
            yield patch(label, *without(tree, call.args, keywords))
    for number in tree.walk(cst.Integer):
        if number.value != "0" and re.search("workers", _name_of(tree, number), re.IGNORECASE):
            yield patch(label, Edit(whole(tree, number), ("0",)))


def _name_of(tree: Tree, node: cst.CSTNode) -> str:
    """What a literal is called where it stands: a key, a variable, a parameter, a command-line option."""
    parent = tree.parents[node]
    if isinstance(parent, cst.DictElement):
        return tree.text(parent.key)
    if isinstance(parent, cst.Assign):
        return tree.text(parent.targets[0].target)
    if isinstance(parent, cst.AnnAssign):
        return tree.text(parent.target)
    if isinstance(parent, cst.Param):
        return parent.name.value
    call = tree.parents.get(parent)
    if (
        _keyword(parent) == "default"
        and isinstance(call, cst.Call)
        and isinstance(call.args[0].value, cst.SimpleString)
    ):
        return tree.text(call.args[0])
    return ""


def _wrappers(tree: Tree) -> Iterator[Edit]:
    for call in tree.walk(cst.Call):
        first = plain_arguments(call)[:1]
        if first and canonical(tree, call.func) in _WRAPPERS:
            yield replaced(tree, call, first[0].value)


def _precision_patches(tree: Tree) -> Iterator[Patch]:
    label = "compute in the default precision"
    for call in tree.walk(cst.Call):
        if not isinstance(call.func, cst.Attribute) or canonical(tree, call.func) is not None:
            casts = False
        elif call.func.attr.value in _PRECISIONS:
            casts = not call.args
        else:
            types = [arg for arg in call.args if _DTYPE.fullmatch(canonical(tree, arg.value) or "")]
            casts = call.func.attr.value in {"to", "type"} and len(types) == len(call.args) == 1
        if casts:
            yield _without_call(tree, call, label)
            continue
        keywords = [
            index
            for index, arg in enumerate(call.args)
            if _keyword(arg) == "dtype" and _DTYPE.fullmatch(canonical(tree, arg.value) or "")
        ]
        if keywords:
            yield patch(label, *without(tree, call.args, keywords))
    for statement in tree.statements:
        if _effect(tree, statement) in {"torch.set_default_dtype", "torch.set_float32_matmul_precision"}:
            yield patch(label, removal(tree, statement))
    yield from _unwrapped(tree, _AUTOCAST, label)


def _scaler_patches(tree: Tree, facts: Facts) -> Iterator[Patch]:
    """Gradient scalers, known by the name that any file binds one to."""
    scalers = {name for other in facts.trees for _, name in _scalers(other)}
    edits: list[Edit] = []
    for call in tree.walk(cst.Call):
        if not isinstance(call.func, cst.Attribute) or last_name(call.func.value) not in scalers:
            continue
        first, method = plain_arguments(call)[:1], call.func.attr.value
        if first and method == "scale":
            edits.append(replaced(tree, call, first[0].value))
        elif first and method == "step":
            edits.append(Edit(whole(tree, call), (whole(tree, first[0].value), ".step()")))
        elif isinstance(tree.parents[call], cst.Expr):
            edits.append(removal(tree, tree.statement_around(call)))
    made = [node for node, _ in _scalers(tree)]
    if edits or made:
        yield patch("scale no gradients", *edits, *(removal(tree, tree.statement_of[node]) for node in made))


def _scalers(tree: Tree) -> Iterator[tuple[cst.Assign, str]]:
    """Assignments that make a gradient scaler, and the name that they bind it to."""
    for node in tree.walk(cst.Assign):
        if isinstance(node.value, cst.Call) and (canonical(tree, node.value.func) or "").endswith(".GradScaler"):
            yield node, last_name(node.targets[0].target)


def _seed_patches(tree: Tree) -> Iterator[Patch]:
    for statement in tree.statements:
        if _SEEDS.fullmatch(_effect(tree, statement)):
            yield patch("set no seed", removal(tree, statement))
    edits = [
        removal(tree, tree.statement_of[node])
        for node in tree.walk(cst.Assign)
        if "torch.Generator" in {canonical(tree, call.func) for call in _calls_of_chain(node.value)}
    ]
    for call in tree.walk(cst.Call):
        keywords = [index for index, arg in enumerate(call.args) if _keyword(arg) == "generator"]
        if keywords:
            edits += without(tree, call.args, keywords)
    if edits:
        yield patch("use no random generator", *edits)


def _calls_of_chain(node: cst.BaseExpression) -> Iterator[cst.Call]:
    """The calls that a chain of methods consists of: those of `a()` and `b()` in `a().b()`."""
    while isinstance(node, cst.Call):
        yield node
        node = node.func.value if isinstance(node.func, cst.Attribute) else node.func


def _anomaly_patches(tree: Tree) -> Iterator[Patch]:
    label = "leave anomaly mode off"
    for statement in tree.statements:
        if _ANOMALY.fullmatch(_effect(tree, statement)):
            yield patch(label, removal(tree, statement))
    yield from _unwrapped(tree, _ANOMALY, label)


def _unwrapped(tree: Tree, contexts: re.Pattern[str], label: str) -> Iterator[Patch]:
    """`with` statements without those of their items that call one of `contexts`."""
    for node in tree.walk(cst.With):
        found = [
            index
            for index, item in enumerate(node.items)
            if isinstance(item.item, cst.Call) and contexts.fullmatch(canonical(tree, item.item.func) or "")
        ]
        if found and len(found) == len(node.items):
            yield patch(label, *replaced_by_block(tree, tree.statement_of[node], node.body))
        elif found:
            yield patch(label, *without(tree, node.items, found))


def _without_call(tree: Tree, call: cst.Call, label: str) -> Patch:
    """The last link taken out of a chain; the statement, when nothing but a name would be left of it."""
    assert isinstance(call.func, cst.Attribute)
    if isinstance(tree.parents[call], cst.Expr) and dotted(call.func.value) is not None:
        return patch(label, removal(tree, tree.statement_around(call)))
    return patch(label, without_link(tree, call))


def _effect(tree: Tree, statement: Statement) -> str:
    """The full name of what a statement calls or sets, when it does nothing else; "" otherwise."""
    node = statement.node
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        return canonical(tree, node.value.func) or ""
    if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Attribute):
        return canonical(tree, node.targets[0].target) or ""
    return ""


def _keyword(node: cst.CSTNode) -> str:
    """The keyword that an argument is passed as, "" when it is passed by position."""
    return node.keyword.value if isinstance(node, cst.Arg) and node.keyword is not None else ""
