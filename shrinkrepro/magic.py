"""The cell magic `%%shrinkrepro`, for IPython and Jupyter: runs the cell and explains the error when it comes."""

from __future__ import annotations

from typing import Any

from shrinkrepro.watching import watch


def register(shell: Any) -> None:
    """Add the magic to an IPython shell."""

    def shrinkrepro(line: str, cell: str) -> None:
        """Run the cell; where backward fails, say what saved, changed and needed the tensor."""
        with watch():
            shell.run_cell(cell, store_history=False)  # shows the traceback, and the note with it

    shell.register_magic_function(shrinkrepro, magic_kind="cell")
