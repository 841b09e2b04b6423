"""What in the script's text does nothing, though its author counts on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shrinkrepro.program.source import Program
from shrinkrepro.results import location


def hints(program: Program) -> Iterator[str]:
    """A sentence for each assignment to `set_detect_anomaly`, which is a function to be called."""
    for file in program:
        for node in (node for node in ast.walk(ast.parse(file.text)) if isinstance(node, ast.Assign)):
            if any(
                isinstance(target, ast.Attribute) and target.attr == "set_detect_anomaly" for target in node.targets
            ):
                cell = file.cell_at(node.lineno)
                where = location(file.path, node.lineno - cell.first + 1 if cell else node.lineno, cell)
                yield (
                    f"{where} replaces set_detect_anomaly instead of calling it: anomaly mode stays off; "
                    "write torch.autograd.set_detect_anomaly(True)."
                )
