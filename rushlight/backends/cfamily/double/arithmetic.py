"""Sums, products, quotients and roots of doubles, by 64-bit integers.

In: bits as uint64. Out: helpers. Always true: one rounding, to nearest even. One core does the
work, `fma`; sums and products are special cases of it.
"""

from __future__ import annotations

import functools

from rushlight.backends.cfamily.double.convert import from_float, to_float
from rushlight.backends.cfamily.double.parts import (
    FRACTION,
    INFINITY,
    NAN,
    ONE,
    SIGN,
    at_most,
    bit,
    call,
    doubles,
    exponent,
    i32,
    is_infinite,
    is_nan,
    is_zero,
    leading_zeros,
    product_high,
    rounded,
    shifted_high,
    shifted_low,
    shl,
    shr,
    sign_of,
    significand,
    u64,
)
from rushlight.backends.cfamily.helpers import Helper, raw
from rushlight.base.dtypes import float32, int32, int64, uint64
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E


@functools.cache
def fma() -> Helper:
    """a * b + c with one rounding: a sum of two numbers of 128 bits, the first bits at 125."""
    a, b, c = doubles(3)
    sign = sign_of(a ^ b)
    exps = [call(exponent(), x) for x in (a, b, c)]
    sigs = [call(significand(), x) for x in (a, b, c)]
    left, right = (shl(x, i32(10)) for x in sigs[:2])
    high, low = call(product_high(), left, right), left * right
    exp = exps[0] + exps[1] - 0x3FE
    short = s.lt(high, u64(1 << 61))
    high = s.select(short, shl(high, i32(1)) | shr(low, i32(63)), high)
    low = s.select(short, shl(low, i32(1)), low)
    exp = s.select(short, exp - 1, exp)
    # The one with the smaller exponent moves right.
    c_high, distance = shl(sigs[2], i32(9)), exp - exps[2]
    ahead = s.gt(distance, i32(0))
    by_c, by_p = at_most(distance, 4095), at_most(i32(0) - distance, 4095)
    c_low = call(shifted_low(), c_high, u64(0), by_c)
    c_high = shifted_high(c_high, by_c)
    p_low = call(shifted_low(), high, low, by_p)
    p_high = shifted_high(high, by_p)
    exp = s.select(ahead, exp, exps[2])
    value = _joined(sign, sign_of(c), exp, (p_high, p_low), (c_high, c_low))
    # What has no significand.
    value = s.select(is_zero(c), _only_product(sign, exps, left, right), value)
    nothing = is_zero(a) | is_zero(b)
    zeros = s.select(s.eq(sign, sign_of(c)), sign, u64(0))
    value = s.select(nothing, s.select(is_zero(c), zeros, c), value)
    endless = is_infinite(a) | is_infinite(b)
    value = s.select(is_infinite(c), c, value)
    clash = is_infinite(c) & s.ne(sign_of(c), sign)
    value = s.select(endless, s.select(clash | nothing, u64(NAN), sign | INFINITY), value)
    wrong = is_nan(a) | is_nan(b) | is_nan(c)
    return Helper("f64_fma", (a, b, c), s.select(wrong, u64(NAN), value))


def _only_product(sign: E, exps: list[E], left: E, right: E) -> E:
    """a * b where c is zero: no exponent of c takes part."""
    high, low = call(product_high(), left, right), left * right
    exp = exps[0] + exps[1] - 0x3FE
    short = s.lt(high, u64(1 << 61))
    high = s.select(short, shl(high, i32(1)) | shr(low, i32(63)), high)
    low = s.select(short, shl(low, i32(1)), low)
    exp = s.select(short, exp - 1, exp)
    return call(rounded(), sign, exp - 1, shl(high, i32(1)) | bit(s.ne(low, u64(0))))


