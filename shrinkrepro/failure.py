"""PyTorch's "modified by an inplace operation" error: reading its message and comparing two of them.

The wording has changed over the years and depends on the tensor; everything that does not tell two failures
apart (versions, the hint at the end, the suffix of an operator's name) is either optional or normalised here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shrinkrepro.runtime.messages import PHRASE

_MESSAGE = re.compile(
    PHRASE + r":\s+\["
    r"(?P<type>[^\s\[\]]+)(?:\s+(?P<shape>[^\]]*\]?))?\],?\s+"
    r"(?:which\s+is\s+output\s+(?P<output>\d+)\s+of\s+(?P<operator>[^\s,]+),\s+)?"
    r"is\s+at\s+version\s+(?P<version>\d+)\s*[;,]\s+(?:not\s+)?expected\s+version\s+(?P<expected>\d+)"
)
_SHAPE = re.compile(r"\[\s*(?P<sizes>\d+(?:\s*,\s*\d+)*)?\s*\]")
_BACKWARD = re.compile(r"Backward(\d*)$")


@dataclass(frozen=True)
class VersionMismatch:
    """What one message says.

    `tensor_type` is PyTorch's word ("torch.FloatTensor", "CPUBFloat16Type"). `shape` is None where the text shows
    none that can be read (nested tensors). `operator` is the producer's name as torch 2.13 prints it ("Sigmoid",
    "Clamp1", "torch::autograd::CopySlices"), None like `output` for a tensor that no operator produced.
    """

    message: str
    tensor_type: str
    shape: tuple[int, ...] | None
    operator: str | None
    output: int | None
    version: int
    expected_version: int


def parse(text: str) -> VersionMismatch | None:
    """The first version mismatch reported anywhere in `text` (a message, a log, a traceback), or None.

    `message` of the result is the line of `text` that holds it, without the exception's type in front.
    """
    found = _MESSAGE.search(text)
    if found is None:
        return None
    output = found["output"]
    return VersionMismatch(
        message=_sentence(text, found),
        tensor_type=found["type"],
        shape=_shape(found["shape"]),
        operator=None if found["operator"] is None else normalised(found["operator"]),
        output=None if output is None else int(output),
        version=int(found["version"]),
        expected_version=int(found["expected"]),
    )


def normalised(operator: str) -> str:
    """An operator's name as torch 2.13 prints it: "SigmoidBackward0" is "Sigmoid", "ClampBackward1" is "Clamp1"."""
    return _BACKWARD.sub(lambda suffix: suffix[1].lstrip("0"), operator)


def same_error(a: VersionMismatch, b: VersionMismatch) -> bool:
    """Whether two messages report the same kind of tensor made by the same operator; sizes and versions are free."""
    return (a.tensor_type, a.operator) == (b.tensor_type, b.operator)


def _sentence(text: str, found: re.Match[str]) -> str:
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    line = text[start : len(text) if end < 0 else end].strip()
    opening = line.find("one of the variables needed for gradient computation")
    return line[opening:] if opening > 0 else line


def _shape(text: str | None) -> tuple[int, ...] | None:
    sizes = _SHAPE.fullmatch(text or "")
    if sizes is None:
        return None
    return tuple(int(size) for size in (sizes["sizes"] or "").split(",") if size.strip())
