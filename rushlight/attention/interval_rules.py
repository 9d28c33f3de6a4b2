"""What ops do with intervals: one rule per op, from the intervals of its operands to its own.

A rule gives None where it knows nothing. Bounds are float64: whole numbers beyond EXACT are only
known to lie in between. A float that may be NaN has infinite bounds: nothing is concluded of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rushlight.ir.node import Node
from rushlight.tensors.info import finfo, iinfo

Slopes = tuple[float, float, float, float]
EXACT = 2.0**53  # whole numbers up to here are float64
INFINITY = float("inf")


@dataclass(frozen=True)
class Values:
    """low <= value <= high, for each box. `slopes`: the value is something constant plus these
    numbers times the four indices, so both bounds are reached, and all between if they are 1."""

    low: np.ndarray
    high: np.ndarray
    slopes: Slopes | None = None

    @property
    def is_one(self) -> np.ndarray:
        return self.low == self.high


@dataclass(frozen=True)
class Truth:
    """can_hold, can_fail; mixed: both are known to occur in the box."""

    can_hold: np.ndarray
    can_fail: np.ndarray
    mixed: np.ndarray


Found = Values | Truth
FLAT: Slopes = (0.0, 0.0, 0.0, 0.0)


def _add(node: Node, a: Values, b: Values) -> Values:
    slopes = None
    if a.slopes is not None and b.slopes is not None:
        slopes = tuple(x + y for x, y in zip(a.slopes, b.slopes, strict=True))
    return _linear(node, slopes, a, b) or Values(a.low + b.low, a.high + b.high)


def _sub(node: Node, a: Values, b: Values) -> Values:
    return _add(node, a, _neg(node, b))


def _neg(node: Node, a: Values) -> Values:
    slopes = None if a.slopes is None else tuple(-x for x in a.slopes)
    return Values(-a.high, -a.low, slopes)  # type: ignore[arg-type]


def _linear(node: Node, slopes: object, a: Values, b: Values) -> Values | None:
    """A sum of values that move with different indices reaches the sums of their bounds."""
    if slopes is None or a.slopes is None or b.slopes is None:
        return None
    shared = any(x and y for x, y in zip(a.slopes, b.slopes, strict=True))
    if shared:
        return None
    return Values(a.low + b.low, a.high + b.high, slopes)  # type: ignore[arg-type]


def _mul(node: Node, a: Values, b: Values) -> Values | None:
    if not (_finite(a) and _finite(b)):
        return None
    ends = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high]
    slopes = None
    for x, y in ((a, b), (b, a)):
        if x.slopes is not None and y.slopes == FLAT and len(y.low) and (y.low == y.low[0]).all():
            slopes = tuple(s * float(y.low[0]) for s in x.slopes)
    return Values(np.minimum.reduce(ends), np.maximum.reduce(ends), slopes)  # type: ignore[arg-type]


def _floor_divide(node: Node, a: Values, b: Values) -> Values | None:
    if not (b.is_one & (b.low > 0)).all():
        return None
    return Values(np.floor(a.low / b.low), np.floor(a.high / b.low))


def _remainder(node: Node, a: Values, b: Values) -> Values | None:
    if not (b.is_one & (b.low > 0)).all() or not _finite(a):
        return None
    turn = np.floor(a.low / b.low)
    same = turn == np.floor(a.high / b.low)
    low = np.where(same, a.low - turn * b.low, 0)
    most = b.low if node.dtype.kind == "float" else b.low - 1
    return Values(low, np.where(same, a.high - turn * b.low, most))


def _abs(node: Node, a: Values) -> Values:
    crosses = (a.low < 0) & (a.high > 0)
    ends = np.abs(a.low), np.abs(a.high)
    return Values(np.where(crosses, 0, np.minimum(*ends)), np.maximum(*ends))


def _minimum(node: Node, a: Values, b: Values) -> Values:
    return Values(np.minimum(a.low, b.low), np.minimum(a.high, b.high))


def _maximum(node: Node, a: Values, b: Values) -> Values:
    return Values(np.maximum(a.low, b.low), np.maximum(a.high, b.high))


def _same(node: Node, a: Found) -> Found | None:
    """A cast or a view. A cast to bool asks whether it is 0."""
    if isinstance(a, Truth):
        return a if node.dtype.kind == "bool" else None
    if node.dtype.kind == "bool" or not _finite(a):
        return None
    to_whole = node.dtype.kind != "float" and node.src[0].dtype.kind == "float"
    return in_range(node, Values(np.trunc(a.low), np.trunc(a.high)) if to_whole else a)


def _where(node: Node, condition: Truth, a: Found, b: Found) -> Found | None:
    always, never = ~condition.can_fail, ~condition.can_hold
    if isinstance(a, Truth) and isinstance(b, Truth):
        return Truth(
            np.where(always, a.can_hold, np.where(never, b.can_hold, a.can_hold | b.can_hold)),
            np.where(always, a.can_fail, np.where(never, b.can_fail, a.can_fail | b.can_fail)),
            np.where(always, a.mixed, never & b.mixed),
        )
    if isinstance(a, Truth) or isinstance(b, Truth):
        return None
    low = np.where(always, a.low, np.where(never, b.low, np.minimum(a.low, b.low)))
    high = np.where(always, a.high, np.where(never, b.high, np.maximum(a.high, b.high)))
    slopes = a.slopes if always.all() else b.slopes if never.all() else None
    return Values(low, high, slopes)


def _finite(a: Values) -> bool:
    return bool(np.isfinite(a.low).all() and np.isfinite(a.high).all())


# ---- truth ---------------------------------------------------------------------------------------


def _compare(hold: Callable, fail: Callable, needs_zero: bool = False) -> Callable:
    """hold(low, high), fail(low, high): of the difference of both sides. needs_zero: to be mixed,
    the difference must reach 0 and not only both its ends."""

    def rule(node: Node, a: Found, b: Found) -> Truth | None:
        if isinstance(a, Truth) or isinstance(b, Truth) or _may_be_nan(node.src, (a, b)):
            return None
        d = _sub(node, a, b)
        can_hold, can_fail = hold(d.low, d.high), fail(d.low, d.high)
        known = d.slopes is not None
        if known and needs_zero:
            known = all(abs(x) in (0.0, 1.0) for x in d.slopes) and (d.low == np.rint(d.low)).all()
        return Truth(can_hold, can_fail, can_hold & can_fail & known)

    return rule


def _and(node: Node, a: Found, b: Found) -> Truth | None:
    if isinstance(a, Values) or isinstance(b, Values):
        return None
    mixed = (~a.can_fail & b.mixed) | (~b.can_fail & a.mixed)
    return Truth(a.can_hold & b.can_hold, a.can_fail | b.can_fail, mixed)


def _not(node: Node, a: Found) -> Truth | None:
    return None if isinstance(a, Values) else Truth(a.can_fail, a.can_hold, a.mixed)


def _or(node: Node, a: Found, b: Found) -> Truth | None:
    if isinstance(a, Values) or isinstance(b, Values):
        return None
    mixed = (~a.can_hold & b.mixed) | (~b.can_hold & a.mixed)
    return Truth(a.can_hold | b.can_hold, a.can_fail & b.can_fail, mixed)


def _xor(node: Node, a: Found, b: Found) -> Truth | None:
    if isinstance(a, Values) or isinstance(b, Values):
        return None
    can_hold = (a.can_hold & b.can_fail) | (a.can_fail & b.can_hold)
    can_fail = (a.can_hold & b.can_hold) | (a.can_fail & b.can_fail)
    a_known, b_known = (~(x.can_hold & x.can_fail) for x in (a, b))
    return Truth(can_hold, can_fail, (a_known & b.mixed) | (b_known & a.mixed))


def _of_values(rule: Callable, overflows: bool = True) -> Callable:
    """A rule of numbers only; `overflows`: the result may be one that the dtype does not hold."""

    def checked(node: Node, *args: Found) -> Found | None:
        if any(isinstance(a, Truth) for a in args) or _may_be_nan(node.src, args):
            return None
        found = rule(node, *args)
        return in_range(node, found) if overflows and found is not None else found

    return checked


def _may_be_nan(src: Sequence[Node], args: Sequence[Found]) -> bool:
    """Is a float among them of which not even the range is known?"""
    return any(s.dtype.kind == "float" and not _finite(a) for s, a in zip(src, args, strict=True))


def in_range(node: Node, values: Values) -> Values:
    """What the values may be in the dtype of the node: floats are rounded, and what the dtype does
    not hold becomes something else (whole numbers wrap, floats are infinite)."""
    is_float = node.dtype.kind == "float"
    values = _rounded(node, values) if is_float else values
    limits, most = (finfo, INFINITY) if is_float else (iinfo, EXACT)
    info = limits(node.dtype)
    fits = (values.low >= info.min) & (values.high <= info.max)
    low_known, high_known = fits & (values.low >= -most), fits & (values.high <= most)
    if (low_known & high_known).all():
        return values
    return Values(
        np.where(low_known, values.low, -INFINITY), np.where(high_known, values.high, INFINITY)
    )


def _rounded(node: Node, values: Values) -> Values:
    """Floats are rounded by whoever computes them: a little wider."""
    step = {1: 2.0**-1, 2: 2.0**-6, 4: 2.0**-22, 8: 2.0**-50}[node.dtype.itemsize]
    low, high = (x + sign * np.abs(x) * step for x, sign in ((values.low, -1), (values.high, 1)))
    exact = (values.low == low) & (values.high == high)
    return Values(low, high, values.slopes if exact.all() else None)


_NUMBERS = {
    "add": _add, "sub": _sub, "neg": _neg, "mul": _mul, "floor_divide": _floor_divide,
    "remainder": _remainder, "abs": _abs,
}  # fmt: skip

RULES: dict[str, Callable[..., Found | None]] = {
    **{name: _of_values(rule) for name, rule in _NUMBERS.items()},
    "minimum": _of_values(_minimum, overflows=False),
    "maximum": _of_values(_maximum, overflows=False),
    "cast": _same, "expand": _same, "where": _where,
    "lt": _compare(lambda low, high: low < 0, lambda low, high: high >= 0),
    "le": _compare(lambda low, high: low <= 0, lambda low, high: high > 0),
    "gt": _compare(lambda low, high: high > 0, lambda low, high: low <= 0),
    "ge": _compare(lambda low, high: high >= 0, lambda low, high: low < 0),
    "eq": _compare(
        lambda low, high: (low <= 0) & (high >= 0), lambda low, high: (low < 0) | (high > 0), True
    ),
    "ne": _compare(
        lambda low, high: (low < 0) | (high > 0), lambda low, high: (low <= 0) & (high >= 0), True
    ),
    "logical_and": _and, "bitwise_and": _and, "logical_or": _or, "bitwise_or": _or,
    "logical_xor": _xor, "bitwise_xor": _xor, "logical_not": _not, "bitwise_not": _not,
}  # fmt: skip
