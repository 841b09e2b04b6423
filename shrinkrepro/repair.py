"""The rewrites that can mend a program, simplest first. Each is a proposal: only a run can tell whether it mends.

They come in families. The write can be made out-of-place, or into a copy. What backward needs can be copied when it
is saved, which changes no number at all. The write can wait until backward has run. A graph that is carried across the
write can be cut, or computed again after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Literal

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import names, whole
from shrinkrepro.passes.inplace import builder, copied_arguments, forms, function_of, hands_on, moved_behind, written
from shrinkrepro.passes.syntax import (
    argument,
    canonical,
    delimited,
    dotted,
    imported,
    last_name,
    needs_parentheses,
    own_scope,
    parenthesised,
)
from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree
from shrinkrepro.runtime.messages import Frame, Place, Trace, Value

Kind = Literal["out-of-place", "constructor", "copy", "copy saved", "move", "detach", "recompute", "copy parameters"]

_LEVELS = 3  # how many of the program's own frames around an operation are looked at
_LONGEST_SHOWN = 40
_OPERATIONS = (cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.Subscript, cst.Attribute)
_LINK = cst.Attribute(cst.Name("x"), cst.Name("y"))  # what an expression becomes a part of when `.clone()` follows it
_COMPOSITE = {
    "dict": ("{{key: value.{method}() for key, value in ", ".items()}}"),
    "list": ("[value.{method}() for value in ", "]"),
    "tuple": ("tuple(value.{method}() for value in ", ")"),
}


@dataclass(frozen=True)
class Repair:
    """One way to mend: a patch of the program, its family, and the statement that it rewrites, by its place and text.

    The patch's label says what it does. `limits`: a backward pass computes the gradients of fewer leaves than before.
    """

    patch: Patch
    kind: Kind
    file: str
    line: int
    source: str
    limits: bool = False


def repairs(facts: Facts, trace: Trace) -> Iterator[list[Repair]]:
    """What may mend the failure that `trace` and `facts` describe: one family after the other, simplest first.

    A family is worked out when it is asked for; no rewrite is in two of them.
    """
    written = _each_once(_out_of_place(facts))
    yield written
    seen = {repair.patch for repair in written}
    # where a library writes (an optimizer's step), it writes parameters, of which no expression here is a copy
    second, third = (_copies_at_save, _moves) if written else (_moves, _copies_at_save)
    for family in (second, third, _detached, _recomputed, _on_copied_parameters, _copies_on_the_way):
        found = [repair for repair in _each_once(family(facts, trace)) if repair.patch not in seen]
        yield found
        seen.update(repair.patch for repair in found)


def _each_once(found: Iterable[Repair]) -> list[Repair]:
    return list({repair.patch: repair for repair in found}.values())


def rewrites(tree: Tree, statement: Statement) -> list[Repair]:
    """The forms of one in-place statement after which every reader of the tensor still finds the same values."""
    exact = sorted((form for form in forms(tree, statement) if form.exact), key=lambda form: form.fresh)
    return [_repair(tree, statement, form.patch, "copy" if form.fresh else "out-of-place") for form in exact]


# ---- the write


def _out_of_place(facts: Facts) -> Iterator[Repair]:
    """The write out-of-place: at the constructor of the module that made it, in the statement, or into a copy."""
    culprit, built = facts.culprit, builder(facts)
    if built is not None:
        for repair in rewrites(facts.tree(built.code.path), built):
            label = repair.patch.label.replace("call", "build", 1).replace("out-of-place", "without `inplace=True`")
            yield replace(repair, patch=replace(repair.patch, label=label), kind="constructor")
    if culprit is None:
        return
    tree = facts.tree(culprit.code.path)
    exact = rewrites(tree, culprit)
    yield from (repair for repair in exact if repair.kind == "out-of-place")
    stands_alone = isinstance(culprit.node, (cst.Expr, cst.AugAssign)) and not hands_on(tree, culprit)
    if not stands_alone and not _assigns_item(culprit.node):
        lossy = [form for form in forms(tree, culprit) if not form.exact and not form.fresh]
        yield from (_repair(tree, culprit, form.patch, "out-of-place") for form in lossy)
    yield from _returned(tree, culprit)
    yield from (repair for repair in exact if repair.kind == "copy")
    if not written(tree, culprit):
        yield from (_repair(tree, culprit, form.patch, "copy") for form in copied_arguments(tree, culprit))


def _returned(tree: Tree, culprit: Statement) -> Iterator[Repair]:
    """For a hook, whose result takes the place of what it was given: the write out-of-place, its result returned."""
    function, targets = function_of(tree, culprit.node), written(tree, culprit)
    if not isinstance(function, cst.FunctionDef) or not targets or not _is_passed_on(tree, function):
        return
    returns = (tree.span(node) in tree.span(function) for node in (*tree.walk(cst.Return), *tree.walk(cst.Yield)))
    if any(returns) or not isinstance(function.body, cst.IndentedBlock):
        return
    last = tree.block_of(function.body)[-1]
    end = last.span.end
    newline = "" if tree.file.text.endswith("\n", 0, end) else "\n"
    line = f"{newline}{last.indent}return {tree.text(targets[0])}\n"
    for form in forms(tree, culprit):
        if not form.before:
            label = f"{form.patch.label} and return the result"
            edits = (*form.patch.edits, Edit(Span(tree.file.path, end, end), (line,)))
            yield _repair(tree, culprit, Patch(edits, label), "out-of-place")


def _is_passed_on(tree: Tree, function: cst.FunctionDef) -> bool:
    """Whether a function is named somewhere without being called there, as a hook is when it is registered."""
    name = function.name.value
    named = names(tree).read.get(name, ())
    attributes = (node for node in tree.walk(cst.Attribute) if node.attr.value == name)
    return any(getattr(tree.parents[node], "func", None) is not node for node in (*named, *attributes))


def _assigns_item(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Assign) and any(isinstance(target.target, cst.Subscript) for target in node.targets)


# ---- what was saved


def _copies_at_save(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """A copy of an operand or of the result of the operation that saved the tensor: the write then meets the other."""
    results_first = trace.attribute is not None and trace.attribute.startswith(("_saved_result", "_saved_out"))
    for place in (*([trace.saved] if trace.saved else []), *trace.also_saved):
        for frame in place.stack[:1]:
            tree = facts.tree(frame.file)
            operations = _operations(tree, frame)
            operands = [(part, "where it is saved") for node in operations for part in _operands(tree, node)]
            results = [(node, "") for node in operations if not isinstance(node, cst.AugAssign)]
            for node, where in [*results, *operands] if results_first else [*operands, *results]:
                label = f"copy {_shown(tree, node)} {where}".rstrip()
                yield from _applied(facts, tree, node, "clone", label, "copy saved")
            for operation in operations:
                yield from _all_arguments(facts, tree, operation)
    yield from _before_hooks(facts, trace)


def _all_arguments(facts: Facts, tree: Tree, call: cst.CSTNode) -> Iterator[Repair]:
    """A copy of each argument of a call that saves several of them: what the method is called on stays itself."""
    if isinstance(call, cst.Call):
        given = [arg.value for arg in call.args if not arg.star]
        copied = [list(_applied(facts, tree, part, "clone", "", "copy saved")) for part in given]
        chosen = [repairs[0] for repairs in copied if repairs]
        if len(chosen) > 1:
            edits = tuple(edit for repair in chosen for edit in repair.patch.edits)
            label = f"copy all that {_shown(tree, call.func)} is given"
            yield replace(chosen[0], patch=Patch(edits, label))


def _before_hooks(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """Where a forward hook writes to what its module has saved: a hook before it that hands on a copy."""
    for frame in trace.mutations[0].place.stack if trace.mutations else ():
        for tree in facts.trees:
            for call in tree.walk(cst.Call):
                statement = tree.statement_around(call)
                if _registers(tree, call, frame) and _begins_line(tree, statement) and own_scope(tree, call):
                    start = Span(statement.code.path, statement.code.start, statement.code.start)
                    copying = "(lambda module, inputs, output: output.clone())"
                    edit = Edit(start, (tree.span(call.func), f"{copying}\n{statement.indent}"))
                    label = f"let a hook before {_shown(tree, call)} copy the output"
                    yield _repair(tree, statement, Patch((edit,), label), "copy saved")


def _registers(tree: Tree, call: cst.Call, frame: Frame) -> bool:
    """Whether a call makes the function of a frame a forward hook."""
    if last_name(call.func) != "register_forward_hook" or not call.args:
        return False
    hook = call.args[0].value
    if isinstance(hook, cst.Lambda):
        return (frame.function, frame.file) == ("<lambda>", tree.file.path) and frame.line in tree.lines(hook)
    return last_name(hook) == frame.function


def _copies_on_the_way(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """A copy of what the calls around are given in which the tensor was saved: one for all that they save of it."""
    for place in (*([trace.saved] if trace.saved else []), *trace.also_saved):
        for frame in place.stack[1:_LEVELS]:
            tree = facts.tree(frame.file)
            for node in _operations(tree, frame):
                for part in _operands(tree, node) if isinstance(node, cst.Call) else ():
                    label = f"copy {_shown(tree, part)} on the way to where it is saved"
                    yield from _applied(facts, tree, part, "clone", label, "copy saved")


def _on_copied_parameters(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """The module that saved one of its own parameters, run on copies of them."""
    for place in (*([trace.saved] if trace.saved else []), *trace.also_saved):
        for frame in place.stack[:_LEVELS]:
            tree = facts.tree(frame.file)
            torch = next((name for name, full in imported(tree).items() if full == "torch"), None)
            for node in _operations(tree, frame):
                if torch is not None and isinstance(node, cst.Call) and _may_be_module(facts, tree, node.func):
                    yield _functional(tree, node, torch)


def _may_be_module(facts: Facts, tree: Tree, callee: cst.BaseExpression) -> bool:
    if not isinstance(callee, (cst.Name, cst.Attribute, cst.Subscript)) or canonical(tree, callee) is not None:
        return False
    known = facts.values(tree.file.path).get(tree.span(callee))
    return known is None or known.kind in ("module", "opaque")


def _functional(tree: Tree, call: cst.Call, torch: str) -> Repair:
    """The call of a module made with copies of its parameters, from a line of their own where there can be one."""
    module, statement = whole(tree, call.func), tree.statement_around(call)
    copies: tuple[Piece, ...] = ("{name: p.clone() for name, p in ", module, ".named_parameters()}")
    edits: tuple[Edit, ...] = ()
    if not statement.compound and _begins_line(tree, statement) and own_scope(tree, call):
        name, start = _unused(tree, "copies"), statement.code.start
        edits = (Edit(Span(module.path, start, start), (f"{name} = ", *copies, f"\n{statement.indent}")),)
        copies = (name,)
    positional = [arg for arg in call.args if arg.keyword is None and arg.star != "**"]
    named = [arg for arg in call.args if arg not in positional]
    values = _listed((arg.star, whole(tree, arg.value)) for arg in positional)
    pieces: list[Piece] = [f"{torch}.func.functional_call(", module, ", ", *copies, ", (", *values]
    pieces += [",)" if len(positional) == 1 else ")"]
    if named:
        keys = (f'"{arg.keyword.value}": ' if arg.keyword else "**" for arg in named)
        pieces += [", {", *_listed(zip(keys, (whole(tree, arg.value) for arg in named), strict=True)), "}"]
    edits += (Edit(tree.span(call), (*pieces, ")")),)
    return _repair(
        tree, statement, Patch(edits, f"run {_shown(tree, call.func)} on copies of its parameters"), "copy parameters"
    )


def _begins_line(tree: Tree, statement: Statement) -> bool:
    start = statement.code.start
    return not tree.file.text[tree.file.text.rfind("\n", 0, start) + 1 : start].strip()


def _unused(tree: Tree, name: str) -> str:
    """The name, with a number where the file has it already."""
    taken = {*names(tree).bound, *names(tree).read, *imported(tree)}
    return next(tried for tried in chain((name,), (f"{name}_{n}" for n in count(2))) if tried not in taken)


def _listed(parts: Iterable[tuple[Piece, ...]]) -> list[Piece]:
    """The parts with commas between them."""
    pieces = [piece for part in parts for piece in (", ", *part)]
    return pieces[1:]


# ---- the order


def _moves(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """The write moved behind the backward pass that needs the tensor, in the function that runs both.

    Then that pass runs before a step that used to come first, so it must not add to the gradients of that step.
    """
    if trace.mutations and trace.needed is not None:
        place = trace.mutations[0].place
        for moved in _behind(facts, place, trace.needed, "move", "behind the backward that needs it"):
            yield moved
            limit = _inputs(facts)
            if limit is not None:
                label = f"{moved.patch.label}, given `inputs=`"
                yield replace(moved, patch=Patch((*moved.patch.edits, limit), label), limits=True)


def _inputs(facts: Facts) -> Edit | None:
    """The edit that lets the backward that needs the tensor compute no gradients but those of the step after it.

    None where that pass is limited already, or no step of an optimizer follows it in its block.
    """
    needing = facts.needing
    if needing is None or needing.compound:
        return None
    tree = facts.tree(needing.code.path)
    called = (call for call in tree.walk(cst.Call) if tree.span(call) in needing.code)
    backward = next((call for call in called if last_name(call.func) == "backward"), None)
    optimizer = _stepping_after(tree, needing)
    if backward is None or not isinstance(backward.func, cst.Attribute) or optimizer is None:
        return None
    if argument(backward, "inputs") is not None or any(arg.star for arg in backward.args):
        return None
    end = whole(tree, backward.args[-1].value).end if backward.args else tree.span(backward).end - 1
    separator = ", " if backward.args else ""
    return Edit(Span(needing.code.path, end, end), (f"{separator}inputs=", *_parameters_of(tree, optimizer)))


def _stepping_after(tree: Tree, statement: Statement) -> cst.Name | cst.Attribute | None:
    """The optimizer of the first `optimizer.step()` behind a statement in its block."""
    block = _block(tree, statement)
    for other in tree.statements:
        call = other.node.value if isinstance(other.node, cst.Expr) else None
        if other.code.start >= statement.code.end and _block(tree, other) is block and isinstance(call, cst.Call):
            func = call.func
            if isinstance(func, cst.Attribute) and func.attr.value == "step" and not call.args:
                return func.value if isinstance(func.value, (cst.Name, cst.Attribute)) else None
    return None


def _parameters_of(tree: Tree, optimizer: cst.Name | cst.Attribute) -> tuple[Piece, ...]:
    """A list of all parameters that an optimizer steps: of the module whose it was built with, where that shows."""
    name = dotted(optimizer)
    built = [
        node
        for node in tree.walk(cst.Assign)
        if name is not None and any(dotted(target.target) == name for target in node.targets)
    ]
    value = built[0].value if len(built) == 1 else None
    first = value.args[0].value if isinstance(value, cst.Call) and value.args and not value.args[0].star else None
    if isinstance(first, cst.Call) and not first.args and last_name(first.func) == "parameters":
        root = (dotted(first.func) or "").partition(".")[0]
        here = next((node for node in tree.ancestors(optimizer) if isinstance(node, cst.FunctionDef)), None)
        there = next((node for node in tree.ancestors(built[0]) if isinstance(node, cst.FunctionDef)), None)
        if root and (there is here or there is None or (root == "self" and (name or "").startswith("self."))):
            return "list(", whole(tree, first), ")"
    return "[p for group in ", tree.span(optimizer), '.param_groups for p in group["params"]]'


def _recomputed(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """What saved the tensor moved behind the write, so that it is computed from the new values."""
    if trace.mutations and trace.saved is not None:
        changed = trace.mutations[0].place
        yield from _behind(facts, trace.saved, changed, "recompute", "behind the write, to use the new values")


def _behind(facts: Facts, first: Place, second: Place, kind: Kind, where: str) -> Iterator[Repair]:
    met = _meeting(facts, first, second)
    if met is not None:
        tree, moved, behind = met
        if _gives_names(tree, moved, behind):
            return
        for patch in moved_behind(tree, moved, behind):
            yield _repair(tree, moved, Patch(patch.edits, f"move `{_header(tree, moved)}` {where}"), kind)


def _meeting(facts: Facts, first: Place, second: Place) -> tuple[Tree, Statement, Statement] | None:
    """The statements of one block that the two places run under, where their stacks part; None when in none."""
    for one, other in zip(reversed(first.stack), reversed(second.stack), strict=False):
        if (one.file, one.function) != (other.file, other.function):
            return None
        tree = facts.tree(one.file)
        statements = tree.statement_at(one.line, one.column), tree.statement_at(other.line, other.column)
        if statements[0] is None or statements[1] is None:
            return None
        if statements[0].node is not statements[1].node:
            siblings = _siblings(tree, statements[0], statements[1])
            return None if siblings is None else (tree, *siblings)
    return None


def _gives_names(tree: Tree, moved: Statement, behind: Statement) -> bool:
    """Whether what comes before the new place of a statement, from its old place on, uses a name that it binds."""
    between = Span(moved.code.path, moved.code.end, behind.code.end)
    known = names(tree)
    given = {
        name
        for name, nodes in known.bound.items()
        for node in nodes
        if tree.span(node) in moved.code and not isinstance(tree.parents[node], cst.AugAssign)
    }
    return any(tree.span(node) in between for name in given for node in known.read.get(name, ()))


def _siblings(tree: Tree, first: Statement, second: Statement) -> tuple[Statement, Statement] | None:
    """The two statements, or those around them, that are members of the same block."""
    around = {_block(tree, statement): statement for statement in _around(tree, second)}
    for statement in _around(tree, first):
        other = around.get(_block(tree, statement))
        if other is not None:
            return None if other.node is statement.node else (statement, other)
    return None


def _around(tree: Tree, statement: Statement) -> Iterator[Statement]:
    yield statement
    for node in tree.ancestors(statement.node):
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return
        if node in tree.statement_of:
            yield tree.statement_of[node]


def _block(tree: Tree, statement: Statement) -> cst.CSTNode:
    parent = tree.parents[statement.node]
    return tree.parents[parent] if isinstance(parent, cst.SimpleStatementLine) else parent


# ---- what is carried over


def _detached(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """What was computed before the write and is read after it, cut off from its graph."""
    everything: list[Repair] = []
    for place in trace.carried:
        for frame in place.stack[:_LEVELS]:
            tree = facts.tree(frame.file)
            for node in _operations(tree, frame):
                for part in _operands(tree, node):
                    label = f"detach {_shown(tree, part)}, which is carried over"
                    everything += _applied(facts, tree, part, "detach", label, "detach")
    yield from everything
    yield from _detached_results(facts, trace)
    innermost = [place.stack[0] for place in trace.carried if place.stack]
    firsts = [repair for repair in everything if any(_on(repair, frame) for frame in innermost)]
    if len({(repair.file, repair.line) for repair in firsts}) > 1:
        edits = tuple(dict.fromkeys(edit for repair in firsts for edit in repair.patch.edits))
        yield Repair(
            Patch(edits, "detach all that is carried over"), "detach", firsts[0].file, firsts[0].line, firsts[0].source
        )


def _detached_results(facts: Facts, trace: Trace) -> Iterator[Repair]:
    """What the calls return in which the tensor was saved, cut off from its graph, where the graph is carried over."""
    for frame in trace.saved.stack[1:_LEVELS] if trace.saved is not None and trace.carried else ():
        tree = facts.tree(frame.file)
        for node in _operations(tree, frame):
            known = facts.values(frame.file).get(tree.span(node))
            if isinstance(node, cst.Call) and known is not None and known.text != "None":
                yield from _applied(facts, tree, node, "detach", f"detach {_shown(tree, node)}", "detach")


def _on(repair: Repair, frame: Frame) -> bool:
    return (repair.file, repair.line) == (frame.file, frame.line)


# ---- expressions


def _operations(tree: Tree, frame: Frame) -> list[cst.BaseExpression | cst.AugAssign]:
    """The operation that a frame was running; every one of its statement where Python tells no columns."""
    statement = tree.statement_at(frame.line, frame.column)
    if statement is None:
        return []
    header = tree.header(statement.node)
    inside = [node for node in tree.expressions if isinstance(node, _OPERATIONS) and tree.span(node) in header]
    if frame.column is not None and frame.end_line is not None and frame.end_column is not None:
        running = tree.file.span_of(frame.line, frame.column, frame.end_line, frame.end_column)
        exact = [node for node in inside if tree.span(node) == running]
        if exact:
            return [exact[0]]
    if isinstance(statement.node, cst.AugAssign):
        return [statement.node, *(node for node in inside if isinstance(node, (cst.Call, cst.BinaryOperation)))]
    return [node for node in inside if isinstance(node, (cst.Call, cst.BinaryOperation))]


def _operands(tree: Tree, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The expressions whose values an operation takes, elements of a list that is written out one by one."""
    match node:
        case cst.BinaryOperation():
            parts = [node.left, node.right]
        case cst.UnaryOperation():
            parts = [node.expression]
        case cst.Comparison():
            parts = [node.left]
        case cst.AugAssign() | cst.Subscript() | cst.Attribute():
            parts = [node.value]
        case cst.Call():
            bound = isinstance(node.func, cst.Attribute) and canonical(tree, node.func) is None
            parts = [arg.value for arg in node.args if not arg.star]
            parts += [node.func.value] if bound and isinstance(node.func, cst.Attribute) else []
        case _:
            parts = []
    flat: list[cst.BaseExpression] = []
    for part in parts:
        if isinstance(part, (cst.List, cst.Tuple)):
            flat += [element.value for element in part.elements if isinstance(element, cst.Element)]
        else:
            flat.append(part)
    return flat


