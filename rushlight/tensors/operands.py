"""Which operands a function takes: where Python numbers may stand, and what has no arithmetic.

In: the public name and the operands of a call. Out: nothing, or PyTorch's TypeError. Functions
that are not named here take a number in either place, or check for themselves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.base.dtypes import BYTE_FLOATS
from rushlight.ir.node import Node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.tensor import Tensor

NEVER, SECOND, ONE = "never", "second", "one"
_NAMES = {
    NEVER: """maximum minimum fmax fmin atan2 arctan2 nextafter logical_and logical_or logical_xor
    hypot logaddexp logaddexp2 heaviside gcd lcm ldexp igamma igammac gammainc gammaincc""",
    SECOND: "eq ne lt le gt ge less less_equal greater greater_equal not_equal fmod copysign "
    "rsub clamp_min clamp_max",
    ONE: """pow float_power remainder xlogy xlog1py zeta bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift chebyshev_polynomial_t chebyshev_polynomial_u
    chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
    hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p""",
}
NUMBERS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def number_rule(name: str) -> str:
    """NEVER, SECOND or ONE (of both) for a public name; '' where anything goes."""
    return NUMBERS.get(name.rpartition("special_")[2].rstrip("_"), "")


def check_operands(name: str, rule: str, args: tuple[Any, ...]) -> None:
    """Raise PyTorch's TypeError when a number stands where a Tensor must."""
    tensors = [isinstance(arg, Tensor) for arg in args[:2]]
    if rule == ONE and True not in tensors and len(tensors) > 1:
        kinds = ", ".join(type(arg).__name__ for arg in args)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({kinds}), but at least "
            "one operand must be a Tensor"
        )
    if rule in (NEVER, SECOND) and not tensors[0]:
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(args[0]).__name__}"
        )
    if rule == NEVER and len(tensors) > 1 and not tensors[1]:
        raise TypeError(
            f"{name}(): argument 'other' (position 2) must be Tensor, not {type(args[1]).__name__}"
        )


def need_tensor(function: str, name: str, position: int, value: Any) -> None:
    """PyTorch's TypeError for a number or another object where a Tensor must be."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be Tensor, not "
            f"{type(value).__name__}"
        )


def checked(function: Callable, name: str) -> Callable:
    """The function, with its operands checked where the table names it."""
    rule = number_rule(name)
    if not rule:
        return function

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if args:
            check_operands(name, rule, args)
        return function(*args, **kwargs)

    return wrapped


BYTE_OPS = frozenset(
    "cast bitcast where gather index_select read_wider read_narrower scatter".split()
)


def check_bytes(record: OpDef, src: list[Node]) -> None:
    """Numbers of one byte are kept, moved and converted; nothing is computed with them."""
    if record.kind in ("movement", "gather", "scatter") or record.name in BYTE_OPS:
        return
    for node in src:
        if node.dtype in BYTE_FLOATS:
            raise NotImplementedError(
                f"\"{record.name}\" not implemented for '{node.dtype.name.capitalize()}': convert "
                "it first, with .to(torch.float32)"
            )
