"""The parts of a double, and a double from parts.

In: bits as uint64. Out: helpers and short expressions. A double in parts: value = significand *
2**(exponent - 1075), with bit 52 of the significand set; denormals are brought to that form, so
their exponent is 0 or less.
"""

from __future__ import annotations

import functools

from rushlight.backends.cfamily.helpers import Helper, raw
from rushlight.base.dtypes import DType, int32, uint64
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

SIGN = 1 << 63
INFINITY = 0x7FF << 52
NAN = INFINITY | (1 << 51)
FRACTION = (1 << 52) - 1
ONE = 1023 << 52
TWO_52 = (1023 + 52) << 52


def call(helper: Helper, *args: E) -> E:
    """A use of a helper inside another."""
    return s.make("call", args, helper.value.dtype, helper)


def u64(value: int) -> E:
    return s.const(value, uint64)


def i32(value: int) -> E:
    return s.const(value, int32)


def doubles(count: int, dtype: DType = uint64) -> tuple[E, ...]:
    return tuple(s.param(name, dtype) for name in "abc"[:count])


def shl(x: E, n: E) -> E:
    """x << n for 0 <= n < 64."""
    return raw("shl", x, _distance(n, x.dtype))


def shr(x: E, n: E) -> E:
    return raw("shr", x, _distance(n, x.dtype))


def _distance(n: E, dtype: DType) -> E:
    return s.const(n.meta[0], dtype) if n.op == "const" else s.cast(n, dtype)


def sign_of(x: E) -> E:
    return x & SIGN


def bit(condition: E) -> E:
    """1 where it holds: what was lost on the right, as a last bit."""
    return s.cast(condition, uint64)


def at_most(x: E, limit: int) -> E:
    """A distance of a shift: 0 where it is negative."""
    capped = s.select(s.gt(x, i32(limit)), i32(limit), x)
    return s.select(s.lt(x, i32(0)), i32(0), capped)


def is_nan(x: E) -> E:
    return s.gt(x & (SIGN - 1), u64(INFINITY))


def is_infinite(x: E) -> E:
    return s.eq(x & (SIGN - 1), u64(INFINITY))


def is_zero(x: E) -> E:
    return s.eq(x & (SIGN - 1), u64(0))


@functools.cache
def leading_zeros() -> Helper:
    """Of a 64-bit number that is not 0."""
    (x,) = doubles(1)
    count, rest = i32(0), x
    for width in (32, 16, 8, 4, 2, 1):
        empty = s.lt(rest, u64(1 << (64 - width)))
        count = count + s.select(empty, i32(width), i32(0))
        rest = s.select(empty, shl(rest, i32(width)), rest)
    return Helper("leading_zeros", (x,), count)


@functools.cache
def exponent() -> Helper:
    (x,) = doubles(1)
    field, fraction = s.cast(shr(x, i32(52)) & 0x7FF, int32), x & FRACTION
    denormal = i32(12) - call(leading_zeros(), fraction | 1)
    return Helper("f64_exponent", (x,), s.select(s.eq(field, i32(0)), denormal, field))


@functools.cache
def significand() -> Helper:
    (x,) = doubles(1)
    fraction = x & FRACTION
    shift = call(leading_zeros(), fraction | 1) - 11
    is_denormal = s.eq(x & INFINITY, u64(0))
    shift = s.select(is_denormal, shift, i32(0))
    return Helper(
        "f64_significand",
        (x,),
        s.select(is_denormal, shl(fraction, shift), fraction | (1 << 52)),
    )


@functools.cache
def product_high() -> Helper:
    """The upper 64 bits of a 128-bit product."""
    a, b = doubles(2)
    low = 0xFFFFFFFF
    a0, a1, b0, b1 = a & low, shr(a, i32(32)), b & low, shr(b, i32(32))
    middle = a1 * b0 + shr(a0 * b0, i32(32))
    other = a0 * b1 + (middle & low)
    return Helper("product_high", (a, b), a1 * b1 + shr(middle, i32(32)) + shr(other, i32(32)))


@functools.cache
def shifted_low() -> Helper:
    """The lower half of (high, low) >> n; a last bit says that something was lost."""
    high, low = doubles(2)
    n = s.param("n", int32)
    near, far = at_most(n, 63), at_most(n - 64, 63)
    lost = shl(shl(low, i32(63) - near), i32(1))  # n = 0 loses nothing
    close = shr(low, near) | shl(shl(high, i32(63) - near), i32(1))
    gone = shl(shl(high, i32(63) - far), i32(1)) | low
    apart = s.select(s.ge(n, i32(128)), bit(s.ne(high | low, u64(0))),
                     shr(high, far) | bit(s.ne(gone, u64(0))))  # fmt: skip
    value = s.select(s.lt(n, i32(64)), close | bit(s.ne(lost, u64(0))), apart)
    return Helper("shifted_low", (high, low, n), value)


def shifted_high(high: E, n: E) -> E:
    return s.select(s.lt(n, i32(64)), shr(high, at_most(n, 63)), u64(0))


@functools.cache
def rounded() -> Helper:
    """sign, a significand with bit 62 set (or 0) and its exponent - 1, to the nearest double."""
    sign, sig = s.param("sign", uint64), s.param("sig", uint64)
    exp = s.param("exp", int32)
    under = at_most(i32(0) - exp, 4095)
    tiny = call(shifted_low(), u64(0), sig, under)
    sig = s.select(s.lt(exp, i32(0)), tiny, sig)
    exp = s.select(s.lt(exp, i32(0)), i32(0), exp)
    up = shr(sig + 0x200, i32(10))
    is_tie = s.eq(sig & 0x3FF, u64(0x200))
    found = s.select(is_tie, up & ((1 << 64) - 2), up)
    exp = s.select(s.eq(found, u64(0)), i32(0), exp)
    over = s.gt(exp, i32(0x7FD)) | (s.eq(exp, i32(0x7FD)) & s.ge(sig + 0x200, u64(SIGN)))
    packed = shl(s.cast(exp, uint64), i32(52)) + found
    value = sign | s.select(over, u64(INFINITY), packed)
    parameters = (sign, s.param("exp", int32), s.param("sig", uint64))
    return Helper("f64_rounded", parameters, value)