def _applied(
    facts: Facts, tree: Tree, node: cst.BaseExpression, method: str, label: str, kind: Kind
) -> Iterator[Repair]:
    """The expression with a method applied to its value, or to each tensor of a list or dict; none when it has none."""
    if isinstance(node, (cst.SimpleString, cst.Integer, cst.Float, cst.Lambda)) or tree.text(node) in _NO_TENSORS:
        return
    known = facts.values(tree.file.path).get(tree.span(node))
    if known is not None and not _has_tensors(known):
        return
    if known is not None and known.text == "None":  # at first: what else it is later nobody has seen
        made = [_unless_none(tree, node, _with_method(tree, node, kind, method)) for kind in ("tensor", "tuple")]
    else:
        made = [_with_method(tree, node, known.kind if known is not None else "tensor", method)]
    for pieces in made:
        edit = Edit(whole(tree, node), pieces)
        yield _repair(tree, tree.statement_around(node), Patch((edit,), label), kind)


def _with_method(tree: Tree, node: cst.BaseExpression, kind: str, method: str) -> tuple[Piece, ...]:
    """A value of some kind with a method applied to it, or to each tensor that it holds."""
    here = whole(tree, node)
    if kind in _COMPOSITE:
        opening, closing = _COMPOSITE[kind]
        return opening.format(method=method), here, closing.format()
    return *parenthesised(here, needs_parentheses(tree, node, _LINK)), f".{method}()"


