"""What is known about a generated program, because it was kept account of while it was written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A line of a generated program: the file, the number from 1, the text without indentation."""

    file: str
    line: int
    source: str


@dataclass(frozen=True)
class Made:
    """What a line was made from: its template, and the expressions in the holes."""

    template: str
    holes: tuple[str, ...]


@dataclass(frozen=True)
class Truth:
    """Why a generated program fails.

    `message` is what torch said when the program ran plainly. `node` and `attribute` name the graph node and the saved
    tensor that the engine trips over, `saved` is the line that saved it, `culprit` the line that wrote to it, `harmful`
    every line that spoiled a saved tensor, `needed` the line of the backward pass. `saving` and `writing` are what the
    two lines were made from (None: not from one template). `decoys` are lines that write to a tensor and harm nothing,
    without which the program would fail all the same. `compiled` are the lines of the compiled function, out of
    Python's sight, that the culprit calls.
    """

    message: str
    node: str
    attribute: str
    saved: Place
    culprit: Place
    needed: Place
    harmful: tuple[Place, ...]
    saving: Made | None = None
    writing: Made | None = None
    decoys: tuple[Place, ...] = ()
    compiled: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Generated:
    """A generated program: its files by path, the one to run, the truth (None: it runs to its end), its arguments."""

    files: dict[str, str]
    entry: str
    truth: Truth | None
    argv: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of the file to run."""
        return self.files[self.entry]
