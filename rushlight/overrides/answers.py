"""Who takes over a call, and what classes of tensors answer by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import rushlight as torch
from rushlight.overrides.dispatch import ask, in_order, takes_over
from rushlight.overrides.state import Setting


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Has one of these a `__torch_function__` of its own?"""
    return any(map(takes_over, relevant_args))


def has_torch_function_unary(obj: Any) -> bool:
    return takes_over(obj)


def has_torch_function_variadic(*args: Any) -> bool:
    return any(map(takes_over, args))


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or something with a `__torch_function__`."""
    return isinstance(inp, torch.Tensor) or hasattr(type(inp), "__torch_function__")


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the arguments' `__torch_function__` answer the call of `public_api`."""
    return ask(public_api, in_order(relevant_args), args, kwargs)


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results a class of tensors gives as they are."""
    return {vars(torch.Tensor)["grad"].__get__} if "grad" in vars(torch.Tensor) else set()


def tensor_torch_function(
    cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """`Tensor.__torch_function__`: the function is called, results become tensors of the class."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with Setting(subclasses=False):
        result = func(*args, **(kwargs or {}))
    return result if func in get_default_nowrap_functions() else converted(result, cls)


def converted(result: Any, cls: type) -> Any:
    """Tensors, also in tuples and lists, as tensors of the class."""
    if isinstance(result, torch.Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    kind = type(result)
    if kind in (list, tuple) or kind.__module__ == "torch.return_types":
        return kind(converted(item, cls) for item in result)
    return result


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
