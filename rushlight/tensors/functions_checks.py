"""torch._check and its kin: conditions that a program states, and plain numbers as sizes.

PyTorch's tracer has sizes that are symbols; here sizes are plain numbers in Python code, so the
functions for symbols are those for numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.interop import look
from rushlight.tensors.tensor import Tensor

IMPROVE = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please "
    "report an enhancement request to PyTorch.)"
)


class SymInt:
    """The class of symbolic sizes. A size is an int here, so it has no instances."""


class SymFloat:
    """The class of symbolic numbers; see SymInt."""


class SymBool:
    """The class of symbolic conditions; see SymInt."""


def _check_with(
    error_type: type[Exception], cond: bool, message: Callable[[], Any] | None = None
) -> None:
    """Raise `error_type` unless `cond`; `message()` gives the text."""
    if isinstance(cond, Tensor):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(IMPROVE)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: bool, message: Any = None) -> None:
    """Raise RuntimeError unless `cond`; `message` is a text or a function that gives it."""
    _check_with(RuntimeError, cond, (lambda: message) if isinstance(message, str) else message)


def _checker(error_type: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], Any] | None = None) -> None:
        _check_with(error_type, cond, message)

    return check


def _check_is_size(i: int, message: Any = None, *, max: int | None = None) -> None:  # noqa: A002
    """Raise unless `i` can be a size: at least 0, and at most `max`."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Callable[[], Any] | None = None
) -> None:
    """Raise `error_type` unless all elements of a bool tensor are True."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype.kind != "bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(look(cond).all()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """Raise RuntimeError unless all elements of a bool tensor are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition: Any, message: str) -> None:
    """The statement `assert`, as a function. It looks at the value."""
    assert condition, message


def _assert_async(input: Tensor, assert_msg: str = "") -> None:
    """Raise RuntimeError unless the one value is not 0."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The shape as a tensor of int64."""
    return tensor_of(list(self._shape))


def sym_int(a: Any) -> int:
    """`int(a)`: towards 0."""
    return int(a)


def sym_float(a: Any) -> float:
    return float(a)


def sym_not(a: Any) -> bool:
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float if one of them is."""
    return float(max(a, b)) if isinstance(a, float) or isinstance(b, float) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float if one of them is."""
    return float(min(a, b)) if isinstance(a, float) or isinstance(b, float) else min(a, b)


def sym_sum(args: Iterable[Any]) -> Any:
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t if b else f`."""
    return t if b else f


def _sym_sqrt(a: Any) -> float:
    return math.sqrt(a)


_NUMBERS = (sym_int, sym_float, sym_not, sym_max, sym_min, sym_sum, sym_ite, _sym_sqrt)
FUNCTIONS: dict[str, Any] = {
    "_check": _check, "_check_with": _check_with, "_check_is_size": _check_is_size,
    "_check_index": _checker(IndexError), "_check_value": _checker(ValueError),
    "_check_type": _checker(TypeError), "_check_not_implemented": _checker(NotImplementedError),
    "_check_tensor_all": _check_tensor_all, "_check_tensor_all_with": _check_tensor_all_with,
    "_assert": _assert, "_assert_async": _assert_async, "_shape_as_tensor": _shape_as_tensor,
    "SymInt": SymInt, "SymFloat": SymFloat, "SymBool": SymBool,
    **{function.__name__: function for function in _NUMBERS},
}  # fmt: skip
METHODS: dict[str, Callable[..., Any]] = {}
