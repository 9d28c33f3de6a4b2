"""How folds combine, as scalar expressions: the identity, and the joining of two partial results.

A partial result has one part, or two (argmax, argmin: value and position).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rushlight.base.dtypes import DType, int64
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

Parts = tuple[E, ...]
LAST = (1 << 63) - 1


@dataclass(frozen=True)
class Monoid:
    identity: Parts
    combine: Callable[[Parts, Parts], Parts]

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return tuple(part.dtype for part in self.identity)


def reduce_monoid(kind: str, dtype: DType) -> Monoid:
    """For Reduce: of equal extremes the lower position; sums start from +0.0."""
    if kind in ("argmax", "argmin"):
        identity = (_worst(dtype, kind == "argmax"), s.const(LAST, int64))
        return Monoid(identity, lambda x, y: _arg(kind, x, y, latest=False))
    return Monoid((_identity(kind, dtype),), lambda x, y: (_join(kind, x[0], y[0]),))


def scan_monoid(kind: str, dtype: DType) -> Monoid:
    """For Scan: of equal extremes the later position; -0.0 + x is x for every x."""
    if kind in ("argmax", "argmin"):
        identity = (_worst(dtype, kind == "argmax"), s.const(0, int64))
        return Monoid(identity, lambda x, y: _arg(kind, x, y, latest=True))
    start = _identity(kind, dtype)
    if kind == "sum" and dtype.is_floating_point:
        start = s.const(-0.0, dtype)
    return Monoid((start,), lambda x, y: (_join(kind, x[0], y[0]),))


def join(kind: str, x: E, y: E) -> E:
    """One step of a sum, prod, max, min, any or all, or "set"."""
    return y if kind == "set" else _join(kind, x, y)


def _identity(kind: str, dtype: DType) -> E:
    if kind in ("max", "min"):
        return _worst(dtype, kind == "max")
    return s.const({"sum": 0, "prod": 1, "any": 0, "all": 1}[kind], dtype)


def _worst(dtype: DType, is_max: bool) -> E:
    """The value that every other one beats or equals."""
    if dtype.is_floating_point:
        return s.const(float("-inf") if is_max else float("inf"), dtype)
    if dtype.kind == "bool":
        return s.const(not is_max, dtype)
    bits = 8 * dtype.itemsize
    low, high = (0, (1 << bits) - 1) if dtype.kind == "uint" else _signed_range(bits)
    return s.const(low if is_max else high, dtype)


def _signed_range(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _join(kind: str, x: E, y: E) -> E:
    if kind in ("any", "all"):
        return s.bit_or(x, y) if kind == "any" else s.bit_and(x, y)
    if kind in ("sum", "prod"):
        return x + y if kind == "sum" else x * y
    return s.make(f"fold_{kind}", (x, y), x.dtype)  # helpers.extreme_helper says what it is


def _arg(kind: str, x: Parts, y: Parts, latest: bool) -> Parts:
    """Does y replace x? If better, or equal (or both NaN) and at the wanted position."""
    better = s.gt(y[0], x[0]) if kind == "argmax" else s.lt(y[0], x[0])
    equal = s.eq(x[0], y[0])
    if x[0].dtype.is_floating_point:
        x_nan, y_nan = s.is_nan(x[0]), s.is_nan(y[0])
        equal = equal | (x_nan & y_nan)
        better = better | (y_nan & ~x_nan)
    if not latest:
        equal = equal & s.lt(y[1], x[1])
    take = better | equal
    return tuple(s.select(take, new, old) for new, old in zip(y, x, strict=True))
