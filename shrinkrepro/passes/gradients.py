"""Passes about what records gradients."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from shrinkrepro.facts import Facts
from shrinkrepro.passes.common import names, patch, replaced_by_block, within
from shrinkrepro.passes.syntax import last_name
from shrinkrepro.program.edit import Edit, Patch
from shrinkrepro.program.source import Program


def detach_instead_of_no_grad(program: Program, facts: Facts) -> Iterator[Patch]:
    """Take a statement out of `with torch.no_grad():` and detach the tensor that it writes instead.

    Before:
        with torch.no_grad():
            w.add_(1)
    After:
        w.detach().add_(1)
    """
    for tree in reversed(facts.trees):
        for node in sorted(tree.walk(cst.With), key=lambda n: -tree.span(n).start):
            call = node.items[0].item
            if len(node.items) != 1 or not isinstance(call, cst.Call) or last_name(call.func) != "no_grad":
                continue
            if len(node.body.body) != 1:
                continue
            unwrapped = replaced_by_block(tree, tree.statement_of[node], node.body)
            for uses in names(tree).read.values():
                for use in within(tree, uses, node.body):
                    span = tree.span(use)
                    yield patch(f"detach {use.value}", *unwrapped, Edit(span, (span, ".detach()")))
