"""Hyperbolic functions and their inverses, from expm1 and log1p, so small arguments stay exact.

tanh is written for both formats; the others serve float32 through float64.
"""

from __future__ import annotations

from rushlight.compiler.lower.math import coefficients as C
from rushlight.compiler.lower.math.exp_log import (
    exp_unclamped,
    expm1,
    expm1_bounded,
    log1p,
    log_positive,
)
from rushlight.compiler.lower.math.toolkit import (
    F32,
    F64,
    INF,
    NAN,
    at_most,
    copy_sign,
    format_of,
    through_float64,
)
from rushlight.ir import scalar as s
from rushlight.ir.scalar import E


def tanh(x: E) -> E:
    """v / (v + 1) with v = (exp(2|x|) - 1) / 2; 1 from where it rounds to 1.

    Below v = 1/2 the same as v - v (v / (v + 1)), where the quotient's errors count less.
    """
    a = at_most(s.abs_(x), 10.0 if format_of(x) is F32 else 20.0)
    v = expm1_bounded(a + a) * 0.5
    quotient = v / (v + 1.0)
    small = s.lt(v, 0.5)
    factor, term = s.select(small, -v, 1.0), s.select(small, v, 0.0)
    return copy_sign(s.fma(factor, quotient, term), x)


def _half_exp(a: E) -> E:
    """exp(a) / 2 for a >= 0, where exp(a) alone may overflow."""
    root = exp_unclamped(at_most(a * 0.5, F64.exp_high / 2 + 1))
    return (root * 0.5) * root


@through_float64
def sinh(x: E) -> E:
    a = s.abs_(x)
    e = expm1(at_most(a, 40.0))
    small = (e + e / (e + 1.0)) * 0.5
    return copy_sign(s.select(s.gt(a, 40.0), _half_exp(a), small), x)


@through_float64
def cosh(x: E) -> E:
    a = s.abs_(x)
    e = exp_unclamped(at_most(a, 40.0))
    return s.select(s.gt(a, 40.0), _half_exp(a), (e + 1.0 / e) * 0.5)


@through_float64
def asinh(x: E) -> E:
    a = s.abs_(x)
    small = at_most(a, 2.0**28)
    square = small * small
    near = log1p(small + square / (s.sqrt(square + 1.0) + 1.0))
    return copy_sign(s.select(s.gt(a, 2.0**28), _log_twice(a), near), x)


@through_float64
def acosh(x: E) -> E:
    t = at_most(x, 2.0**28) - 1.0
    near = log1p(t + s.sqrt(s.fma(t, t, t + t)))
    far = s.gt(x, 2.0**28)
    return s.select(s.lt(x, 1.0), s.const(NAN, x.dtype), s.select(far, _log_twice(x), near))


def _log_twice(a: E) -> E:
    """log(2a) for large a; inf stays."""
    value = log_positive(a) + C.LN2_64[0]
    return s.select(s.lt(a, INF), value, a)


@through_float64
def atanh(x: E) -> E:
    a = s.abs_(x)
    value = log1p((a + a) / (1.0 - a)) * 0.5
    return copy_sign(s.select(s.le(a, 1.0), value, s.const(NAN, x.dtype)), x)
