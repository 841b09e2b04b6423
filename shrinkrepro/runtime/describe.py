"""Live values described as data: what it takes to write a simple stand-in for each of them."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Mapping
from typing import Any

import torch

from shrinkrepro.runtime.messages import TensorValue, Value

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_LONGEST_TEXT = 60
_MOST_ITEMS = 64
# Where PyTorch's public functions live under the name that users write.
_PUBLIC = ("torch", "torch.nn.functional", "torch.nn", "torch.nn.init", "torch.optim", "torch.linalg", "torch.nn.utils")


def describe(value: Any, own: Mapping[str, str]) -> Value:
    """A description of `value`. `own` maps the program's files (absolute) to their paths below its root.

    Must not be called while a torch function mode of ours is active: it asks tensors for their values.
    """
    match value:
        case torch.Tensor():
            return Value("tensor", identity=id(value), tensor=_tensor(value), text=type(value).__name__)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return Value("literal", f"float('{value}')")
        case _ if type(value) in _PLAIN:
            text = "..." if value is ... else repr(value)
            return Value("literal", text) if len(text) <= _LONGEST_TEXT else Value("opaque", type(value).__name__)
        case torch.dtype():
            return Value("literal", str(value))
        case torch.device():
            return Value("literal", f"torch.device({str(value)!r})")
        case torch.Size():
            return Value("literal", repr(tuple(value)))
        case slice():
            return _composite("slice", value, (value.start, value.stop, value.step), own)
        case list() | tuple() if len(value) <= _MOST_ITEMS:
            return _composite("list" if isinstance(value, list) else "tuple", value, tuple(value), own)
        case dict() if len(value) <= _MOST_ITEMS and all(type(key) in _PLAIN for key in value):
            items = _composite("dict", value, tuple(value.values()), own)
            return Value("dict", identity=id(value), items=items.items, keys=tuple(repr(key) for key in value))
        case torch.optim.Optimizer():
            return _optimizer(value, own)
        case torch.nn.Module():
            return _module(value, own)
        case types.ModuleType():
            return Value("import", value.__name__)
        case _ if callable(value):
            return _callable(value, own)
    return Value("opaque", type(value).__name__, identity=id(value))


def _composite(kind: Any, value: Any, parts: tuple[Any, ...], own: Mapping[str, str]) -> Value:
    return Value(kind, identity=id(value), items=tuple(describe(part, own) for part in parts))


def _tensor(tensor: torch.Tensor) -> TensorValue:
    strided = tensor.layout is torch.strided
    counts = strided and tensor.numel() > 0 and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex
    with torch.no_grad():
        low, high = (int(tensor.min()), int(tensor.max())) if counts else (0, 0)
    return TensorValue(
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype),
        requires_grad=tensor.requires_grad,
        leaf=tensor.is_leaf,
        storage=tensor.untyped_storage()._cdata if strided else 0,
        offset=int(tensor.storage_offset()) if strided else 0,
        stride=tuple(tensor.stride()) if strided else (),
        low=low,
        high=high,
    )


def _optimizer(optimizer: torch.optim.Optimizer, own: Mapping[str, str]) -> Value:
    kind = type(optimizer)
    if getattr(torch.optim, kind.__name__, None) is not kind:
        return Value("opaque", kind.__name__, identity=id(optimizer))
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    keywords = _keywords(kind, optimizer.defaults, own, leave_out=("params",))
    items = tuple(describe(parameter, own) for parameter in parameters)
    return Value("optimizer", f"torch.optim.{kind.__name__}", identity=id(optimizer), items=items, keywords=keywords)


def _module(module: torch.nn.Module, own: Mapping[str, str]) -> Value:
    """PyTorch's own modules by their constructors; `items` are the modules inside a container, else its parameters."""
    kind = type(module)
    children = tuple(describe(child, own) for child in module.children())
    if getattr(torch.nn, kind.__name__, None) is not kind:
        if not children:
            return Value("opaque", kind.__name__, identity=id(module))
        # Of the user's own: often a chain of its children, which is the best guess there is.
        return Value("module", "torch.nn.Sequential", identity=id(module), items=children)
    name = f"torch.nn.{kind.__name__}"
    if isinstance(module, (torch.nn.Sequential, torch.nn.ModuleList)):
        return Value("module", name, identity=id(module), items=children)
    named = dict(module.named_parameters()) | dict(module.named_buffers())
    return Value(
        "module",
        name,
        identity=id(module),
        items=tuple(describe(tensor, own) for tensor in named.values()),
        keys=tuple(named),
        keywords=_keywords(kind, vars(module) | module._parameters, own),
    )


def _keywords(
    kind: type, attributes: Mapping[str, Any], own: Mapping[str, str], leave_out: tuple[str, ...] = ()
) -> dict[str, Value]:
    """The constructor's arguments that are kept under their own names and are not the defaults."""
    keywords = {}
    for name, parameter in _parameters(kind).items():
        if name in leave_out or name not in attributes:
            continue
        value, default = attributes[name], parameter.default
        if isinstance(default, bool) and not isinstance(value, bool):  # bias=True is kept as the bias itself
            value = value is not None
        if isinstance(value, torch.Tensor) or (type(value) is type(default) and value == default) or value is default:
            continue
        described = describe(value, own)
        if described.kind in ("literal", "tuple", "list"):
            keywords[name] = described
    return keywords


def _parameters(kind: type) -> dict[str, inspect.Parameter]:
    """The parameters of a constructor, those included that it passes on unnamed to its base class (as LSTM does)."""
    found: dict[str, inspect.Parameter] = {}
    for base in kind.__mro__:
        named = dict(inspect.signature(base).parameters)
        found |= {name: p for name, p in named.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if len(named) == len(found):
            break
    found.pop("mode", None)  # which kind of RNN: its own classes fill it in
    return found


def _callable(value: Any, own: Mapping[str, str]) -> Value:
    name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    if module in sys.modules and isinstance(name, str) and name.isidentifier():
        file = getattr(sys.modules[module], "__file__", None)
        if isinstance(file, str) and file in own:
            return Value("own", name, file=own[file], identity=id(value))
    spelled = spell(value)
    if spelled is None and module in sys.modules and getattr(sys.modules[module], str(name), None) is value:
        spelled = f"{module}:{name}"
    return Value("import", spelled) if spelled else Value("opaque", type(value).__name__, identity=id(value))


def spell(function: Any) -> str | None:
    """How users write a function of PyTorch's: "torch.relu", "torch.Tensor.add_"; None when it has no public name."""
    name = getattr(function, "__name__", "")
    for place in _PUBLIC:
        if name and getattr(sys.modules.get(place), name, None) is function:
            return f"{place}.{name}"
    if name and getattr(torch.Tensor, name, None) is function:
        return f"torch.Tensor.{name}"
    return None
