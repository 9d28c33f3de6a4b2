"""Other names of arguments that PyTorch takes: numpy's, those of overloads, and lists by name.

In: public functions. Out: the same ones, called by these names as well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

from rushlight.base.dtypes import PYTHON_TYPES

# numpy's name -> PyTorch's
DIMS = {"axis": "dim", "keepdims": "keepdim"}
OPERANDS = {"x1": "input", "x2": "other"}
_SECTIONS = {"sections": "indices_or_sections", "indices": "indices_or_sections"}
_AXES = {"axis0": "dim0", "axis1": "dim1"}
_SPLIT = {"split_size": "split_size_or_sections", "split_sizes": "split_size_or_sections"}
# public name -> {name in an overload: ours}
OVERLOADS: dict[str, dict[str, str]] = {
    "copy_": {"other": "src"}, "swapaxes": _AXES, "swapaxes_": _AXES, "split": _SPLIT,
    "unsafe_split": _SPLIT, "tensor_split": _SECTIONS, "hsplit": _SECTIONS, "vsplit": _SECTIONS,
    "dsplit": _SECTIONS, "cholesky_solve": {"input2": "L"},
}  # fmt: skip
# public name -> the name of what else is given as many numbers: x.permute(dims=(1, 0))
LISTS = {
    "expand": "size", "reshape": "shape", "permute": "dims", "repeat": "repeats", "tile": "dims",
    "resize_": "size", "to": "other",
}  # fmt: skip


def takes_dtype(function: Any) -> bool:
    """Has it a parameter `dtype`? (Asked of all functions at import: faster than a signature.)"""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return (
        code is not None
        and "dtype" in (code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    )


def with_python_types(function: Callable, name: str = "") -> Callable:
    """The function, whose `dtype` may be one of Python's types: float is float64."""
    code = inspect.unwrap(function).__code__
    names = code.co_varnames[: code.co_argcount]
    place = names.index("dtype") if "dtype" in names else len(names) + 1

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("dtype")
        if given.__class__ is type:
            kwargs["dtype"] = PYTHON_TYPES.get(given)
            if kwargs["dtype"] is None:
                raise TypeError(
                    f"{function.__name__}(): argument 'dtype' must be torch.dtype, not type"
                )
        elif given.__class__ is str and function.__name__ != "type":
            raise TypeError(f"{function.__name__}(): argument 'dtype' must be torch.dtype, not str")
        elif len(args) > place and args[place].__class__ is type:
            changed = PYTHON_TYPES.get(args[place], args[place])
            args = (*args[:place], changed, *args[place + 1 :])
        return function(*args, **kwargs)

    return wrapped


def known_by(parameters: Any, names: dict[str, str]) -> dict[str, str]:
    """Another name -> our name, for a function with these parameters."""
    return {theirs: ours for theirs, ours in names.items()
            if ours in parameters and theirs not in parameters}  # fmt: skip


def parameters_of(function: Callable) -> Collection[str]:
    """Names of the parameters, those of a wrapped function if it wraps one; TypeError or ValueError
    where nothing tells them. The code tells them a hundred times faster than inspect."""
    while "__wrapped__" in getattr(function, "__dict__", ()):
        if "__signature__" in vars(function):
            break
        function = function.__wrapped__  # type: ignore[attr-defined]
    code = getattr(function, "__code__", None)
    if code is None or "__signature__" in vars(function):
        return inspect.signature(function).parameters
    count = code.co_argcount + code.co_kwonlyargcount
    count += sum(
        bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    )
    return code.co_varnames[:count]


def with_other_names(function: Callable, name: str) -> Callable:
    """The function under the public name `name`, called by the other names as well; a class as it
    is."""
    if isinstance(function, type):
        return function
    try:
        names = known_by(parameters_of(function), DIMS)
    except (TypeError, ValueError):
        return function
    names.update(OVERLOADS.get(name, {}))
    listed = LISTS.get(name)
    if not names and listed is None:
        return function

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            if not names.keys().isdisjoint(kwargs):
                kwargs = {names.get(key, key): value for key, value in kwargs.items()}
            if listed in kwargs:
                args = (*args, kwargs.pop(listed))
        return function(*args, **kwargs)

    return wrapped
