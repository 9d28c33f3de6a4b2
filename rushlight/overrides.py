"""torch.overrides: objects that take over the functions they are given to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "get_overridable_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip


def _overrides(value: Any) -> bool:
    kind = type(value)
    return (
        kind is not torch.Tensor
        and kind is not torch.nn.Parameter
        and hasattr(kind, "__torch_function__")
        and kind.__torch_function__ is not torch.Tensor.__torch_function__
    )


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Has one of these a `__torch_function__` of its own?"""
    return any(map(_overrides, relevant_args))


def has_torch_function_unary(obj: Any) -> bool:
    return _overrides(obj)


def has_torch_function_variadic(*args: Any) -> bool:
    return any(map(_overrides, args))


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or something with a `__torch_function__`."""
    return isinstance(inp, torch.Tensor) or hasattr(type(inp), "__torch_function__")


def _in_order(values: Iterable[Any]) -> list[Any]:
    """One argument of each overriding class, subclasses before their bases."""
    kinds: list[type] = []
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if not _overrides(value) or kind in kinds:
            continue
        at = next((i for i, other in enumerate(kinds) if issubclass(kind, other)), len(kinds))
        kinds.insert(at, kind)
        found.insert(at, value)
    return found


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the arguments' `__torch_function__` answer the call of `public_api`."""
    overriding = _in_order(relevant_args)
    types = tuple(type(value) for value in overriding)
    for value in overriding:
        result = value.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(types)}"
    )


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable], Callable]:
    """A decorator: `dispatcher(*args)` names the arguments that may take over the function."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        wrapped.__name__, wrapped.__module__ = function.__name__, function.__module__
        wrapped.__doc__ = function.__doc__
        return wrapped

    return decorate


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions of torch, of torch.nn.functional, and the methods of Tensor."""
    spaces = (torch, torch.nn.functional, torch.Tensor)
    return {space: [f for f in map(space.__dict__.get, dir(space)) if callable(f)]
            for space in spaces}  # fmt: skip


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Is this a method of Tensor, or the getter of one of its properties?"""
    return func in vars(torch.Tensor).values() or getattr(func, "__name__", "") == "__get__"


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of a function: "torch.add", "torch.Tensor.add"; None if it has none."""
    for path, space in (("torch.Tensor", torch.Tensor), ("torch", torch),
                        ("torch.nn.functional", torch.nn.functional)):  # fmt: skip
        name = getattr(f, "__name__", "")
        if getattr(space, name, None) is f:
            return f"{path}.{name}"
    return None
