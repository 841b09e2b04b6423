"""Passes that make numbers and shapes small, and chains of methods short."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import libcst as cst
import libcst.matchers as m

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import patch, whole
from shrinkrepro.passes.syntax import VIEWS, canonical, dotted, last_name, plain_arguments, without_link
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Tree

_SMALL = (1, 2, 4, 8)
# what numbers up to here count is as often a kernel, a stride or a number of heads as a size
_HARDLY_A_SIZE = 4
# their numbers name dimensions or are exponents and seeds
# fmt: off
_NO_SIZES = frozenset({
    "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "cat", "concat", "concatenate", "cumprod", "cumsum",
    "diff", "dim", "flatten", "flip", "gather", "glu", "index_add", "index_add_", "index_copy", "index_copy_",
    "index_fill", "index_fill_", "index_select", "log_softmax", "logsumexp", "manual_seed", "max", "mean", "median",
    "min", "movedim", "norm", "permute", "prod", "roll", "scatter", "scatter_", "scatter_add", "scatter_add_",
    "seed", "select", "size", "softmax", "softmin", "sort", "squeeze", "stack", "std", "sum", "swapaxes", "transpose",
    "unbind", "unflatten", "unsqueeze", "var",
})
# fmt: on
_NO_SIZE_KEYWORDS = frozenset({"dim", "dims", "axis", "dim0", "dim1", "start_dim", "end_dim", "seed", "p"})
# make a tensor of the shape that they are called with
_CREATORS = frozenset({"empty", "full", "ones", "rand", "randint", "randn", "zeros"}) | frozenset(
    {"new_empty", "new_full", "new_ones", "new_zeros"}
)
_RESHAPERS = frozenset({"expand", "permute", "repeat", "reshape", "tile", "view"})
_PROPERTIES = frozenset({"H", "T", "data", "mH", "mT", "real"})


def equal_sizes(program: Program, facts: Facts) -> Iterator[Patch]:
    """Set all numbers that act as sizes to one small number, which often makes every layer fit every other.

    First all of them, with slices and without, then those that are large, then all that are equal to each other.

    Before:
        layer = Linear(64, 128)
        y = layer(randn(16, 64))[0]
    After:
        layer = Linear(1, 1)
        y = layer(randn(1, 1))[0]
    """
    numbers = [
        number
        for tree in facts.trees
        for number in _numbers(tree)
        if number.value > 1 and number.role not in ("index", "exponent")
    ]
    outside = [number for number in numbers if number.role != "slice"]
    large = [number for number in numbers if number.value > _HARDLY_A_SIZE]
    groups = [[number for number in numbers if number.value == value] for value in {n.value for n in numbers}]
    groups = sorted((group for group in groups if len(group) > 1), key=lambda group: -group[0].value)
    for sizes in dict.fromkeys((tuple(numbers), tuple(outside), tuple(large))):
        for small in _SMALL:
            yield from _set_to(sizes, small)
    for small in _SMALL:
        for group in groups:
            yield from _set_to(group, small)


def shrink_numbers(program: Program, facts: Facts) -> Iterator[Patch]:
    """Make numbers one by one small: to 1, or to 0 where they are indices, then to 2, then to their half.

    Counts of loops come first, the largest of them before all, since every later run is faster for it.

    Before:
        for _ in range(1000):
            x = x[3] * 0.125
    After:
        for _ in range(1):
            x = x[3] * 0.125
    """
    numbers = [number for tree in facts.trees for number in _numbers(tree)]
    loops = sorted((number for number in numbers if number.role == "count"), key=lambda number: -number.value)
    others = [number for number in reversed(numbers) if number.role != "count"]
    edits = [[patch(f"make {n.text} {text}", Edit(n.span, (text,))) for text in n.smaller] for n in (*loops, *others)]
    for alternatives in zip_longest(*edits):
        yield from (found for found in alternatives if found is not None)


def shorten_sizes(program: Program, facts: Facts) -> Iterator[Patch]:
    """Give tensors fewer dimensions: all of them one element, then those of equal shape, then each dimension dropped.

    Before:
        x = torch.randn(16, 4)
        y = torch.zeros((16, 4))
    After:
        x = torch.randn(1)
        y = torch.zeros((1,))

    Before:
        x = torch.randn(16, 4)
        y = torch.zeros((16, 4))
    After:
        x = torch.randn(4)
        y = torch.zeros((4,))

    Before:
        y = x.view(16, 4)
    After:
        y = x.view(16)
    """
    shapes = [shape for tree in facts.trees for shape in _shapes(tree)]
    created = [shape for shape in shapes if shape.creates and not shape.single]
    groups = [[shape for shape in created if shape.texts == texts] for texts in dict.fromkeys(s.texts for s in created)]
    for group in ([created] if len(groups) > 1 else []) + groups:
        yield patch("one element for each tensor", *(shape.one() for shape in group))
    longest = max((len(texts) for texts in {shape.texts for shape in created}), default=0)
    for dropped in range(longest):
        for group in groups:
            if 1 < len(group[0].items) > dropped:
                yield patch("one dimension less", *(shape.dropping(dropped) for shape in group))
    for shape in reversed(shapes):
        if shape.creates and not shape.single:
            yield patch("one element", shape.one())
        if len(shape.items) > 1:
            for dropped in range(len(shape.items)):
                yield patch("one dimension less", shape.dropping(dropped))
        if shape.tuple and shape.items and shape.creates:
            yield patch("no dimension", Edit(shape.span, ("()",)))


def shorten_chains(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take links out of chains of methods: casts, views, copies and whatever else can go.

    Before:
        y = x.view(2, -1).contiguous().sum()
    After:
        y = x.view(2, -1).sum()

    Before:
        y = x.data.sum()
    After:
        y = x.sum()
    """
    for tree in reversed(facts.trees):
        links = [*_links(tree), *_property_links(tree)]
        for edit in sorted(links, key=lambda edit: -edit.span.end):
            yield patch(f"without {tree.file.text[edit.span.start : edit.span.end].strip()[:40]}", edit)


