"""Numbers of one byte: their conversions as scalar expressions of whole numbers and float32.

In: an expression. Out: basic expressions, so that no backend knows these dtypes: in memory they are
bytes. Rounding is to nearest, ties to even, once (float64 comes by a float32 rounded to odd). The
rules are PyTorch's: too large a number becomes the largest (e4m3fn), inf (e5m2) or NaN (fnuz); e8m0
holds powers of two alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rushlight.base.dtypes import DType, float32, float64, int32, uint8
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

F32_NAN = 0x7FC00000
F32_INF = 0x7F800000


@dataclass(frozen=True)
class Format:
    """mantissa: its bits. limit: the float32 from which on the code is `over`. nan: its code.
    infinity: `over` is inf. fnuz: one zero, and NaN is the code that would be -0."""

    mantissa: int
    bias: int
    limit: float
    over: int
    nan: int
    infinity: bool = False
    fnuz: bool = False


FORMATS = {
    "float8_e4m3fn": Format(3, 7, 464.0, 0x7E, 0x7F),
    "float8_e5m2": Format(2, 15, 65536.0, 0x7C, 0x7F, infinity=True),
    "float8_e4m3fnuz": Format(3, 8, 256.0, 0x80, 0x80, fnuz=True),
    "float8_e5m2fnuz": Format(2, 16, 65536.0, 0x80, 0x80, fnuz=True),
}


def _int(value: int) -> E:
    return s.const(value, int32)


def decode(x: E) -> E:
    """The float32 of a code; exact."""
    code = s.cast(s.bitcast(x, uint8), int32)
    if x.dtype.name == "float8_e8m0fnu":
        return _decode_power(code)
    f = FORMATS[x.dtype.name]
    size = s.bit_and(code, _int(0x7F))
    # An exponent of 0 counts in steps of the smallest number.
    tiny = s.mul(s.cast(size, float32), s.const(2.0 ** (1 - f.bias - f.mantissa), float32))
    up = _int((127 - f.bias) << 23)
    plain = s.bitcast(s.add(s.shl(size, _int(23 - f.mantissa)), up), float32)
    value = s.select(s.lt(size, _int(1 << f.mantissa)), tiny, plain)
    value = s.select(s.ne(s.bit_and(code, _int(0x80)), _int(0)), s.neg(value), value)
    if f.fnuz:
        return s.select(s.eq(code, _int(f.nan)), _nan(), value)
    if not f.infinity:
        return s.select(s.eq(size, _int(f.nan)), _nan(), value)
    infinite = s.bitcast(s.bit_or(_sign_bit(code), _int(F32_INF)), float32)
    special = s.select(s.eq(size, _int(f.over)), infinite, _nan())
    return s.select(s.lt(size, _int(f.over)), value, special)


def _nan() -> E:
    return s.bitcast(_int(F32_NAN), float32)


def _sign_bit(code: E) -> E:
    return s.shl(s.bit_and(code, _int(0x80)), _int(24))


def _decode_power(code: E) -> E:
    bits = s.select(s.eq(code, _int(0)), _int(0x00400000), s.shl(code, _int(23)))
    return s.bitcast(s.select(s.eq(code, _int(255)), _int(F32_NAN), bits), float32)


def encode(x: E, dtype: DType) -> E:
    """The nearest number of one byte, ties to the even code."""
    bits = s.bitcast(_narrowed(x), int32)
    size = s.bit_and(bits, _int(0x7FFFFFFF))
    if dtype.name == "float8_e8m0fnu":
        return s.bitcast(s.cast(_encode_power(size), uint8), dtype)
    f = FORMATS[dtype.name]
    drop = 23 - f.mantissa
    odd = s.bit_and(s.shr(size, _int(drop)), _int(1))
    rounded = s.add(s.add(size, odd), _int((1 << (drop - 1)) - 1))
    plain = s.sub(s.shr(rounded, _int(drop)), _int((127 - f.bias) << f.mantissa))
    # Adding a power of two leaves what is below the smallest normal number, rounded, in low bits.
    magic = float(2.0 ** (1 - f.bias - f.mantissa + 23))
    lifted = s.add(s.bitcast(size, float32), s.const(magic, float32))
    tiny = s.sub(s.bitcast(lifted, int32), s.bitcast(s.const(magic, float32), int32))
    code = s.select(s.lt(size, _int((127 - f.bias + 1) << 23)), tiny, plain)
    code = s.select(s.ge(size, _int(_bits_of(f.limit))), _int(f.over), code)
    code = s.select(s.gt(size, _int(F32_INF)), _int(f.nan), code)
    sign = s.select(s.lt(bits, _int(0)), _int(0x80), _int(0))
    if f.fnuz:
        sign = s.select(s.eq(code, _int(0)), _int(0), sign)
    return s.bitcast(s.cast(s.bit_or(code, sign), uint8), dtype)


def _encode_power(size: E) -> E:
    """The exponent, one more when the fraction is at least a half (a denormal: more than it)."""
    exponent = s.shr(size, _int(23))
    fraction = s.bit_and(size, _int(0x7FFFFF))
    normal = s.gt(exponent, _int(0))
    up = s.bit_or(s.gt(fraction, _int(0x400000)), s.bit_and(s.eq(fraction, _int(0x400000)), normal))
    rounded = s.add(exponent, s.select(up, _int(1), _int(0)))
    return s.select(s.eq(exponent, _int(255)), _int(255), rounded)


def _bits_of(value: float) -> int:
    return int(np.float32(value).view(np.int32))


def _narrowed(x: E) -> E:
    """A float32 whose rounding to fewer bits is that of x: float64 is rounded to odd."""
    if x.dtype.is_integral and x.dtype.itemsize >= 4:
        x = s.cast(x, float64)
    if x.dtype is not float64:
        return s.cast(x, float32)
    near = s.cast(x, float32)
    back = s.cast(near, float64)
    bits = s.bitcast(near, int32)
    past = s.gt(s.abs_(back), s.abs_(x))
    cut = s.select(past, s.sub(bits, _int(1)), bits)
    sticky = s.bit_or(cut, _int(1))
    return s.select(s.bit_or(s.eq(back, x), s.is_nan(x)), near, s.bitcast(sticky, float32))


s.CONVERSIONS.update({name: (decode, encode) for name in (*FORMATS, "float8_e8m0fnu")})
