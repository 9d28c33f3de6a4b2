"""Comparisons and whole numbers of doubles, by 64-bit integers.

In: bits as uint64. Out: helpers, of bool or of bits.
"""

from __future__ import annotations

import functools

from rushlight.backends.cfamily.double.arithmetic import fma
from rushlight.backends.cfamily.double.parts import (
    NAN,
    ONE,
    SIGN,
    TWO_52,
    at_most,
    call,
    doubles,
    i32,
    is_nan,
    is_zero,
    shl,
    shr,
    sign_of,
    u64,
)
from rushlight.backends.cfamily.helpers import Helper
from rushlight.base.dtypes import int32
from rushlight.ir import scalar as s


@functools.cache
def less() -> Helper:
    a, b = doubles(2)
    minus_a, minus_b = s.ge(a, u64(SIGN)), s.ge(b, u64(SIGN))
    same = s.select(minus_a, s.lt(b, a), s.lt(a, b))
    signs = minus_a & ~(is_zero(a) & is_zero(b))
    either = is_nan(a) | is_nan(b)
    value = s.select(s.eq(s.cast(minus_a, int32), s.cast(minus_b, int32)), same, signs)
    return Helper("f64_less", (a, b), ~either & value)


@functools.cache
def equal() -> Helper:
    a, b = doubles(2)
    value = (s.eq(a, b) & ~is_nan(a)) | (is_zero(a) & is_zero(b))
    return Helper("f64_equal", (a, b), value)


@functools.cache
def truncated() -> Helper:
    (x,) = doubles(1)
    exp = s.cast(shr(x, i32(52)) & 0x7FF, int32) - 1023
    mask = shl(u64(1), i32(52) - at_most(exp, 52)) - 1
    value = s.select(s.lt(exp, i32(0)), sign_of(x), x & ~mask)
    return Helper("f64_truncated", (x,), s.select(is_nan(x), u64(NAN), value))


def _stepped(name: str, up: bool) -> Helper:
    """floor or ceil: one away from the truncated value where that is on the wrong side."""
    (x,) = doubles(1)
    whole = call(truncated(), x)
    wrong = call(less(), whole, x) if up else call(less(), x, whole)
    moved = call(fma(), whole, u64(ONE), u64(ONE | (0 if up else SIGN)))
    # A step from below 1 upwards keeps the sign of a zero.
    value = s.select(wrong, s.select(is_zero(moved), sign_of(x), moved), whole)
    return Helper(name, (x,), value)


@functools.cache
def floor() -> Helper:
    return _stepped("f64_floor", False)


@functools.cache
def ceil() -> Helper:
    return _stepped("f64_ceil", True)


@functools.cache
def nearest() -> Helper:
    """Half to even: 2**52 added and taken away."""
    (x,) = doubles(1)
    big = sign_of(x) | TWO_52
    there = call(fma(), x, u64(ONE), big)
    back = call(fma(), there, u64(ONE), big ^ SIGN)
    small = call(less(), x & (SIGN - 1), u64(TWO_52))
    value = s.select(small, s.select(is_zero(back), sign_of(x), back), x)
    return Helper("f64_nearest", (x,), s.select(is_nan(x), u64(NAN), value))