def _joined(sign: E, other: E, exp: E, p: tuple[E, E], c: tuple[E, E]) -> E:
    """The sum of two numbers of 128 bits with one exponent, rounded."""
    (p_high, p_low), (c_high, c_low) = p, c
    same = s.eq(sign, other)
    sum_low = p_low + c_low
    sum_high = p_high + c_high + bit(s.lt(sum_low, p_low))
    apart_low = p_low - c_low
    apart_high = p_high - c_high - bit(s.lt(p_low, c_low))
    negative = s.ge(apart_high, u64(SIGN))
    zero = u64(0)
    back_low = zero - apart_low
    back_high = zero - apart_high - bit(s.ne(apart_low, zero))
    high = s.select(same, sum_high, s.select(negative, back_high, apart_high))
    low = s.select(same, sum_low, s.select(negative, back_low, apart_low))
    sign = s.select(same, sign, s.select(negative, other, sign))
    nothing = s.eq(high | low, zero)
    empty = s.eq(high, zero)
    high, low = s.select(empty, low, high), s.select(empty, zero, low)
    exp = s.select(empty, exp - 64, exp)
    shift = call(leading_zeros(), high | bit(s.eq(high, zero))) - 1
    left = at_most(shift, 63)
    wide = shl(high, left) | s.select(
        s.eq(left, i32(0)), zero, shr(shr(low, i32(1)), i32(63) - left)
    )
    wide = wide | bit(s.ne(shl(low, left), zero))
    down = shr(high, i32(1)) | bit(s.ne((high & 1) | low, zero))
    sig = s.select(s.lt(shift, i32(0)), down, wide)
    return s.select(nothing, zero, call(rounded(), sign, exp - shift, sig))


@functools.cache
def divide() -> Helper:
    """Eleven bits of the quotient at a time, by the machine's integer division."""
    a, b = doubles(2)
    sign = sign_of(a ^ b)
    x, y = call(significand(), a), call(significand(), b)
    y = s.select(s.eq(y, u64(0)), u64(1 << 52), y)  # a zero is looked at below
    exp = call(exponent(), a) - call(exponent(), b) + 0x3FE
    smaller = s.lt(x, y)
    rest, quotient = s.select(smaller, shl(x, i32(1)), x), u64(0)
    exp = s.select(smaller, exp - 1, exp)
    quotient, rest = raw("idiv", rest, y), raw("irem", rest, y)
    for _ in range(5):
        wide = shl(rest, i32(11))
        quotient = shl(quotient, i32(11)) + raw("idiv", wide, y)
        rest = raw("irem", wide, y)
    # 1 + 55 bits: the first goes to bit 62.
    sig = shl(quotient, i32(7)) | bit(s.ne(rest, u64(0)))
    value = call(rounded(), sign, exp, sig)
    value = s.select(is_zero(a) | is_infinite(b), sign, value)
    value = s.select(is_infinite(a) | is_zero(b), sign | INFINITY, value)
    wrong = is_nan(a) | is_nan(b)
    wrong = wrong | (is_zero(a) & is_zero(b)) | (is_infinite(a) & is_infinite(b))
    return Helper("f64_divide", (a, b), s.select(wrong, u64(NAN), value))


@functools.cache
def root() -> Helper:
    """From the root of the first bits in float32, by Newton's method; the rest says which way the
    last bit goes."""
    (x,) = doubles(1)
    exp, sig = call(exponent(), x), call(significand(), x)
    odd = s.eq((exp - 1023) & 1, i32(1))
    half_exp = s.make("raw_shr", (exp - 1023 - s.select(odd, i32(1), i32(0)), i32(1)), int32)
    # 1 <= v < 4, and its root.
    v = (sig & FRACTION) | s.select(odd, u64(1024 << 52), u64(ONE))
    guess = call(from_float(), s.make("sqrt", (call(to_float(), v),), float32))
    minus = call(divide(), u64(ONE), call(fma(), guess, u64(1024 << 52), u64(0)))  # 1 / (2 guess)
    for _ in range(2):
        off = call(fma(), guess ^ SIGN, guess, v)
        guess = call(fma(), off, minus, guess)
    last = u64(ONE | FRACTION)  # no root of less than 4 is 2
    guess = s.select(s.lt(last, guess), last, guess)
    whole = (guess & FRACTION) | (1 << 52)
    square = shl((sig & FRACTION) | (1 << 52), i32(52) + s.select(odd, i32(1), i32(0)))
    rest, near = s.cast(square - whole * whole, int64), s.cast(whole, int64)
    guess = s.select(s.gt(rest, near), guess + 1, guess)
    guess = s.select(s.le(rest, s.const(0, int64) - near), guess - 1, guess)
    value = guess + shl(s.cast(s.cast(half_exp, int64), uint64), i32(52))
    value = s.select(is_zero(x) | s.eq(x, u64(INFINITY)), x, value)
    wrong = is_nan(x) | (s.ge(x, u64(SIGN)) & ~is_zero(x))
    return Helper("f64_root", (x,), s.select(wrong, u64(NAN), value))
