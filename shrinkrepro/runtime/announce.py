"""Native code that writes to a file by its name, announced: the audit hook hears of it as of any `open`.

So what the hook does before Python code writes (copy a file of the user into the scratch folder, or refuse in one clear
sentence) is done before PyTorch writes, too.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["announce_native_writers"]

_CREATING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def announce_native_writers() -> None:
    """Have PyTorch's native writers raise the audit event of `open` before they open a file by its name."""
    import torch

    places: list[tuple[Any, str, Callable[..., Any]]] = [
        (torch._C, "PyTorchFileWriter", lambda name, *_: name),
        (torch._C.ScriptModule, "save", lambda _, name, *__: name),
        (torch, "from_file", _shared_name),
        (torch.UntypedStorage, "from_file", _shared_name),
    ]
    for owner, name, path_in in places:
        setattr(owner, name, _announcing(getattr(owner, name), path_in))


def _shared_name(name: Any, shared: bool | None = None, *_: Any) -> Any:
    return name if shared else None


def _announcing(write: Callable[..., Any], name_in: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(write)
    def announced(*arguments: Any, **keywords: Any) -> Any:
        name = name_in(*arguments, *keywords.values())
        if isinstance(name, (str, bytes, os.PathLike)):
            sys.audit("open", name, "wb", _CREATING)
        return write(*arguments, **keywords)

    return announced
