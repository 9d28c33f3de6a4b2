"""torch._foreach_X: one function for all tensors of a list. They are recorded one after the other,
and the compiler makes one launch of what can run together.

Out of place: a tuple of results. In place (`_foreach_X_`): the tensors change, nothing is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rushlight.tensors.tensor import Tensor

UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p
log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
# Each takes lists, one number for all, or a list of numbers beside the tensors.
WITH_OTHERS = "add sub mul div addcdiv addcmul lerp clamp_max clamp_min pow".split()
# The same operation, where the other side is a number.
OF_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _rows(tensors: Sequence[Any], others: Sequence[Any]) -> Iterator[tuple]:
    """One call's arguments for each tensor: lists are walked along, all else is given to each."""
    for other in others:
        if isinstance(other, list | tuple) and len(other) != len(tensors):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {len(tensors)} and "
                f"{len(other)}"
            )
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for i, tensor in enumerate(tensors):
        yield tensor, *(o[i] if isinstance(o, list | tuple) else o for o in others)


def _call(name: str, tensor: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    if name.startswith(("addcdiv", "addcmul")) and len(args) == 3:
        args, kwargs = args[:2], {"value": args[2], **kwargs}
    ending = "_" if name.endswith("_") else ""
    plain = OF_NUMBERS.get(name.rstrip("_"))
    if plain is not None and not isinstance(args[0], Tensor):
        name = plain + ending
    if not isinstance(tensor, Tensor):  # a number to the power of each
        return args[0].__rpow__(tensor)
    value = kwargs.get("value")
    if isinstance(value, Tensor):
        kwargs = {**kwargs, "value": value.item()}
    if ending and not hasattr(tensor, name):  # maximum has no method that works in place
        return tensor.copy_(getattr(tensor, name[:-1])(*args, **kwargs))
    return getattr(tensor, name)(*args, **kwargs)


def _make(name: str) -> Callable[..., Any]:
    def function(self: Sequence[Tensor], *others: Any, **kwargs: Any) -> Any:
        named = [key for key, value in kwargs.items() if isinstance(value, list | tuple)]
        others = (*others, *(kwargs.pop(key) for key in named))
        if not isinstance(self, list | tuple):
            self = [self] * len(others[0])
        results = [_call(name, row[0], row[1:], kwargs) for row in _rows(self, others)]
        return None if name.endswith("_") else tuple(results)

    function.__name__ = function.__qualname__ = f"_foreach_{name}"
    function.__doc__ = f"{name} of every tensor of a list."
    return function


def _foreach_norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple:  # noqa: A002
    """The norm of each tensor, over all its elements."""
    return tuple(row[0].reshape(-1).norm(ord, dtype=dtype) for row in _rows(self, ()))


def _foreach_max(self: Sequence[Tensor]) -> tuple:
    """The largest element of each tensor."""
    return tuple(row[0].max() for row in _rows(self, ()))


def _foreach_clone(self: Sequence[Tensor], *, memory_format: Any = None) -> tuple:
    """A copy of each tensor."""
    return tuple(row[0].clone() for row in _rows(self, ()))


def _foreach_copy_(
    self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False
) -> None:
    """Each tensor takes the value of the other list's."""
    for tensor, source in _rows(self, (src,)):
        tensor.copy_(source)


def _foreach_zero_(self: Sequence[Tensor]) -> None:
    """Each tensor becomes 0."""
    for (tensor,) in _rows(self, ()):
        tensor.zero_()


_NAMES = (*UNARY, *WITH_OTHERS, *OF_NUMBERS)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"_foreach_{name}{end}": _make(name + end) for name in _NAMES for end in ("", "_")},
    "_foreach_norm": _foreach_norm, "_foreach_max": _foreach_max,
    "_foreach_clone": _foreach_clone, "_foreach_copy_": _foreach_copy_,
    "_foreach_zero_": _foreach_zero_,
}  # fmt: skip
METHODS: dict[str, Callable[..., Any]] = {}
