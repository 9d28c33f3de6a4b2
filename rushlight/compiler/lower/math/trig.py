"""Circular functions and their inverses.

sin, cos: x = n pi/2 + r by Cody and Waite with fused multiply-adds. float32 reduces in float64
with pi/2 in two parts, right for every |x| < 2**50; float64 uses three parts, right while n is
exact (|x| < 2**30 in full precision). Beyond REDUCE_LIMIT the remainder is taken as 0: results
stay in [-1, 1] but are not accurate. inf and NaN give NaN.
"""

from __future__ import annotations

from rushlight.base.dtypes import float64
from rushlight.compiler.lower.math import coefficients as C
from rushlight.compiler.lower.math.toolkit import (
    F32,
    INF,
    copy_sign,
    exact_at_zero,
    flip_sign,
    format_of,
    horner,
    through_float64,
)
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E

REDUCE_LIMIT = 2.0**50


def _reduce(x: E) -> tuple[E, E]:
    """(r, quadrant): |r| <= pi/4 in x's dtype; the two low bits of the integer are n mod 4."""
    fmt = format_of(x)
    wide = s.cast(x, float64)
    n = s.rint(wide * C.TWO_OVER_PI[0])
    r = wide
    for part in C.HALF_PI_64[: 2 if fmt is F32 else 3]:
        r = s.fma(n, -part, r)
    huge = s.gt(s.abs_(wide), REDUCE_LIMIT)
    r = s.select(huge, wide - wide, r)
    turn = s.fma(s.rint(n * 0.25), -4.0, n)
    return s.cast(r, fmt.dtype), s.cast(s.cast(turn, fmt.dtype), fmt.int_dtype)


def _sin_cos(r: E) -> tuple[E, E]:
    """sin(r) and cos(r) for |r| <= pi/4."""
    narrow = format_of(r) is F32
    z = r * r
    sine = s.fma(horner(z, C.SIN_32 if narrow else C.SIN_64) * z, r, r)
    cosine = s.fma(z * z, horner(z, C.COS_32 if narrow else C.COS_64), s.fma(z, -0.5, 1.0))
    return sine, cosine


def _quadrant(r: E, quadrant: E) -> E:
    fmt = format_of(r)
    sine, cosine = _sin_cos(r)
    value = s.select(s.ne(quadrant & 1, 0), cosine, sine)
    sign = (quadrant & 2) << (8 * fmt.dtype.itemsize - 2)
    return flip_sign(value, sign)


def sin(x: E) -> E:
    r, quadrant = _reduce(x)
    return exact_at_zero(x, _quadrant(r, quadrant))


def cos(x: E) -> E:
    r, quadrant = _reduce(x)
    return _quadrant(r, quadrant + 1)


@through_float64
def tan(x: E) -> E:
    r, quadrant = _reduce(x)
    sine, cosine = _sin_cos(r)
    odd = s.ne(quadrant & 1, 0)
    result = s.select(odd, -cosine, sine) / s.select(odd, sine, cosine)
    return exact_at_zero(x, result)


def _atan_ratio(low: E, high: E) -> E:
    """atan(low / high) for 0 <= low <= high, float64; one division."""
    # Above tan(pi/8): atan(q) = pi/4 + atan((q - 1) / (q + 1)).
    far = s.gt(low, high * 0.41421356237309503)
    t = s.select(far, low - high, low) / s.select(far, low + high, high)
    z = t * t
    value = s.fma(t * z, horner(z, C.ATAN_64), t)
    quarter_low = s.const(C.HALF_PI_64[1] / 2, float64)
    return s.select(far, (value + quarter_low) + C.HALF_PI_64[0] / 2, value)


def _atan2_positive(y: E, x: E) -> E:
    """The angle in [0, pi/2] of non-negative y and x that are not both 0 or inf."""
    # Halves: the sum of two large legs must not overflow (denormals cannot take it).
    big = s.gt(s.maximum(y, x), 1.0)
    y, x = s.select(big, y * 0.25, y), s.select(big, x * 0.25, x)
    steep = s.gt(y, x)
    angle = _atan_ratio(s.select(steep, x, y), s.select(steep, y, x))
    turned = (C.HALF_PI_64[0] - angle) + C.HALF_PI_64[1]
    return s.select(steep, turned, angle)


@through_float64
def atan(x: E) -> E:
    a = s.abs_(x)
    steep = s.gt(a, 1.0)
    # At infinity the ratio is 1 / inf = 0, by way of a finite large leg.
    a = s.select(s.gt(a, 1e300), 1e300, a)
    one = s.const(1.0, float64)
    angle = _atan_ratio(s.select(steep, one, a), s.select(steep, a, one))
    turned = (C.HALF_PI_64[0] - angle) + C.HALF_PI_64[1]
    return copy_sign(s.select(steep, turned, angle), x)


@through_float64
def atan2(y: E, x: E) -> E:
    """C99's atan2: zeros and infinities count as legs of equal length, signs decide."""
    a, b = s.abs_(y), s.abs_(x)
    both_inf = s.eq(a, INF) & s.eq(b, INF)
    a_leg = s.select(s.eq(a, INF), s.select(both_inf, s.const(1.0, float64), 1e300), a)
    b_leg = s.select(s.eq(b, INF), s.select(both_inf, s.const(1.0, float64), 1e300), b)
    # A finite leg beside an infinite one is nothing.
    a_leg = s.select(s.lt(a, INF) & s.eq(b, INF), 0.0, a_leg)
    b_leg = s.select(s.lt(b, INF) & s.eq(a, INF), 0.0, b_leg)
    both_zero = s.eq(a, 0.0) & s.eq(b, 0.0)
    angle = _atan2_positive(a_leg, s.select(both_zero, 1.0, b_leg))
    left = s.lt(s.bitcast(x, format_of(x).int_dtype), 0)
    turned = (C.PI_64[0] - angle) + C.PI_64[1]
    result = copy_sign(s.select(left, turned, angle), y)
    return s.select(s.ne(x, x) | s.ne(y, y), x + y, result)


def _other_leg(x: E) -> E:
    """sqrt(1 - x*x) without cancellation; NaN outside [-1, 1]."""
    return s.sqrt((1.0 - x) * (1.0 + x))


@through_float64
def asin(x: E) -> E:
    a = s.abs_(x)
    angle = _atan2_positive(a, _other_leg(x))
    return copy_sign(s.select(s.le(a, 1.0), angle, _other_leg(x)), x)


@through_float64
def acos(x: E) -> E:
    leg = _other_leg(x)
    angle = _atan2_positive(leg, s.abs_(x))
    turned = (C.PI_64[0] - angle) + C.PI_64[1]
    result = s.select(s.lt(x, 0.0), turned, angle)
    return s.select(s.le(s.abs_(x), 1.0), result, leg)
