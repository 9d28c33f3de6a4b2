"""numpy's names of arguments, which PyTorch takes too: `axis` for dim, `keepdims` for keepdim.

In: public functions. Out: the same ones, that know these names if they have such an argument.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

NAMES = {"axis": "dim", "keepdims": "keepdim", "x1": "input", "x2": "other"}


def known_by(parameters: Any) -> dict[str, str]:
    """numpy's name -> our name, for a function with these parameters."""
    return {theirs: ours for theirs, ours in NAMES.items()
            if ours in parameters and theirs not in parameters}  # fmt: skip


def with_numpy_names(function: Callable) -> Callable:
    """The function, called by numpy's names as well."""
    try:
        names = known_by(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return function
    if not names:
        return function

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not names.keys().isdisjoint(kwargs):
            kwargs = {names.get(key, key): value for key, value in kwargs.items()}
        return function(*args, **kwargs)

    return wrapped