def _unless_none(tree: Tree, node: cst.BaseExpression, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    chosen: tuple[Piece, ...] = ("None if ", whole(tree, node), " is None else ", *pieces)
    return chosen if delimited(tree, node) else ("(", *chosen, ")")


_NO_TENSORS = frozenset({"self", "cls", "True", "False", "None", "..."})


def _has_tensors(value: Value) -> bool:
    if value.kind in ("list", "tuple", "dict"):
        return bool(value.items) and all(item.kind == "tensor" for item in value.items)
    return value.kind == "tensor" or value.text == "None"


# ---- how they are shown


def _repair(tree: Tree, statement: Statement, patch: Patch, kind: Kind) -> Repair:
    return Repair(patch, kind, tree.file.path, statement.lines.start, _header(tree, statement))


def _header(tree: Tree, statement: Statement) -> str:
    span = tree.header(statement.node)
    return " ".join(tree.file.text[span.start : span.end].split())


def _shown(tree: Tree, node: cst.CSTNode) -> str:
    text = " ".join(tree.text(node).split())
    return f"`{text}`" if len(text) <= _LONGEST_SHOWN else f"`{text[: _LONGEST_SHOWN - 3]}...`"


def rebased(patch: Patch, program: Program) -> Patch | None:
    """The patch of a changed program as a patch of the original; None where it touches what the changes wrote."""
    edits = []
    for edit in patch.edits:
        span = _original(program, edit.span)
        if span is None:
            return None
        pieces: Iterable[Piece | None] = (
            piece if isinstance(piece, str) else _original(program, piece) or program.text(piece)
            for piece in edit.replacement
        )
        edits.append(Edit(span, tuple(piece for piece in pieces if piece is not None), None))
    return Patch(tuple(edits), patch.label)


def _original(program: Program, span: Span) -> Span | None:
    """Where the characters of a span stand in the original, if they were copied from one stretch of it."""
    for run in program[span.path].runs:
        if run.start <= span.start and span.end <= run.start + run.length:
            offset = run.offset - run.start
            return Span(run.path, span.start + offset, span.end + offset)
    return None
