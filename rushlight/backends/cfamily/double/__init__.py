"""float64 where the machine has none: its operations on the bits, by 64-bit integers.

In: an op. Out: a Helper over uint64 parameters (the bits of doubles), made of integer operations
alone. Always true: results are rounded to nearest even, denormals and infinities as IEEE says, so
they have the bits of a machine with doubles (all NaNs are one). Slow, and only used where doubles
are asked for: by float64 tensors, and by functions of float32 that are computed in float64 (pow,
tan, ...).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from rushlight.backends.cfamily.double.arithmetic import divide, fma, root
from rushlight.backends.cfamily.double.compare import ceil, equal, floor, less, nearest, truncated
from rushlight.backends.cfamily.double.convert import from_float, from_whole, to_float, to_whole
from rushlight.backends.cfamily.double.parts import (
    ONE,
    SIGN,
    bit,
    call,
    doubles,
    rounded,
    sign_of,
    u64,
)
from rushlight.backends.cfamily.helpers import Helper
from rushlight.base.dtypes import DType, float32, float64, uint64
from rushlight.ir.scalar import E

_PLAIN: dict[str, Callable[[], Helper]] = {
    "div": divide, "fma": fma, "sqrt": root, "floor": floor, "ceil": ceil, "trunc": truncated,
    "rint": nearest, "lt": less, "eq": equal,
}  # fmt: skip
OPS = frozenset((*_PLAIN, *"add sub mul neg abs le gt ge ne".split()))


@functools.cache
def soft_helper(op: str) -> Helper:
    """An op on doubles, over their bits (uint64)."""
    if op in _PLAIN:
        return _PLAIN[op]()
    parameters = doubles(1 if op in ("neg", "abs") else 2)
    return Helper(f"f64_{op}", parameters, _made_of_others(op, parameters))


def _made_of_others(op: str, args: tuple[E, ...]) -> E:
    a, b = args[0], args[-1]
    if op == "neg":
        return a ^ SIGN
    if op == "abs":
        return a & (SIGN - 1)
    if op in ("add", "sub"):
        return call(fma(), a, u64(ONE), b if op == "add" else b ^ SIGN)
    if op == "mul":
        return call(fma(), a, b, sign_of(a ^ b))
    return _compared(op, a, b)


def soft_step(source: DType, goal: DType) -> tuple[Helper, DType]:
    """A conversion from or to float64: (helper, the dtype in which its argument must come)."""
    if source is float64:
        return (to_float() if goal is float32 else to_whole()), float64
    if source is float32:
        return from_float(), float32
    return from_whole(source is not uint64), uint64


def _compared(op: str, a: E, b: E) -> E:
    if op in ("gt", "ge"):
        return _compared("lt" if op == "gt" else "le", b, a)
    if op == "lt":
        return call(less(), a, b)
    same = call(equal(), a, b)
    if op == "le":
        return call(less(), a, b) | same
    return same if op == "eq" else ~same
