"""What does not matter in the smallest program: parts that can be varied while the same graph node stays stale.

The smallest program is one of many. Saying which of its constants are free keeps a reader from taking, say, the size 1
for a part of the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.syntax import canonical
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program, Span
from shrinkrepro.program.tree import Tree

_CREATORS = frozenset({"torch.ones", "torch.zeros", "torch.rand", "torch.randn", "torch.empty"})
_OTHER_WRITES = ("zero_()", "mul_(2)", "copy_({})")


@dataclass(frozen=True)
class Freedom:
    """Something that is free if all of `variants`, programs that differ in nothing else, fail at the same node."""

    what: str
    variants: tuple[Program, ...]


def freedoms(facts: Facts) -> Iterator[Freedom]:
    """What may be free in the program: its sizes, its data type, its values, the in-place operator."""
    program, tree = facts.program, facts.tree(facts.program.invocation.entry)
    sizes = [size for call in _creations(tree) for size in _sizes(call)]
    if sizes:
        yield Freedom("any size", tuple(_all(program, tree, sizes, str(size)) for size in (2, 3)))
    undecided = [
        call for call in _creations(tree) if not any(a.keyword and a.keyword.value == "dtype" for a in call.args)
    ]
    if undecided:
        ends = [tree.span(call).end - 1 for call in undecided]
        insertions = [Edit(Span(tree.file.path, end, end), (", dtype=torch.float64",)) for end in ends]
        yield Freedom("any floating-point type", (Patch(tuple(insertions)).apply(program),))
        names = [tree.span(call.func.attr) for call in undecided if isinstance(call.func, cst.Attribute)]
        yield Freedom("any values", (Patch(tuple(Edit(name, ("rand",)) for name in names)).apply(program),))
    written = _written(tree, facts)
    if written is not None and facts.culprit is not None:
        code = facts.culprit.code
        texts = [f"{written}.{write.format(written)}" for write in _OTHER_WRITES]
        variants = tuple(Patch((Edit(code, (text,)),)).apply(program) for text in texts)
        yield Freedom("any in-place operator", variants)


def free(facts: Facts, holds: Callable[[Program], bool]) -> tuple[str, ...]:
    """What is free in the program, in words; `holds` says whether a variant fails at the same node and attribute."""
    return tuple(f.what for f in freedoms(facts) if all(map(holds, f.variants)))


def _creations(tree: Tree) -> list[cst.Call]:
    return [call for call in tree.walk(cst.Call) if canonical(tree, call.func) in _CREATORS]


def _sizes(call: cst.Call) -> Iterator[cst.Integer]:
    for argument in call.args:
        if argument.keyword is None and isinstance(argument.value, cst.Integer):
            yield argument.value


def _all(program: Program, tree: Tree, numbers: list[cst.Integer], text: str) -> Program:
    return Patch(tuple(Edit(tree.span(number), (text,)) for number in numbers)).apply(program)


def _written(tree: Tree, facts: Facts) -> str | None:
    """The name of the tensor that the culprit writes, where its statement is plainly about one name."""
    node = facts.culprit.node if facts.culprit is not None else None
    match node:
        case cst.AugAssign(target=cst.Name(value=name)):
            return str(name)
        case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value=method)))):
            return str(name) if str(method).endswith("_") else None
    return None