def simplest_view(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take an item or all of a tensor where what counts is that there is a view, not which one.

    Before:
        x.view(2, 3).add_(1)
    After:
        x[0].add_(1)
    """
    for tree in reversed(facts.trees):
        for call in reversed(list(tree.walk(cst.Call))):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in VIEWS:
                for index in ("[0]", "[:]"):
                    yield patch("take a simple view", replace(without_link(tree, call), replacement=(index,)))


# ---- numbers


@dataclass(frozen=True)
class _Number:
    """A number as it stands in a program, its sign included.

    `role`: "index" (it selects an element or a dimension), "exponent", "slice" (it bounds a slice), "count" (of
    the turns of a loop), or "" for all the rest.
    """

    span: Span
    text: str
    value: int | float
    role: str

    @property
    def smaller(self) -> list[str]:
        """The texts that it is worth replacing by, best first."""
        if isinstance(self.value, float):
            least = ("1", "0") if self.value == 0 else ("1", "1.0", "0.5")
            return [text for text in least if len(text) < len(self.text)]
        if self.role == "index":
            return [str(least) for least in (0, 1) if self.value < 0 or least < self.value]
        if self.value < 0:
            return ["1"]
        halves = dict.fromkeys((1, 2, self.value // 2))
        return [str(half) for half in halves if 0 < half < self.value]


def _numbers(tree: Tree) -> Iterator[_Number]:
    """The integers and floats of a file; a minus sign before one is part of it."""
    literals: list[cst.Integer | cst.Float] = [*tree.walk(cst.Integer), *tree.walk(cst.Float)]
    for node in sorted(literals, key=tree.span):
        outer = tree.parents[node]
        signed = isinstance(outer, cst.UnaryOperation) and isinstance(outer.operator, cst.Minus)
        shown = outer if signed else node
        value = ast.literal_eval(node.value) * (-1 if signed else 1)
        yield _Number(whole(tree, shown), tree.text(shown), value, _role(tree, shown))


def _role(tree: Tree, node: cst.CSTNode) -> str:
    """What a number does, as in `_Number`."""
    inner = node
    for outer in tree.ancestors(node):
        if isinstance(outer, cst.Index):
            return "index"
        if isinstance(outer, cst.Slice):
            return "slice"
        if isinstance(outer, cst.BinaryOperation) and isinstance(outer.operator, cst.Power) and outer.right is inner:
            return "exponent"
        if isinstance(outer, cst.Arg):
            call = tree.parents[outer]
            name = last_name(call.func) if isinstance(call, cst.Call) else ""
            if name == "pow" or (outer.keyword is not None and outer.keyword.value == "exponent"):
                return "exponent"
            if (outer.keyword is not None and outer.keyword.value in _NO_SIZE_KEYWORDS) or name in _NO_SIZES:
                return "index"
            return "count" if name == "range" else ""
        if isinstance(outer, (cst.Call, cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.Lambda)):
            return ""
        inner = outer
    return ""


def _set_to(numbers: Sequence[_Number], small: int) -> Iterator[Patch]:
    """All the numbers set to `small`, unless that makes none of them smaller than the largest now."""
    if len(numbers) > 1 and max(number.value for number in numbers) > small:
        changed = [number for number in numbers if number.value != small]
        yield patch(f"make {len(changed)} sizes {small}", *(Edit(number.span, (str(small),)) for number in changed))


# ---- shapes


@dataclass(frozen=True)
class _Shape:
    """A list of dimensions: arguments of a call, or a tuple or list (`tuple`, `list`) with its brackets.

    `creates`: a tensor is made of this shape. `items` are the dimensions, `texts` what they say.
    """

    span: Span
    items: tuple[Span, ...]
    texts: tuple[str, ...]
    creates: bool
    tuple: bool = False
    list: bool = False

    @property
    def single(self) -> bool:
        """Whether it is the shape of a single element already."""
        return self.texts in {(), ("1",)}

    def one(self) -> Edit:
        """The shape of a single element."""
        return Edit(self.span, ("(1,)" if self.tuple else "[1]" if self.list else "1",))

    def dropping(self, position: int) -> Edit:
        """The shape without one of its dimensions."""
        kept = [item for index, item in enumerate(self.items) if index != position]
        pieces = [piece for item in kept for piece in (item, ", ")][:-1]
        if self.tuple:
            return Edit(self.span, ("(", *pieces, ",)" if len(kept) == 1 else ")"))
        return Edit(self.span, ("[", *pieces, "]") if self.list else tuple(pieces))


def _shapes(tree: Tree) -> Iterator[_Shape]:
    for call in tree.walk(cst.Call):
        name = last_name(call.func)
        if name not in _CREATORS | _RESHAPERS:
            continue
        creates = name in _CREATORS
        arguments = plain_arguments(call)
        sized = [arg.value for arg in call.args if isinstance(arg.value, (cst.Tuple, cst.List))]
        for node in sized:
            if not any(isinstance(element, cst.StarredElement) for element in node.elements):
                items = tuple(whole(tree, element) for element in node.elements)
                texts = tuple(tree.file.text[item.start : item.end] for item in items)
                is_tuple = isinstance(node, cst.Tuple)
                yield _Shape(whole(tree, node), items, texts, creates, is_tuple, not is_tuple)
        if arguments and not sized and name not in {"full", "new_full", "randint"}:
            items = tuple(whole(tree, arg) for arg in arguments)
            texts = tuple(tree.file.text[item.start : item.end] for item in items)
            yield _Shape(Span(items[0].path, items[0].start, items[-1].end), items, texts, creates)


# ---- chains


def _links(tree: Tree) -> Iterator[Edit]:
    for call in tree.walk(cst.Call):
        if not isinstance(call.func, cst.Attribute) or canonical(tree, call.func) is not None:
            continue
        receiver = call.func.value
        name = last_name(receiver)
        object_or_class = dotted(receiver) in {"self", "cls"} or (name[:1].isupper() and name not in _PROPERTIES)
        leaves_a_name = isinstance(tree.parents[call], cst.Expr) and not isinstance(receiver, cst.Call)
        if not object_or_class and not leaves_a_name and not m.matches(receiver, m.Call(func=m.Name("super"))):
            yield without_link(tree, call)


def _property_links(tree: Tree) -> Iterator[Edit]:
    for node in tree.walk(cst.Attribute):
        parent = tree.parents[node]
        bound = isinstance(parent, (cst.AssignTarget, cst.AugAssign)) and getattr(parent, "target", None) is node
        called = isinstance(parent, cst.Call) and parent.func is node
        if node.attr.value in _PROPERTIES and not bound and not called and dotted(node.value) not in {"self", "cls"}:
            yield Edit(Span(tree.file.path, whole(tree, node.value).end, tree.span(node).end))
