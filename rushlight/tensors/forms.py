"""Forms that follow from a function: with `out=`, and in place. Named once, for whole families.

In: tables of public functions. Out: the same functions with the form added.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.tensors.argument_names import parameters_of
from rushlight.tensors.inplace import check_inplace, store
from rushlight.tensors.out import write_out, write_out_all
from rushlight.tensors.tensor import Tensor


def linked(result: Tensor, source: Tensor) -> Tensor:
    """The result with a gradient of zeros to a source that it does not depend on."""
    if not source.requires_grad:
        return result
    return result + source.reshape(-1)[:0].sum().to(result.dtype)


def takes_out(function: Callable) -> bool:
    """Does the function have an `out` parameter of its own?"""
    try:
        return "out" in parameters_of(function)
    except (TypeError, ValueError):
        return True


def with_out(function: Callable, exact: bool = False) -> Callable:
    """The function with `out=`: one tensor, or one for each result.

    exact: the dtype of `out` must be the result's.
    """
    if takes_out(function):
        return function

    @functools.wraps(function)
    def wrapped(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if isinstance(result, Tensor):
            return result if out is None else write_out(out, result, exact)
        return write_out_all(out, result, exact)

    return wrapped


def in_place_form(function: Callable, name: str = "") -> Callable:
    """x.name(...): the result of the function becomes the value of x.

    name: without one, the function's and an underscore.
    """
    name = name or f"{function.__name__}_"

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_inplace(self)
        return store(self, function(self, *args, **kwargs))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{name[:-1]}, in place."
    return method
