"""In-place statements, and the out-of-place forms that each of them could have been written in.

`forms` knows them; the pass, the twin and the bisection choose among them. A form is a proposal: whether it runs, and
whether it stops or keeps the failure, only a run can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import zip_longest

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import descendants, names, removal, whole, within, without
from shrinkrepro.passes.syntax import (
    VIEWS,
    argument,
    canonical,
    dotted,
    imported,
    is_true,
    last_name,
    needs_parentheses,
    own_scope,
    parenthesised,
)
from shrinkrepro.program.edit import Edit, Patch, Piece
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Statement, Tree

# in-place methods of Tensor that have no counterpart without the underscore, or one that means something else
# fmt: off
NO_COUNTERPART = frozenset({
    "apply_", "bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "fill_diagonal_", "geometric_", "log_normal_",
    "map2_", "map_", "normal_", "random_", "resize_", "resize_as_", "resize_as_sparse_", "set_", "sparse_resize_",
    "sparse_resize_and_clear_", "uniform_", "zero_",
})
# fmt: on
# change what a tensor is for autograd or for processes, never its values
FLAGS = frozenset({"rename_", "requires_grad_", "retain_grad_", "share_memory_"})
# where `inplace` may stand when it is passed by position: functions count their input, constructors start without
INPLACE_POSITION = {
    **dict.fromkeys(("hardsigmoid", "hardswish", "mish", "relu", "relu6", "selu", "silu"), 1),
    **dict.fromkeys(("celu", "elu", "leaky_relu"), 2),
    **dict.fromkeys(("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"), 3),
    **dict.fromkeys(("hardtanh", "threshold"), 3),
    "rrelu": 4,
    **dict.fromkeys(("Hardsigmoid", "Hardswish", "Mish", "ReLU", "ReLU6", "SELU", "SiLU"), 0),
    **dict.fromkeys(("AlphaDropout", "CELU", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU"), 1),
    **dict.fromkeys(("FeatureAlphaDropout", "LeakyReLU"), 1),
    **dict.fromkeys(("Hardtanh", "RReLU", "Threshold"), 2),
}
_ALIASES = frozenset({"data", "detach", "contiguous", "view_as", "to", "cpu", "cuda", "requires_grad_"})
_LIKE = {
    "zeros_": "zeros_like",
    "ones_": "ones_like",
    "constant_": "full_like",
    "zero_": "zeros_like",
    "fill_": "full_like",
}
# fmt: off
_DRAWN = frozenset({
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
})
# fmt: on
_PRECEDENCE: tuple[tuple[type[cst.BaseBinaryOp], ...], ...] = (
    (cst.BitOr,),
    (cst.BitXor,),
    (cst.BitAnd,),
    (cst.LeftShift, cst.RightShift),
    (cst.Add, cst.Subtract),
    (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.MatrixMultiply),
    (cst.Power,),
)
_AUGMENTED: tuple[tuple[type[cst.BaseAugOp], ...], ...] = (
    (cst.BitOrAssign,),
    (cst.BitXorAssign,),
    (cst.BitAndAssign,),
    (cst.LeftShiftAssign, cst.RightShiftAssign),
    (cst.AddAssign, cst.SubtractAssign),
    (cst.MultiplyAssign, cst.DivideAssign, cst.FloorDivideAssign, cst.ModuloAssign, cst.MatrixMultiplyAssign),
    (cst.PowerAssign,),
)
_MASK = m.Comparison() | m.UnaryOperation(operator=m.BitInvert()) | m.BinaryOperation(operator=m.BitAnd() | m.BitOr())
_NUMBER = m.Integer() | m.Float() | m.UnaryOperation(expression=m.Integer() | m.Float())


@dataclass(frozen=True)
class Form:
    """One way to write an in-place statement out-of-place.

    `exact`: whoever reads the tensor under the same name afterwards sees the values that the in-place statement would
    have left. `fresh`: it still writes in place, but into a copy that nobody else holds. `before`: the statement stays,
    that copy is made before it.
    """

    patch: Patch
    exact: bool
    fresh: bool = False
    before: bool = False


@dataclass(frozen=True)
class _Target:
    """What a write changes: `base` can be assigned to; `part` when the write goes to a view or an item of it."""

    base: cst.Name | cst.Attribute
    part: bool


@dataclass(frozen=True)
class _Write:
    """A call that writes in place: `edits` make it return its result instead. `fresh` as in Form."""

    call: cst.Call
    written: cst.BaseExpression | None
    edits: tuple[Edit, ...]
    fresh: bool = False


def out_of_place_elsewhere(program: Program, facts: Facts) -> Iterator[Patch]:
    """Write every in-place statement but the culprit out-of-place: each one left is a suspect for the reader.

    Before:
        x += 1
        y = x.relu_()
        torch.matmul(a, b, out=y)
    After:
        x = x + 1
        y = x.relu_()
        torch.matmul(a, b, out=y)

    Before:
        y = F.relu(x, inplace=True)
    After:
        y = F.relu(x)

    Before:
        w.data.clamp_(-1, 1).mul_(2)
    After:
        w = w.data.clamp(-1, 1).mul(2)
    """
    kept = {statement.code for statement in (facts.culprit, builder(facts)) if statement is not None}
    proposals = [
        [form.patch for form in forms(tree, statement) if not form.fresh]
        for tree in reversed(facts.trees)
        for statement in reversed(tree.statements)
        if statement.code not in kept
    ]
    for alternatives in zip_longest(*proposals):
        yield from (patch for patch in alternatives if patch is not None)


def out_of_place(tree: Tree, statement: Statement) -> list[Patch]:
    """Every out-of-place form of one in-place statement, simplest first, its deletion last.

    Empty when nothing in it is written in a form that can write in place.
    """
    found = [form.patch for form in forms(tree, statement)]
    return [*found, *_deletion(tree, statement)] if found else []


def twins(program: Program, facts: Facts) -> list[Patch]:
    """Candidates for the same program with only the culprit written out-of-place, best first.

    First those after which every reader of the tensor sees the same values as before, then the culprit moved behind
    the statement that needs the tensor, then those that lose what was written.
    """
    culprit, built = facts.culprit, builder(facts)
    if culprit is None:
        return []
    tree = facts.tree(culprit.code.path)
    known = forms(facts.tree(built.code.path), built) if built is not None else []
    own = forms(tree, culprit)
    ranked = [*known, *(form for form in own if form.exact), *copied_arguments(tree, culprit)]
    patches = [form.patch for form in ranked]
    patches += moved_behind(tree, culprit, facts.needing)
    patches += [form.patch for form in own if not form.exact]
    patches += _deletion(tree, culprit)
    return list(dict.fromkeys(patches))


def forms(tree: Tree, statement: Statement) -> list[Form]:
    """The out-of-place forms of one statement, simplest first; of a compound one, those of its first line."""
    node = statement.node
    writes = _writes(tree, statement)
    found: list[Form] = []
    if isinstance(node, cst.AugAssign):
        found += _augmented(tree, statement, node)
    elif isinstance(node, cst.Assign) and any(isinstance(target, cst.Subscript) for target in _assigned(node)):
        found += _item_assignment(tree, statement, node)
    found += _calls(tree, statement, writes) if writes else []
    targets = [target.base for place in written(tree, statement) if (target := _target(tree, place)) is not None]
    if any(_borrowed(tree, statement, base) and _read_no_more(tree, statement, base) for base in targets):
        # whoever sees the write sees it by another name: whatever binds this one anew loses it
        found = [replace(form, exact=False) for form in found]
    return found


def written(tree: Tree, statement: Statement) -> list[cst.BaseExpression]:
    """What a statement that does nothing else can be seen to write to."""
    node = statement.node
    if isinstance(node, cst.AugAssign):
        return [node.target]
    if isinstance(node, cst.Assign):
        return [target for target in _assigned(node) if isinstance(target, cst.Subscript)]
    if isinstance(node, cst.Expr):
        return [write.written for write in _writes(tree, statement) if write.written is not None]
    return []


def hands_on(tree: Tree, statement: Statement) -> bool:
    """Whether an expression around it takes the value of a call in a statement that writes: an argument, a lambda."""
    return not _Rewrite(tree, statement, tuple(_writes(tree, statement))).lone


def _writes(tree: Tree, statement: Statement) -> list[_Write]:
    """The calls of a statement that can be seen to write."""
    calls = _calls_of(tree).get(statement.node, ())
    return [write for call in calls if (write := _write(tree, call)) is not None]


# ---- augmented assignments and assignments to items


def _augmented(tree: Tree, statement: Statement, node: cst.AugAssign) -> list[Form]:
    """`x += y` and `x[i] += y`."""
    symbol = tree.text(node.operator).removesuffix("=")
    value = parenthesised(whole(tree, node.value), _binds_looser(node.value, node.operator))
    place, name = tree.span(node.target), _shown(tree, node.target)
    base = _target(tree, node.target)

    def becomes(label: str, result: Span, *pieces: Piece, more: tuple[Edit, ...] = ()) -> Patch:
        return _patch(label, *more, Edit(statement.code, (result, " = ", *pieces)))

    plain = becomes(f"write {name} {symbol}= out-of-place", place, place, f" {symbol} ", *value)
    copies = _copied_before(tree, statement, [node.target])
    if isinstance(node.target, (cst.Name, cst.Attribute)):
        found = [Form(plain, exact=True)]
        if isinstance(node.target, cst.Attribute) and (torch := _torch(tree)):
            pieces = (f"{torch}.nn.Parameter(", place, f" {symbol} ", *value, ")")
            found.append(Form(becomes(f"make {name} a new parameter", place, *pieces), exact=True))
        elif _without_grad(tree, statement):
            pieces = ("(", place, f" {symbol} ", *value, ").requires_grad_()")
            found.append(Form(becomes(f"make {name} a new leaf", place, *pieces), exact=True, fresh=True))
        return [*found, *copies]
    found = []
    binding = _binding(tree, statement, base.base) if base is not None else None
    if base is not None and binding is not None:
        whole_of = tree.span(base.base)
        index = _mask(node.target)
        if index is not None and (torch := _torch(tree)):
            pieces = (f"{torch}.where(", whole(tree, index), ", ", whole_of, f" {symbol} ", *value, ", ", whole_of, ")")
            label = f"choose between {name} {symbol} and the old value"
            found.append(Form(becomes(label, whole_of, *pieces, more=binding), exact=True))
        label = f"write all of {_shown(tree, base.base)} out-of-place"
        pieces = (whole_of, f" {symbol} ", *value)
        found.append(Form(becomes(label, whole_of, *pieces, more=binding), exact=False))
    return [*found, *copies, Form(plain, exact=True, fresh=True)]


def _binds_looser(value: cst.BaseExpression, operator: cst.BaseAugOp) -> bool:
    """Whether `value` needs parentheses as the right operand of `operator`."""
    if value.lpar:
        return False
    if isinstance(value, cst.BinaryOperation):
        left = next(rank for rank, kinds in enumerate(_AUGMENTED) if isinstance(operator, kinds))
        return next(rank for rank, kinds in enumerate(_PRECEDENCE) if isinstance(value.operator, kinds)) <= left
    return isinstance(
        value,
        (cst.BooleanOperation, cst.Comparison, cst.IfExp, cst.Lambda, cst.Tuple, cst.Yield, cst.Await, cst.NamedExpr),
    ) or m.matches(value, m.UnaryOperation(operator=m.Not()))


def _item_assignment(tree: Tree, statement: Statement, node: cst.Assign) -> list[Form]:
    """`x[i] = y`, alone or with other targets."""
    targets = [target for target in _assigned(node) if isinstance(target, cst.Subscript)]
    bases = [(target, base) for target in targets if (base := _target(tree, target)) is not None]
    found: list[Form] = []
    index = _mask(targets[0]) if len(node.targets) == 1 and targets[0] is node.targets[0].target else None
    bindings = [_binding(tree, statement, base.base) for _, base in bases]
    more = [edit for binding in bindings for edit in binding or ()]
    assignable = len(bases) == len(targets) and None not in bindings
    if index is not None and assignable and m.matches(node.value, _NUMBER):
        here = tree.span(bases[0][1].base)
        pieces = (here, " = ", here, ".masked_fill(", whole(tree, index), ", ", whole(tree, node.value), ")")
        label = f"fill {_shown(tree, targets[0])} out-of-place"
        found.append(Form(_patch(label, *more, Edit(statement.code, pieces)), exact=True))
    if assignable:
        edits = [Edit(tree.span(target), (tree.span(base.base),)) for target, base in bases]
        shown = ", ".join(_shown(tree, base.base) for _, base in bases)
        found.append(Form(_patch(f"assign all of {shown}", *more, *edits), exact=False))
    return [*found, *_copied_before(tree, statement, targets)]


def _assigned(node: cst.Assign) -> Iterator[cst.BaseExpression]:
    """The targets of an assignment, those inside tuples and lists one by one."""
    waiting: list[cst.BaseExpression] = [target.target for target in node.targets]
    while waiting:
        target = waiting.pop(0)
        if isinstance(target, (cst.Tuple, cst.List)):
            waiting[:0] = [element.value for element in target.elements]
        else:
            yield target


def _mask(target: cst.BaseExpression) -> cst.BaseExpression | None:
    """The condition in `x[condition]`."""
    match = m.extract(
        target, m.Subscript(slice=[m.SubscriptElement(slice=m.Index(value=m.SaveMatchedNode(_MASK, "mask")))])
    )
    found = match.get("mask") if match else None
    return found if isinstance(found, cst.BaseExpression) else None


# ---- calls


@dataclass(frozen=True, eq=False)
class _Rewrite:
    """A statement whose calls write in place, and what it takes to write them out-of-place."""

    tree: Tree
    statement: Statement
    writes: tuple[_Write, ...]

    @cached_property
    def edits(self) -> tuple[Edit, ...]:
        """The edits that make every call return its result instead."""
        return tuple(edit for write in self.writes for edit in write.edits)

    @cached_property
    def top(self) -> _Write | None:
        """The write whose result is the value of the statement."""
        value = getattr(self.statement.node, "value", None)
        return next((write for write in self.writes if write.call is value), None)

    @cached_property
    def target(self) -> _Target | None:
        """What `top` writes to."""
        if self.top is None or self.top.written is None or not own_scope(self.tree, self.top.call):
            return None
        return _target(self.tree, self.top.written)

    @cached_property
    def lone(self) -> bool:
        """Whether the value of the statement is all that is written."""
        chain = _chain(self.top.call) if self.top is not None else []
        return all(write.call in chain or write.written is None for write in self.writes)

    @property
    def fresh(self) -> bool:
        return any(write.fresh for write in self.writes)

    @property
    def label(self) -> str:
        return f"call {', '.join(dict.fromkeys(last_name(write.call.func) for write in self.writes))} out-of-place"

    def bare(self) -> Form:
        """The form that leaves what was written to as it is."""
        lossless = all(write.written is None for write in self.writes)
        alone = isinstance(self.statement.node, cst.Expr) and self.lone
        label = f"{self.label} and lose what it wrote" if alone and not lossless else self.label
        return Form(_patch(label, *self.edits), exact=lossless, fresh=self.fresh)


def _calls(tree: Tree, statement: Statement, writes: Sequence[_Write]) -> list[Form]:
    """Statements whose calls write: methods and functions with an underscore, `inplace=True`, `out=`."""
    rewrite = _Rewrite(tree, statement, tuple(writes))
    found: list[Form] = []
    if rewrite.edits and rewrite.target is not None and isinstance(statement.node, cst.Expr):
        found = [*_result_to_target(rewrite, rewrite.target), rewrite.bare()]
    elif rewrite.edits and rewrite.target is not None and isinstance(statement.node, cst.Assign):
        found = list(_result_to_both(rewrite, rewrite.target, statement.node))
    elif rewrite.edits:
        found = [rewrite.bare()]
    if len(writes) > 1 and rewrite.top is None:
        found += [_Rewrite(tree, statement, (write,)).bare() for write in writes if write.edits]
    copyable = [write.written for write in writes if not last_name(write.call.func).startswith("_foreach_")]
    return [*found, *_copied_before(tree, statement, [written for written in copyable if written is not None])]


def _result_to_target(rewrite: _Rewrite, target: _Target) -> Iterator[Form]:
    """The forms of a bare call, `x.relu_()`, that give its result to the tensor that it wrote to."""
    tree, statement, base = rewrite.tree, rewrite.statement, target.base
    binding = _binding(tree, statement, base)
    if binding is not None:
        exact = rewrite.lone and not target.part
        # literal text, not a copy: an edit at the end of a copied name would be made in the copy too
        name = tree.text(base)
        label = f"{rewrite.label}, as all of {_shown(tree, base)}" if target.part else rewrite.label
        yield Form(_around(rewrite, label, binding, f"{name} = "), exact, rewrite.fresh)
        if isinstance(base, cst.Attribute) and (torch := _torch(tree)):
            label = f"make {_shown(tree, base)} a new parameter"
            yield Form(_around(rewrite, label, binding, f"{name} = {torch}.nn.Parameter(", ")"), exact, rewrite.fresh)
        elif _without_grad(tree, statement):
            label = f"make {_shown(tree, base)} a new leaf"
            yield Form(_around(rewrite, label, binding, f"{name} = ", ".requires_grad_()"), exact, fresh=True)
    if rewrite.top is not None and isinstance(rewrite.top.written, cst.Subscript):
        item = f"{tree.text(rewrite.top.written)} = "
        yield Form(_around(rewrite, rewrite.label, (), item), exact=rewrite.lone, fresh=True)


def _result_to_both(rewrite: _Rewrite, target: _Target, node: cst.Assign) -> Iterator[Form]:
    """The forms of `y = x.relu_()`: only `y` gets the result, or `x` as well."""
    tree, binding = rewrite.tree, _binding(rewrite.tree, rewrite.statement, target.base)
    same = any(dotted(place.target) == dotted(target.base) is not None for place in node.targets)
    if same and not target.part:
        yield Form(_patch(rewrite.label, *rewrite.edits), exact=rewrite.lone, fresh=rewrite.fresh)
        return
    if rewrite.lone and _read_no_more(tree, rewrite.statement, target.base):
        yield Form(_patch(rewrite.label, *rewrite.edits), exact=True, fresh=rewrite.fresh)
        return
    yield rewrite.bare()
    if binding is not None and not target.part:
        start = whole(tree, node.value).start
        insertion = Edit(Span(tree.file.path, start, start), (f"{tree.text(target.base)} = ",))
        yield Form(_patch(rewrite.label, *binding, insertion, *rewrite.edits), exact=rewrite.lone, fresh=rewrite.fresh)


def _read_no_more(tree: Tree, statement: Statement, base: cst.Name | cst.Attribute) -> bool:
    """Whether nothing reads a name again, once the statement has run, before it is bound anew.

    The name must belong to the function around the statement, or to the module where there is none.
    """
    if not isinstance(base, cst.Name):
        return False
    function = function_of(tree, statement.node)
    known, scope = names(tree), function or tree.module
    if not _within_scope(tree, known.bound.get(base.value, ()), scope):
        return False
    rounds = [loop for loop in tree.ancestors(statement.node) if isinstance(loop, (cst.For, cst.While))]
    rounds = [loop for loop in rounds if function_of(tree, loop) is function]
    anew = next((n for n, loop in enumerate(rounds) if isinstance(loop, cst.For) and _binds(loop, base.value)), None)
    for read in _within_scope(tree, known.read.get(base.value, ()), scope):
        at = tree.span(read)
        if function_of(tree, read) is not function or at.start >= statement.code.end:
            return False
        if any(at in tree.span(loop) for loop in rounds[:anew]):
            return False
    return True


def _borrowed(tree: Tree, statement: Statement, base: cst.Name | cst.Attribute) -> bool:
    """Whether a name is one more for something that has another: an argument, an item of a loop, part of an object."""
    if not isinstance(base, cst.Name):
        return False
    scope = function_of(tree, statement.node) or tree.module
    return any(_names_another(tree, node) for node in _within_scope(tree, names(tree).bound.get(base.value, ()), scope))


def _names_another(tree: Tree, name: cst.Name) -> bool:
    """Whether what binds a name gives it something that is there already, and not what a call or operator returns."""
    for node in tree.ancestors(name):
        if isinstance(node, (cst.Param, cst.For)):
            return True
        if isinstance(node, cst.Assign):
            return isinstance(node.value, (cst.Name, cst.Attribute, cst.Subscript))
        if not isinstance(node, (cst.Element, cst.Tuple, cst.List, cst.AssignTarget)):
            return False
    return False


def _within_scope(tree: Tree, nodes: Iterable[cst.Name], scope: cst.CSTNode) -> tuple[cst.Name, ...]:
    return tuple(nodes) if scope is tree.module else within(tree, nodes, scope)


def _binds(loop: cst.For, name: str) -> bool:
    return any(isinstance(node, cst.Name) and node.value == name for node in (loop.target, *descendants(loop.target)))


def function_of(tree: Tree, node: cst.CSTNode) -> cst.CSTNode | None:
    """The function or lambda that a node is part of."""
    return next((around for around in tree.ancestors(node) if isinstance(around, (cst.FunctionDef, cst.Lambda))), None)


def _around(rewrite: _Rewrite, label: str, binding: tuple[Edit, ...], start: str, end: str = "") -> Patch:
    """The calls written out-of-place, with text before and after the statement that they are."""
    code = rewrite.statement.code
    opening = Edit(Span(code.path, code.start, code.start), (start,))
    closing = [Edit(Span(code.path, code.end, code.end), (end,))] if end else []
    return _patch(label, *binding, opening, *rewrite.edits, *closing)


def _chain(call: cst.Call) -> list[cst.BaseExpression]:
    """A call and the calls of in-place methods that it is chained to: both of `x.sub_(1).div_(2)`."""
    links: list[cst.BaseExpression] = [call]
    while m.matches(links[-1], m.Call(func=m.Attribute(value=m.Call()))):
        link = links[-1]
        assert isinstance(link, cst.Call)
        assert isinstance(link.func, cst.Attribute)
        if not link.func.attr.value.endswith("_"):
            break
        links.append(link.func.value)
    return links


@lru_cache(maxsize=16)
def _calls_of(tree: Tree) -> Mapping[cst.CSTNode, tuple[cst.Call, ...]]:
    """The calls of each statement, those of the statements in its block left out, by its node."""
    found: dict[cst.CSTNode, list[cst.Call]] = {}
    for call in tree.walk(cst.Call):
        found.setdefault(tree.statement_around(call).node, []).append(call)
    return {node: tuple(calls) for node, calls in found.items()}


def _write(tree: Tree, node: cst.Call) -> _Write | None:
    """What a call writes in place, when its form shows that it does."""
    name, full = last_name(node.func), canonical(tree, node.func) or ""
    flag = argument(node, "inplace", INPLACE_POSITION.get(name) if full.startswith("torch.") else None)
    if flag is not None and is_true(flag.value):
        given = node.args[0]
        first = None if name[:1].isupper() or given is flag or given.star else given.value
        last = flag is node.args[-1] or flag.keyword is not None
        edits = without(tree, node.args, [node.args.index(flag)]) if last else (Edit(tree.span(flag), ("False",)),)
        return _Write(node, first, edits)
    out = argument(node, "out")
    if out is not None and full.startswith(("torch.", "numpy.")):
        return _Write(node, out.value, without(tree, node.args, [node.args.index(out)]))
    if not name.endswith("_") or name.endswith("__") or name in FLAGS:
        return None
    if full:
        return _function_write(tree, node, name, full)
    if isinstance(node.func, cst.Attribute) and name not in _defined(tree):
        return _method_write(tree, node, node.func)
    return None


def _method_write(tree: Tree, call: cst.Call, func: cst.Attribute) -> _Write:
    """`x.add_(1)`."""
    receiver, name = func.value, func.attr.value
    here, torch = whole(tree, receiver), _torch(tree)
    if name == "copy_" and call.args and not call.args[0].star:
        source = call.args[0].value
        wrapped = needs_parentheses(tree, source, func)
        pieces = (*parenthesised(whole(tree, source), wrapped), ".clone()")
        return _Write(call, receiver, (Edit(tree.span(call), pieces),))
    if name in _LIKE and torch:
        inside: tuple[Piece, ...] = (here,)
        if call.args:
            inside += (", ", Span(here.path, tree.span(call.args[0]).start, tree.span(call.args[-1]).end))
        return _Write(call, receiver, (Edit(tree.span(call), (f"{torch}.{_LIKE[name]}(", *inside, ")")),))
    if name in _DRAWN and torch:
        return _Write(call, receiver, (Edit(here, (f"{torch}.empty_like(", here, ")")),), fresh=True)
    if name in NO_COUNTERPART:
        return _Write(call, receiver, (Edit(tree.span(func.attr), (f"clone().{name}",)),), fresh=True)
    return _Write(call, receiver, (Edit(tree.span(func.attr), (name[:-1],)),))


def _function_write(tree: Tree, call: cst.Call, name: str, full: str) -> _Write | None:
    """`torch.relu_(x)`, `nn.init.zeros_(w)`, `torch._foreach_mul_(xs, 2)`; None when it is no function of torch."""
    if not full.startswith("torch.") or not call.args or call.args[0].star:
        return None
    first = call.args[0].value
    here = whole(tree, first)
    if full.startswith("torch.nn.utils.") or "._fused_" in full or "._amp_" in full:
        return _Write(call, None, ())
    torch = _torch(tree)
    if name in _LIKE and torch:
        callee = tree.span(call.func)
        return _Write(call, first, (Edit(callee, (f"{torch}.{_LIKE[name]}",)),))
    if full.startswith("torch.nn.init."):
        wrapped = needs_parentheses(tree, first, call.func)
        opening = (Edit(Span(here.path, here.start, here.start), ("(",)),) if wrapped else ()
        closing = Edit(Span(here.path, here.end, here.end), (").clone()" if wrapped else ".clone()",))
        return _Write(call, first, (*opening, closing), fresh=True)
    if name in {"_foreach_copy_", "_foreach_zero_"}:
        return _Write(call, first, ())
    attr = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    if attr is call.func:  # `from torch import relu_`: the counterpart has no name here
        return (
            _Write(call, first, (Edit(tree.span(attr), (f"{torch}.{name[:-1]}",)),))
            if torch
            else _Write(call, first, ())
        )
    return _Write(call, first, (Edit(tree.span(attr), (name[:-1],)),))


# ---- what is written to


def _target(tree: Tree, written: cst.BaseExpression) -> _Target | None:
    """The name or attribute that a written expression is, or is a view or an item of."""
    part = False
    node = written
    while True:
        if isinstance(node, cst.Subscript):
            part, node = True, node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            if name in VIEWS:
                part = True
            elif name not in _ALIASES and not name.endswith("_"):
                return None
            node = node.func.value
        elif isinstance(node, cst.Attribute) and node.attr.value in VIEWS | {"data"}:
            part, node = part or node.attr.value in VIEWS, node.value
        elif isinstance(node, (cst.Name, cst.Attribute)):
            assignable = canonical(tree, node) is None and dotted(node) not in {"self", "cls"}
            return _Target(node, part) if assignable else None
        else:
            return None


def _copied_before(tree: Tree, statement: Statement, written: Sequence[cst.BaseExpression]) -> list[Form]:
    """The forms that write into a copy: `x = x.clone()` stands before the statement.

    For an item of a container (`xs[0][1]`) the copy may be due at any level, and for an attribute as a parameter.
    """
    if statement.compound:
        return []
    copied: list[tuple[cst.BaseExpression, tuple[Edit, ...]]] = []
    for node in written:
        target = _target(tree, node) if own_scope(tree, node) else None
        binding = _binding(tree, statement, target.base) if target is not None else None
        if (
            target is not None
            and binding is not None
            and dotted(target.base) not in {dotted(base) for base, _ in copied}
        ):
            copied.append((target.base, binding))
    levels = [level for node in written for level in _levels(node)]
    found: list[Form] = []
    if copied:
        bindings = tuple(dict.fromkeys(edit for _, binding in copied for edit in binding))
        found.append(_copy_form(tree, statement, [base for base, _ in copied], ".clone()", bindings))
    found += [_copy_form(tree, statement, [level], ".clone()") for level in levels]
    torch = _torch(tree)
    if torch:
        attributes = [base for base, _ in copied if isinstance(base, cst.Attribute)]
        found += [_copy_form(tree, statement, [base], ".clone())", (), f"{torch}.nn.Parameter(") for base in attributes]
    return found


def _levels(node: cst.BaseExpression) -> Iterator[cst.Subscript]:
    """The items on the way to a written item, outermost container first: `xs[0]` for `xs[0][1]`."""
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Subscript):
        yield from _levels(node.value)
        yield node.value


def _copy_form(
    tree: Tree,
    statement: Statement,
    copied: Sequence[cst.BaseExpression],
    end: str,
    more: tuple[Edit, ...] = (),
    start: str = "",
) -> Form:
    at = statement.code.start
    alone = not tree.file.text[tree.file.text.rfind("\n", 0, at) + 1 : at].strip()
    separator = f"\n{statement.indent}" if alone else "; "
    pieces = [
        piece for node in copied for piece in (whole(tree, node), f" = {start}", whole(tree, node), f"{end}{separator}")
    ]
    shown = ", ".join(_shown(tree, node) for node in copied)
    insertion = Edit(Span(statement.code.path, at, at), tuple(pieces))
    label = f"copy {shown} before the write{', into a new parameter' if start else ''}"
    return Form(_patch(label, *more, insertion), exact=True, fresh=True, before=True)


def copied_arguments(tree: Tree, statement: Statement) -> list[Form]:
    """For a statement that does not show what it writes to: each tensor that it may pass on, copied before."""
    calls = _calls_of(tree).get(statement.node, ())
    passed = [arg.value for call in calls for arg in call.args if isinstance(arg.value, (cst.Name, cst.Attribute))]
    first = {dotted(node): node for node in reversed(passed) if dotted(node) not in _defined(tree)}
    return [form for node in reversed(first.values()) for form in _copied_before(tree, statement, [node])]


def _binding(tree: Tree, statement: Statement, base: cst.BaseExpression) -> tuple[Edit, ...] | None:
    """The edits that let the statement assign to `base`: a name of the module read in a function needs `global`.

    None when there is no way to assign to it there.
    """
    function = next((node for node in tree.ancestors(statement.node) if isinstance(node, cst.FunctionDef)), None)
    if function is None or not isinstance(base, cst.Name):
        return ()
    bound = names(tree).bound.get(base.value, ())
    if within(tree, bound, function) or base.value in _parameters(function):
        return ()
    if not isinstance(function.body, cst.IndentedBlock):
        return None
    outer = any(isinstance(node, cst.FunctionDef) for node in tree.ancestors(function))
    inner = outer and any(tree.inside(node, cst.FunctionDef) for node in bound)
    first = tree.block_of(function.body)[0].code
    word = "nonlocal" if inner else "global"
    return (Edit(Span(first.path, first.start, first.start), (f"{word} {base.value}\n{_indent(tree, first)}",)),)


def _parameters(function: cst.FunctionDef) -> set[str]:
    parameters = function.params
    listed = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params, parameters.star_kwarg]
    return {param.name.value for param in (*listed, parameters.star_arg) if isinstance(param, cst.Param)}


def _indent(tree: Tree, code: Span) -> str:
    line = tree.file.text.rfind("\n", 0, code.start) + 1
    return tree.file.text[line : code.start]


# ---- statements as a whole


def moved_behind(tree: Tree, statement: Statement, needing: Statement | None) -> list[Patch]:
    """The statement moved behind the one that needs the tensor, where that follows in the same block or below it."""
    if needing is None or needing.code.path != statement.code.path:
        return []
    siblings = [s for s in tree.statements if s.block == statement.block and s.indent == statement.indent]
    behind = next((s for s in siblings if needing.code in s.code and s.code.start >= statement.span.end), None)
    if behind is None or tree.parents[statement.node] is tree.parents[behind.node]:
        return []
    if "\n" not in tree.file.text[statement.span.start : statement.span.end]:
        return []
    between = Span(statement.span.path, statement.span.end, behind.span.end)
    newline = () if tree.file.text.endswith("\n", 0, behind.span.end) else ("\n",)
    moved = Edit(Span(between.path, statement.span.start, between.end), (between, *newline, statement.span))
    return [Patch((moved,), "move the write behind the backward that needs the tensor")]


def _deletion(tree: Tree, statement: Statement) -> list[Patch]:
    """The statement deleted, unless that would leave a name without a value."""
    node = statement.node
    deletable = isinstance(node, (cst.AugAssign, cst.Expr)) or (
        isinstance(node, cst.Assign) and not any(isinstance(target, cst.Name) for target in _assigned(node))
    )
    return [Patch((removal(tree, statement),), "delete the write")] if deletable else []


def builder(facts: Facts) -> Statement | None:
    """The statement that constructed the module which wrote in place because of its own `inplace=True`."""
    built = facts.diagnosis.built if facts.diagnosis is not None else None
    return facts.tree(built.file).statement_at(built.line, built.column) if built is not None else None


def _without_grad(tree: Tree, statement: Statement) -> bool:
    """Whether the statement can be seen to run without recording gradients."""
    for node in tree.ancestors(statement.node):
        if isinstance(node, cst.With) and any("no_grad" in tree.text(item) for item in node.items):
            return True
        if isinstance(node, cst.FunctionDef):
            return any("no_grad" in tree.text(decorator) for decorator in node.decorators)
    return False


def _torch(tree: Tree) -> str | None:
    """The name under which the file knows torch."""
    return next((name for name, full in imported(tree).items() if full == "torch"), None)


@lru_cache(maxsize=16)
def _defined(tree: Tree) -> frozenset[str]:
    """The names of the file's own functions and methods."""
    return frozenset(function.name.value for function in tree.walk(cst.FunctionDef))


def _patch(label: str, *edits: Edit) -> Patch:
    """The edits as one patch: what one inserts where another starts becomes part of the other, in the order given."""
    merged: list[Edit] = []
    for edit in sorted(dict.fromkeys(edits), key=lambda edit: edit.span.empty, reverse=True):
        before = [
            e for e in merged if e.span.empty and e.span.start == edit.span.start and e.span.path == edit.span.path
        ]
        for insertion in before:
            merged.remove(insertion)
        pieces = tuple(piece for insertion in before for piece in insertion.replacement)
        merged.append(replace(edit, replacement=(*pieces, *edit.replacement)))
    return Patch(tuple(merged), label)


def _shown(tree: Tree, node: cst.CSTNode) -> str:
    """An expression as a label shows it."""
    text = " ".join(tree.text(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
