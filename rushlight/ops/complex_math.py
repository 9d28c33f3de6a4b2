"""Functions of complex numbers, by real functions of their parts.

In and out as in complex_pairs.py. Branch cuts are those of C99 and numpy: the sign of a zero part
says on which side of a cut a number lies, so parts are negated and never subtracted from 0.
Sources: Kahan, Branch cuts for complex elementary functions (asin, acos, acosh, atanh).
Known imperfection: where both parts are infinite, or one is and the other NaN, exp and the
trigonometric functions give NaN parts that C99 Annex G defines.
"""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from rushlight.ir.node import Node, const_node
from rushlight.ops import complex_pairs as pairs
from rushlight.ops.complex_pairs import Pair
from rushlight.ops.late import late

# Beyond this size of the real part tanh is 1 to the last bit of a float64.
FAR = 20.0


def exp(x: Pair) -> Pair:
    size = late.exp(x.re)
    im = late.where(late.eq(x.im, 0.0), x.im, size * late.sin(x.im))
    return Pair(size * late.cos(x.im), im)


def exp2(x: Pair) -> Pair:
    size, turn = late.exp2(x.re), x.im * log(2)
    im = late.where(late.eq(x.im, 0.0), x.im, size * late.sin(turn))
    return Pair(size * late.cos(turn), im)


def expm1(x: Pair) -> Pair:
    """exp(x) - 1, exact near 0: expm1(re) * cos(im) - 2 sin(im/2)**2."""
    half = late.sin(x.im * 0.5)
    grown = late.expm1(x.re)
    re = grown * late.cos(x.im) - half * half * 2.0
    return Pair(re, (grown + 1.0) * late.sin(x.im))


def log_size(x: Pair) -> Node:
    """log |x|; near |x| = 1 from the distance to it."""
    large, ratio = pairs.size_parts(x)
    a, b = late.abs(x.re), late.abs(x.im)
    small = late.minimum(a, b)
    near = late.logical_and(late.gt(large, 0.5), late.lt(large, 1.5))
    distance = (large - 1.0) * (large + 1.0) + small * small
    inside = late.where(near, distance, ratio * ratio)
    total = late.where(near, 0.0, late.log(large)) + late.log1p(inside) * 0.5
    return late.where(pairs.isinf(x), float("inf"), total)


def natural_log(x: Pair) -> Pair:
    return Pair(log_size(x), late.atan2(x.im, x.re))


def log2(x: Pair) -> Pair:
    return pairs.scale(natural_log(x), 1 / log(2))


def log10(x: Pair) -> Pair:
    return pairs.scale(natural_log(x), 1 / log(10))


def log1p(x: Pair) -> Pair:
    """log(1 + x), exact near 0."""
    moved = Pair(x.re + 1.0, x.im)
    small = late.logical_and(late.lt(late.abs(x.re), 0.5), late.lt(late.abs(x.im), 0.5))
    square = x.re * (x.re + 2.0) + x.im * x.im
    near = late.log1p(late.where(small, square, 0.0)) * 0.5
    return Pair(late.where(small, near, log_size(moved)), late.atan2(x.im, moved.re))


def sqrt(x: Pair) -> Pair:
    """The root with re >= 0; im has the sign of x.im."""
    half = late.sqrt(late.abs(x.re) * 0.5 + pairs.absolute(x) * 0.5)
    zero = late.eq(half, 0.0)
    other = late.where(zero, 0.0, late.abs(x.im) / late.where(zero, 1.0, half * 2.0))
    infinite = late.isinf(x.im)
    half, other = (late.where(infinite, float("inf"), part) for part in (half, other))
    right = late.ge(x.re, 0.0)
    return Pair(
        late.where(right, half, other),
        late.copysign(late.where(right, other, half), x.im),
    )


def rsqrt(x: Pair) -> Pair:
    return pairs.reciprocal(sqrt(x))


def _bounded(x: Node, other: Node) -> Node:
    """x * other, in which a 0 of x wins over an infinity or a NaN."""
    sign = late.copysign(full(1.0, other), other)
    return late.mul(x, late.where(late.eq(x, 0.0), sign, other))


def sin(x: Pair) -> Pair:
    re = _bounded(late.sin(x.re), late.cosh(x.im))
    return Pair(re, _bounded(late.sinh(x.im), late.cos(x.re)))


def cos(x: Pair) -> Pair:
    im = _bounded(late.sin(x.re), late.sinh(x.im))
    return Pair(late.cos(x.re) * late.cosh(x.im), late.neg(im))


