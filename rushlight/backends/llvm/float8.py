"""The five float8 dtypes to float32 and back, on integers, with the same bits on every CPU.

A value is its byte in i8. Rounding is to nearest, ties to even. What is too large becomes infinity
or NaN, and in float8_e4m3fn the largest number, as PyTorch converts.
"""

from __future__ import annotations

from typing import NamedTuple

import llvmlite.ir as ir

from rushlight.backends.llvm.ops import F32, I32, constant, with_lanes
from rushlight.base.dtypes import DType

I8 = ir.IntType(8)


class Format(NamedTuple):
    """mantissa bits, exponent bias, the magnitude above the largest number, and what too large
    values become."""

    mantissa: int
    bias: int
    above: int
    too_large: int
    has_infinity: bool = False
    is_unsigned_zero: bool = False  # fnuz: no -0; the byte 0x80 is the NaN


FORMATS = {
    "float8_e4m3fn": Format(3, 7, 0x7F, 0x7E),
    "float8_e5m2": Format(2, 15, 0x7C, 0x7C, has_infinity=True),
    "float8_e4m3fnuz": Format(3, 8, 0x80, 0x80, is_unsigned_zero=True),
    "float8_e5m2fnuz": Format(2, 16, 0x80, 0x80, is_unsigned_zero=True),
}
NAN = 0x7FC00000


class _Builder:
    """Short names for operations on i32 and float32 values of some number of lanes."""

    def __init__(self, b: ir.IRBuilder, like: ir.Type) -> None:
        self.b, self.int, self.float = b, with_lanes(I32, like), with_lanes(F32, like)

    def number(self, value: int) -> ir.Constant:
        return constant(self.int, value)

    def masked(self, x: ir.Value, mask: int) -> ir.Value:
        return self.b.and_(x, self.number(mask))

    def is_(self, x: ir.Value, relation: str, value: int) -> ir.Value:
        return self.b.icmp_unsigned(relation, x, self.number(value))

    def as_int(self, x: ir.Value) -> ir.Value:
        return self.b.bitcast(x, self.int)

    def as_float(self, x: ir.Value) -> ir.Value:
        return self.b.bitcast(x, self.float)

    def pick(self, condition: ir.Value, value: int, other: ir.Value) -> ir.Value:
        return self.b.select(condition, self.number(value), other)


def float8_to_float(b: ir.IRBuilder, x: ir.Value, source: DType) -> ir.Value:
    """The float32 value of a byte."""
    t = _Builder(b, x.type)
    byte = b.zext(x, t.int)
    if source.name == "float8_e8m0fnu":  # 2**(byte - 127)
        bits = t.pick(t.is_(byte, "==", 0), 0x00400000, b.shl(byte, t.number(23)))
        return t.as_float(t.pick(t.is_(byte, "==", 255), NAN, bits))
    form = FORMATS[source.name]
    magnitude = t.masked(byte, 0x7F)
    # The bits in float32's places are the number over 2**(127 - bias), subnormal or not.
    small = t.as_float(b.shl(magnitude, t.number(23 - form.mantissa)))
    scaled = t.as_int(b.fmul(small, constant(t.float, 2.0 ** (127 - form.bias))))
    if form.is_unsigned_zero:
        is_nan = t.is_(byte, "==", 0x80)
    else:
        is_nan = t.is_(magnitude, ">" if form.has_infinity else ">=", form.above)
    if form.has_infinity:
        scaled = t.pick(t.is_(magnitude, "==", form.above), 0x7F800000, scaled)
    sign = b.shl(t.masked(byte, 0x80), t.number(24))
    return t.as_float(b.or_(t.pick(is_nan, NAN, scaled), sign))


def float_to_float8(b: ir.IRBuilder, x: ir.Value, goal: DType) -> ir.Value:
    """The byte nearest to a float32 value."""
    t = _Builder(b, x.type)
    bits = t.as_int(x)
    if goal.name == "float8_e8m0fnu":
        return b.trunc(_to_power(t, t.masked(bits, 0x7FFFFFFF)), with_lanes(I8, x.type))
    form = FORMATS[goal.name]
    size = t.masked(bits, 0x7FFFFFFF)
    byte = _magnitude(t, size, form)
    is_nan = t.is_(size, ">", 0x7F800000)
    sign = t.masked(b.lshr(bits, t.number(24)), 0x80)
    if form.is_unsigned_zero:
        sign = t.pick(t.is_(byte, "==", 0), 0, sign)
        byte = t.pick(t.is_(byte, ">=", form.above), form.above, b.or_(byte, sign))
        byte = t.pick(is_nan, form.above, byte)
    else:
        byte = t.pick(t.is_(byte, ">=", form.above), form.too_large, byte)
        byte = b.or_(t.pick(is_nan, 0x7F, byte), sign)
    return b.trunc(byte, with_lanes(I8, x.type))


def _magnitude(t: _Builder, size: ir.Value, form: Format) -> ir.Value:
    """The rounded bits of a number without sign, beyond the largest one too."""
    b, drop = t.b, 23 - form.mantissa
    lowest = t.masked(b.lshr(size, t.number(drop)), 1)
    rounded = b.add(b.add(size, t.number((1 << (drop - 1)) - 1)), lowest)
    normal = b.sub(b.lshr(rounded, t.number(drop)), t.number((127 - form.bias) << form.mantissa))
    # A subnormal: adding the number whose last bit is the smallest one rounds; then take it away.
    magic = (1 - form.bias - form.mantissa + 23 + 127) << 23
    summed = b.fadd(t.as_float(size), t.as_float(t.number(magic)))
    subnormal = b.sub(t.as_int(summed), t.number(magic))
    return b.select(t.is_(size, "<", (1 - form.bias + 127) << 23), subnormal, normal)


def _to_power(t: _Builder, size: ir.Value) -> ir.Value:
    """The exponent of the nearest power of two; half-way goes up, except at the lowest exponent."""
    b = t.b
    exponent, rest = b.lshr(size, t.number(23)), t.masked(size, 0x7FFFFF)
    above = t.is_(rest, ">", 0x400000)
    half = b.and_(t.is_(rest, "==", 0x400000), t.is_(exponent, ">", 0))
    rounded = b.add(exponent, b.zext(b.or_(above, half), t.int))
    return t.pick(t.is_(exponent, "==", 255), 255, rounded)
