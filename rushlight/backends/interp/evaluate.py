"""Values of scalar expressions: the meaning of every basic op of ir/scalar, in numpy.

In: expressions, and a function that gives the values of leaves (loads, params, indices). Out: one
array per expression, broadcast over whatever axes the leaves have. Always true: no op here changes
what a masked-off element holds, and no warning escapes (IEEE results are results).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rushlight.backends.interp.fma import fma
from rushlight.base.dtypes import DType
from rushlight.ir.scalar import E, topological

Leaf = Callable[[E], np.ndarray]


def evaluate(
    roots: Sequence[E], leaf: Leaf, known: dict[E, np.ndarray] | None = None
) -> list[np.ndarray]:
    """The values of `roots`. `leaf` is asked for every op that reads something from outside;
    `known` holds values by expression: it is read, and filled."""
    values = {} if known is None else known
    with np.errstate(all="ignore"):
        for node in topological(tuple(roots)):
            if node in values:
                continue
            if node.op in LEAVES:
                values[node] = leaf(node)
            else:
                values[node] = apply(node, [values[a] for a in node.args])
    return [values[root] for root in roots]


LEAVES = frozenset(("param", "index", "load", "local", "acc", "check_index"))


def apply(node: E, args: list[np.ndarray]) -> np.ndarray:
    """One op that reads nothing from outside."""
    if node.op == "const":
        return np.asarray(node.meta[0]).astype(node.dtype.np)
    if node.op == "cast":
        return cast(args[0], node.args[0].dtype, node.dtype)
    if node.op == "bitcast":
        return np.ascontiguousarray(args[0]).view(node.dtype.np).reshape(args[0].shape)
    found = _OPS.get(node.op)
    if found is None:
        raise ValueError(f"scalar op {node.op!r} is not basic: run decompose_math.expand first")
    return np.asarray(found(*args))


def _idiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Toward zero; a divisor 0 gives 0; the least int by -1 wraps to itself."""
    minus_one = (b == -1) if a.dtype.kind == "i" else np.zeros(np.shape(b), bool)
    safe = np.where((b == 0) | minus_one, np.ones((), b.dtype), b)
    floor = a // safe
    rest = a - floor * safe
    quotient = floor + ((rest != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return np.where(b == 0, np.zeros((), a.dtype), np.where(minus_one, np.negative(a), quotient))


def _irem(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, np.zeros((), a.dtype), a - _idiv(a, b) * b)


def _not(a: np.ndarray) -> np.ndarray:
    return np.logical_not(a) if a.dtype == np.bool_ else np.invert(a)


_OPS: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "div": np.divide, "idiv": _idiv, "irem": _irem, "fma": fma, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "not": _not, "shl": np.left_shift, "shr": np.right_shift,
    "select": np.where,
}  # fmt: skip


def cast(value: np.ndarray, source: DType, target: DType) -> np.ndarray:
    """x86's conversions: float to int truncates; NaN and out of range give the least int32 or
    int64, of which narrower ints keep the low bits; int to int keeps the low bits."""
    if target.kind == "bool":
        return value != 0
    if source.is_floating_point and target.is_integral:
        return _float_to_int(value.astype(np.float64), target)
    if target.compute is not target and source.is_integral:
        # bfloat16 and float16 are reached through float32, as on the machine.
        return value.astype(np.float32).astype(target.np)
    return value.astype(target.np)


def _float_to_int(value: np.ndarray, target: DType) -> np.ndarray:
    if target.name == "uint64":
        high = value >= 2.0**63
        low = _in_range(np.where(high, value - 2.0**63, value), np.int64)
        return np.where(high, low ^ np.iinfo(np.int64).min, low).view(np.uint64)
    wide = np.int64 if target.name in ("int64", "uint32") else np.int32
    return _in_range(value, wide).astype(target.np)


def _in_range(value: np.ndarray, wide: type) -> np.ndarray:
    least = np.iinfo(wide).min
    # The bounds compare the truncated value: -2**31 - 0.5 is still in range.
    whole = np.trunc(value)
    fits = (whole >= float(least)) & (whole < -float(least))
    return np.where(fits, np.where(fits, whole, 0.0).astype(wide), wide(least))
