"""Conversions from and to doubles, by 64-bit integers.

In: values, or bits as uint64. Out: helpers.
"""

from __future__ import annotations

import functools

from rushlight.backends.cfamily.double.parts import (
    INFINITY,
    NAN,
    SIGN,
    at_most,
    call,
    doubles,
    exponent,
    i32,
    is_infinite,
    is_nan,
    is_zero,
    leading_zeros,
    rounded,
    shifted_low,
    shl,
    shr,
    sign_of,
    significand,
    u64,
)
from rushlight.backends.cfamily.helpers import Helper, raw
from rushlight.base.dtypes import bool_, float32, int32, uint32, uint64
from rushlight.ir import scalar as s


@functools.cache
def from_float() -> Helper:
    x = s.param("x", float32)
    bits = s.bitcast(x, uint32)
    sign = shl(s.cast(bits & 0x80000000, uint64), i32(32))
    field = s.cast(raw("shr", bits, s.const(23, uint32)) & 0xFF, int32)
    fraction = s.cast(bits & 0x7FFFFF, uint64)
    shift = call(leading_zeros(), fraction | 1) - 40
    denormal = s.eq(field, i32(0))
    shift = s.select(denormal, shift, i32(0))
    exp = s.select(denormal, i32(1) - shift, field) + (1023 - 127)
    body = shl(fraction, shift) & 0x7FFFFF
    value = shl(s.cast(exp, uint64), i32(52)) | shl(body, i32(29))
    special = s.select(s.eq(fraction, u64(0)), u64(INFINITY), u64(NAN))
    value = s.select(s.eq(field, i32(0xFF)), special, value)
    zero = s.eq(bits & 0x7FFFFFFF, s.const(0, uint32))
    return Helper("f32_to_f64", (x,), sign | s.select(zero, u64(0), value))


@functools.cache
def to_float() -> Helper:
    (x,) = doubles(1)
    sign = s.cast(shr(sign_of(x), i32(32)), uint32)
    # Bit 30 first, as exponent - 1 wants it; what is below is one last bit.
    exp = call(exponent(), x) - (1023 - 127) - 1
    sig = call(shifted_low(), u64(0), call(significand(), x), i32(22))
    under = at_most(i32(0) - exp, 4095)
    sig = call(shifted_low(), u64(0), sig, under)
    exp = s.select(s.lt(exp, i32(0)), i32(0), exp)
    up = shr(sig + 0x40, i32(7))
    up = s.select(s.eq(sig & 0x7F, u64(0x40)), up & ((1 << 64) - 2), up)
    exp = s.select(s.eq(up, u64(0)), i32(0), exp)
    found = shl(s.cast(exp, uint64), i32(23)) + up
    over = s.ge(found, u64(0xFF << 23)) | s.gt(exp, i32(0xFE))
    found = s.select(over | is_infinite(x), u64(0xFF << 23), found)
    found = s.select(is_zero(x), u64(0), found)
    found = s.select(is_nan(x), u64(0x7FC00000), found)
    return Helper("f64_to_f32", (x,), s.bitcast(sign | s.cast(found, uint32), float32))


@functools.cache
def from_whole(signed: bool) -> Helper:
    """Of a 64-bit number, given as uint64."""
    (x,) = doubles(1)
    negative = s.ge(x, u64(SIGN)) if signed else s.const(False, bool_)
    size = s.select(negative, u64(0) - x, x)
    zeros = call(leading_zeros(), size | 1)
    lost = shr(size, i32(1)) | (size & 1)
    sig = s.select(
        s.eq(zeros, i32(0)), lost, shl(size, s.select(s.eq(zeros, i32(0)), i32(0), zeros - 1))
    )
    sign = s.select(negative, u64(SIGN), u64(0))
    value = call(rounded(), sign, i32(0x3FF + 62) - zeros, sig)
    name = "i64_to_f64" if signed else "u64_to_f64"
    return Helper(name, (x,), s.select(s.eq(x, u64(0)), u64(0), value))


@functools.cache
def to_whole() -> Helper:
    """Toward zero, as the bits of an int64; for values that fit."""
    (x,) = doubles(1)
    shift = call(exponent(), x) - 1075
    left, right = at_most(shift, 11), at_most(i32(0) - shift, 63)
    size = shr(shl(call(significand(), x), left), right)
    size = s.select(is_zero(x), u64(0), size)
    return Helper("f64_to_whole", (x,), s.select(s.ge(x, u64(SIGN)), u64(0) - size, size))
