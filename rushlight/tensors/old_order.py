"""Calls in PyTorch's old order of arguments, which it still takes: a factor before its tensors.

    moment.mul_(beta).add_(1 - beta, grad)          moment.mul_(beta).add_(grad, alpha=1 - beta)
    weight.addcdiv_(-rate, moment, root)            weight.addcdiv_(moment, root, value=-rate)
    torch.addmm(beta, x, alpha, a, b)               torch.addmm(x, a, b, beta=beta, alpha=alpha)

In: all arguments given by position. Out: the tensors, and the factors by name.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from rushlight.tensors.tensor import Tensor

_WARNED: set[str] = set()


def old_order(
    name: str, given: tuple[Any, ...], count: int, factors: tuple[str, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """The `count` tensors among `given`, and the numbers as `factors`. Raises TypeError when there
    are not so many."""
    tensors = [value for value in given if isinstance(value, Tensor)]
    numbers = [value for value in given if not isinstance(value, Tensor)]
    if len(tensors) != count or len(numbers) > len(factors):
        raise TypeError(f"{name}() takes {count} positional arguments but {len(given)} were given")
    if name not in _WARNED:
        _WARNED.add(name)
        warnings.warn(
            f"This overload of {name} is deprecated: give {' and '.join(factors)} by name.",
            stacklevel=4,
        )
    return tensors, dict(zip(factors, numbers, strict=False))


def takes_old_order(function: Callable[..., Any], name: str, factors: tuple[str, ...]) -> Any:
    """The function, which takes both orders; add and sub have two tensors, others three."""
    count = 2 if factors == ("alpha",) else 3

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= count:
            return function(*args, **kwargs)
        tensors, named = old_order(name, args, count, factors)
        return function(*tensors, **named, **kwargs)

    return either