def sinh(x: Pair) -> Pair:
    re = _bounded(late.sinh(x.re), late.cos(x.im))
    return Pair(re, _bounded(late.sin(x.im), late.cosh(x.re)))


def cosh(x: Pair) -> Pair:
    im = _bounded(late.sin(x.im), late.sinh(x.re))
    return Pair(late.cosh(x.re) * late.cos(x.im), im)


def tanh(x: Pair) -> Pair:
    """sinh cosh / (sinh**2 + cos**2); far out, where that overflows, its limit."""
    size = late.abs(x.re)
    far = late.gt(size, FAR)
    held = late.where(far, late.copysign(full(1.0, x.re), x.re), x.re)
    s, c = late.sinh(held), late.cosh(held)
    sine, cosine = late.sin(x.im), late.cos(x.im)
    below = s * s + cosine * cosine
    limit = sine * cosine * 4.0 * late.exp(size * -2.0)
    return Pair(
        late.where(far, late.copysign(full(1.0, x.re), x.re), s * c / below),
        late.where(far, limit, sine * cosine / below),
    )


def full(value: float, like: Node) -> Node:
    return const_node(value, like.dtype)


def tan(x: Pair) -> Pair:
    return pairs.over_i(tanh(pairs.times_i(x)))


def _roots(x: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - x), sqrt(1 + x)."""
    return sqrt(Pair(1.0 - x.re, late.neg(x.im))), sqrt(Pair(x.re + 1.0, x.im))


def asin(x: Pair) -> Pair:
    minus, plus = _roots(x)
    product = pairs.mul(minus, plus)
    return Pair(late.atan2(x.re, product.re), late.asinh(pairs.mul(pairs.conj(minus), plus).im))


def acos(x: Pair) -> Pair:
    minus, plus = _roots(x)
    re = late.atan2(minus.re, plus.re) * 2.0
    return Pair(re, late.asinh(pairs.mul(pairs.conj(plus), minus).im))


def acosh(x: Pair) -> Pair:
    low, high = sqrt(Pair(x.re - 1.0, x.im)), sqrt(Pair(x.re + 1.0, x.im))
    re = late.asinh(pairs.mul(pairs.conj(low), high).re)
    return Pair(re, late.atan2(low.im, high.re) * 2.0)


def asinh(x: Pair) -> Pair:
    return pairs.over_i(asin(pairs.times_i(x)))


def atanh(x: Pair) -> Pair:
    """For re >= 0; the other half by atanh(-conj x) = -conj atanh(x)."""
    size, sign = late.abs(x.re), late.copysign(full(1.0, x.re), x.re)
    im = late.neg(late.mul(sign, x.im))
    below = (1.0 - size) * (1.0 - size) + im * im
    re = late.log1p(size * 4.0 / below) * 0.25
    turn = late.atan2(im * 2.0, (1.0 - size) * (size + 1.0) - im * im) * 0.5
    # 1 / x and a quarter turn, where squares would overflow.
    large = late.maximum(size, late.abs(im))
    far = late.gt(large, 1 / float(np.finfo(x.re.dtype.np).eps))
    ratio = late.minimum(size, late.abs(im)) / large
    share = late.where(late.isinf(large), 0.0, size / large / (large * (ratio * ratio + 1.0)))
    quarter = late.copysign(full(pi / 2, im), im)
    re, turn = late.where(far, share, re), late.where(far, quarter, turn)
    return Pair(sign * re, late.neg(sign * turn))


def atan(x: Pair) -> Pair:
    return pairs.over_i(atanh(pairs.times_i(x)))


def power(x: Pair, y: Pair) -> Pair:
    """exp(y log x); 0 to a power with a positive real part is 0, anything to the power 0 is 1."""
    result = exp(pairs.mul(y, natural_log(x)))
    none = late.logical_and(late.eq(y.re, 0.0), late.eq(y.im, 0.0))
    base = late.logical_and(late.eq(x.re, 0.0), late.eq(x.im, 0.0))
    gone = late.logical_and(base, late.gt(y.re, 0.0))
    re = late.where(none, 1.0, late.where(gone, 0.0, result.re))
    return Pair(re, late.where(late.logical_or(none, gone), 0.0, result.im))


def sigmoid(x: Pair) -> Pair:
    grown = exp(pairs.neg(x))
    return pairs.reciprocal(Pair(grown.re + 1.0, grown.im))


def polar(size: Any, turn: Any) -> Pair:
    return Pair(size * late.cos(turn), size * late.sin(turn))
