"""How folds combine: the identity and the joining of two partial results, on scalars or vectors.

A monoid has one component, or two (argmax, argmin: value and position).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.ir as ir

from rushlight.backends.llvm.context import I64, value_type
from rushlight.base.dtypes import DType

Parts = list[ir.Value]
LAST = (1 << 63) - 1


@dataclass(frozen=True)
class Monoid:
    """identity: (type of one lane, its constant) of each component."""

    identity: tuple[tuple[ir.Type, Any], ...]
    combine: Callable[[ir.IRBuilder, Parts, Parts], Parts]


def reduce_monoid(kind: str, dtype: DType) -> Monoid:
    """For Reduce: of equal extremes the lower position; sums start from +0.0."""
    if kind in ("argmax", "argmin"):
        best = (value_type(dtype), _worst(dtype, kind == "argmax"))
        return Monoid((best, (I64, LAST)), _arg_combine(kind, dtype, latest=False))
    return Monoid(((value_type(dtype), _identity(kind, dtype)),), _combine(kind, dtype))


def scan_monoid(kind: str, dtype: DType) -> Monoid:
    """For Scan: of equal extremes the later position; -0.0 + x is x for every x."""
    if kind in ("argmax", "argmin"):
        best = (value_type(dtype), _worst(dtype, kind == "argmax"))
        return Monoid((best, (I64, 0)), _arg_combine(kind, dtype, latest=True))
    identity = _identity(kind, dtype)
    if kind == "sum" and dtype.is_floating_point:
        identity = -0.0
    return Monoid(((value_type(dtype), identity),), _combine(kind, dtype))


def _identity(kind: str, dtype: DType) -> Any:
    if kind in ("max", "min"):
        return _worst(dtype, kind == "max")
    number = {"sum": 0, "prod": 1, "any": 0, "all": 1}[kind]
    return float(number) if dtype.is_floating_point else number


def _worst(dtype: DType, is_max: bool) -> Any:
    """The value that every other one beats or equals."""
    if dtype.is_floating_point:
        return float("-inf") if is_max else float("inf")
    if dtype.kind == "bool":
        return 0 if is_max else 1
    bits = 8 * dtype.itemsize
    if dtype.kind == "uint":
        return 0 if is_max else (1 << bits) - 1
    return -(1 << (bits - 1)) if is_max else (1 << (bits - 1)) - 1


def _combine(kind: str, dtype: DType) -> Callable[[ir.IRBuilder, Parts, Parts], Parts]:
    if kind in ("any", "all"):
        return lambda b, x, y: [(b.or_ if kind == "any" else b.and_)(x[0], y[0])]
    if kind in ("sum", "prod"):
        name = {"sum": "add", "prod": "mul"}[kind]
        name = "f" + name if dtype.is_floating_point else name
        return lambda b, x, y: [getattr(b, name)(x[0], y[0])]
    symbol = ">" if kind == "max" else "<"
    return lambda b, x, y: [_extreme(b, symbol, dtype, x[0], y[0])]


def _extreme(b: ir.IRBuilder, symbol: str, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    """NaN wins; +0 is greater than -0, so that the order of a fold does not show."""
    better = _beats(b, symbol, dtype, x, y)
    if not dtype.is_floating_point:
        return b.select(better, x, y)
    better = b.or_(better, b.fcmp_unordered("uno", x, x))
    # Equal values have equal bits, but for zeros: their sign is what decides.
    as_int = _int_twin(x.type)
    join = b.and_ if symbol == ">" else b.or_
    both = b.bitcast(join(b.bitcast(x, as_int), b.bitcast(y, as_int)), x.type)
    return b.select(b.fcmp_ordered("==", x, y), both, b.select(better, x, y))


def _int_twin(kind: ir.Type) -> ir.Type:
    """The integer type (or vector of it) as wide as a float type."""
    if isinstance(kind, ir.VectorType):
        return ir.VectorType(_int_twin(kind.element), kind.count)
    return ir.IntType(64 if isinstance(kind, ir.DoubleType) else 32)


def _beats(b: ir.IRBuilder, symbol: str, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    if dtype.is_floating_point:
        return b.fcmp_ordered(symbol, x, y)
    return (b.icmp_signed if dtype.kind == "int" else b.icmp_unsigned)(symbol, x, y)


def _arg_combine(
    kind: str, dtype: DType, latest: bool
) -> Callable[[ir.IRBuilder, Parts, Parts], Parts]:
    symbol = ">" if kind == "argmax" else "<"

    def combine(b: ir.IRBuilder, x: Parts, y: Parts) -> Parts:
        """Does y replace x? If better, or equal (or both NaN) and at the wanted position."""
        better = _beats(b, symbol, dtype, y[0], x[0])
        equal = (b.fcmp_ordered if dtype.is_floating_point else b.icmp_unsigned)("==", x[0], y[0])
        if dtype.is_floating_point:
            x_nan, y_nan = (b.fcmp_unordered("uno", v, v) for v in (x[0], y[0]))
            both = b.and_(x_nan, y_nan)
            equal = b.or_(equal, both)
            better = b.or_(better, b.and_(y_nan, b.xor(both, y_nan)))
        if not latest:
            equal = b.and_(equal, b.icmp_signed("<", y[1], x[1]))
        take = b.or_(better, equal)
        return [b.select(take, new, old) for new, old in zip(y, x, strict=True)]

    return combine
