"""erf and its relatives, and the gamma functions.

erf in float32 is two polynomials and no exponential: gelu's inner loop. The others serve float32
through float64. lgamma has a polynomial of its own around its zeros at 1 and 2; digamma's error is
relative to max(1, |result|).
"""

from __future__ import annotations

from math import log as _log
from math import pi, sqrt

from rushlight.base.dtypes import float32, float64
from rushlight.compiler.lower.math import coefficients as C
from rushlight.compiler.lower.math.exp_log import (
    exp_unclamped,
    log,
    log_positive,
)
from rushlight.compiler.lower.math.toolkit import (
    F32,
    INF,
    NAN,
    at_least,
    at_most,
    copy_sign,
    format_of,
    horner,
    through_float64,
)
from rushlight.compiler.lower.math.trig import sin, tan
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E


def erf(x: E) -> E:
    a = s.abs_(x)
    if format_of(x) is F32:
        a = at_most(a, 3.95)
        small = x * horner(s.fma(a, a, -2.0), C.ERF_SMALL_32)
        big = horner(a - 3.0, C.ERF_BIG_32)
        return s.select(s.lt(a, 2.0), small, copy_sign(big, x))
    big = 1.0 - _erfc_tail(at_most(a, 6.0))
    return s.select(s.lt(a, 1.0), _erf_small(x), copy_sign(big, x))


def _erf_small(x: E) -> E:
    """erf(x) in float64 for |x| <= 1."""
    return x * horner(s.fma(x, x, -0.5), C.ERF_SMALL_64)


def _erfc_tail(a: E) -> E:
    """erfc(a) in float64 for 0.45 <= a <= 28 (other values give nonsense, but no trap)."""
    scaled = horner((a - 4.0) / (a + 4.0), C.ERFCX_64) / s.fma(a, 2.0, 1.0)
    square = a * a
    lost = s.fma(a, a, -square)
    return exp_unclamped(at_least(-square, -745.9), -lost) * scaled


@through_float64
def erfc(x: E) -> E:
    a = s.abs_(x)
    tail = _erfc_tail(at_most(a, 28.0))
    far = s.select(s.lt(x, 0.0), 2.0 - tail, tail)
    return s.select(s.lt(a, 0.5), 1.0 - _erf_small(x), far)


def erfinv(x: E) -> E:
    """A polynomial in log(1 - x*x) and, in float64, one step of Halley's method."""
    narrow = format_of(x) is F32
    wide = s.cast(x, float64)
    a = s.abs_(wide)
    gap = 1.0 - a
    safe = s.select(s.gt(gap, 0.0), gap, 0.5)
    w = -log_positive(safe * (a + 1.0))
    mid = horner(w - 2.5, C.ERFINV_MID_64)
    tail = horner(s.sqrt(at_least(w, 5.0)) - 4.0, C.ERFINV_TAIL_64)
    y = a * s.select(s.lt(w, 5.0), mid, tail)
    if not narrow:
        error = s.select(s.lt(a, 0.5), _erf_small(y) - a, gap - _erfc_tail(y))
        step = error * exp_unclamped(y * y) * (sqrt(pi) / 2)
        y = y - step / s.fma(y, step, 1.0)
    edge = s.select(s.eq(a, 1.0), s.const(INF, float64), s.const(NAN, float64))
    result = copy_sign(s.select(s.lt(a, 1.0), y, edge), wide)
    return s.cast(result, float32) if narrow else result


_SHIFT = 8
_HALF_LOG_TWO_PI = 0.5 * _log(2 * pi)


def _lgamma_positive(x: E) -> E:
    """lgamma(x) for x > 0, finite."""
    # Stirling's series from _SHIFT on; below, by way of gamma(x + 8) = gamma(x) x (x+1) ...
    low = s.lt(x, float(_SHIFT))
    product = x
    for i in range(1, _SHIFT):
        product = product * (x + float(i))
    y = s.select(low, x + float(_SHIFT), x)
    inverse = 1.0 / y
    series = inverse * horner(inverse * inverse, C.STIRLING)
    log_y = log_positive(y)
    stirling = s.fma(y - 0.5, log_y - 1.0, series + (_HALF_LOG_TWO_PI - 0.5))
    stirling = s.select(low, stirling - log_positive(s.select(low, product, 1.0)), stirling)
    # Around the zeros: (x-1)(x-2) P(x); below 1 the same at x + 1, whose factors are x and x - 1.
    under = s.lt(x, 1.0)
    factors = s.select(under, x, x - 2.0) * (x - 1.0)
    near = factors * horner(s.select(under, x - 0.75, x - 1.75), C.LGAMMA_64)
    # + 0.0: at 1 and 2 the product is -0.0, the result +0.0.
    near = s.select(under, near - log_positive(x), near + 0.0)
    return s.select(s.gt(x, 0.5) & s.lt(x, 2.5), near, stirling)


@through_float64
def lgamma(x: E) -> E:
    a = s.abs_(x)
    inside = s.gt(a, 0.0) & s.lt(a, INF)
    a = s.select(inside, a, 1.5)
    positive = _lgamma_positive(a)
    # gamma(-a) gamma(a) = -pi / (a sin(pi a))
    part = a - s.rint(a)
    sine = s.abs_(sin(part * pi))
    pole = s.eq(part, 0.0)
    mirrored = _log(pi) - log_positive(s.select(pole, 1.0, sine) * a) - positive
    mirrored = s.select(pole, s.const(INF, float64), mirrored)
    result = s.select(s.lt(x, 0.0), mirrored, positive)
    edge = s.select(s.ne(x, x), x, s.const(INF, float64))
    return s.select(inside, result, edge)


@through_float64
def digamma(x: E) -> E:
    negative = s.lt(x, 0.0)
    a = s.select(negative, 1.0 - x, x)
    low = s.lt(a, float(_SHIFT))
    start = s.select(low, a, 1.0)
    total = 1.0 / start
    for i in range(1, _SHIFT):
        total = total + 1.0 / (start + float(i))
    y = s.select(low, a + float(_SHIFT), a)
    inverse = 1.0 / y
    z = inverse * inverse
    value = log(y) - s.fma(inverse, 0.5, z * horner(z, C.DIGAMMA))
    value = s.select(low, value - total, value)
    part = x - s.rint(x)
    mirrored = value - pi / tan(part * pi)
    result = s.select(negative, s.select(s.eq(part, 0.0), s.const(NAN, float64), mirrored), value)
    # The pole at zero has a side: -inf at +0, +inf at -0.
    return s.select(s.eq(x, 0.0), -1.0 / x, result)


def rsqrt(x: E) -> E:
    return 1.0 / s.sqrt(x)
