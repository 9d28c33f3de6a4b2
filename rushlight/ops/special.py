"""Bessel functions, scaled erfc, Airy's function: composites of one element.

Each is a Chebyshev series near 0 and another one, of the slow factor, far away. The series come
from `special_tables.py` at first use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import float64
from rushlight.ir.opdef import Arg, Attr, NotDifferentiable, OpDef, op
from rushlight.ops import reference as ref
from rushlight.ops import special_tables as tables
from rushlight.ops.binary import eq, gt, le, lt, maximum, minimum
from rushlight.ops.composite import composite
from rushlight.ops.rules import elementwise_shape, float_dtype
from rushlight.ops.samples import Sample, array, unary
from rushlight.ops.select import where
from rushlight.ops.unary import abs_, cos, exp, lgamma, log, rsqrt, sign, sin, sqrt, torch_names

TWO_OVER_PI = 2 / math.pi
NO_RULE = NotDifferentiable("PyTorch gives it no gradient either")


def curve(name: str, x: Any) -> Any:
    """The series `name` at x (Clenshaw), x held inside its interval."""
    small = 1e-14 if x.dtype is float64 else 1e-10
    coefficients, middle, half = tables.series(name, small)
    u = minimum(maximum((x - middle) * (1 / half), -1.0), 1.0)
    twice = u + u
    above = below = None
    for c in reversed(coefficients[1:]):
        current = c if above is None else twice * above + c
        if below is not None:
            current = current - below
        if not hasattr(current, "dtype"):
            current = u * 0.0 + current
        above, below = current, above
    if above is None:
        return u * 0.0 + coefficients[0]
    result = u * above + coefficients[0]
    return result if below is None else result - below


def _scaled_i(n: int) -> Callable:
    def rule(x: Any) -> Any:
        size = abs_(x)
        far = maximum(size, 8.0)
        value = where(
            le(size, 8.0), curve(f"i{n}_near", size), curve(f"i{n}_far", 8.0 / far) * rsqrt(far)
        )
        return value * sign(x) if n else value

    return rule


scaled_i0, scaled_i1 = _scaled_i(0), _scaled_i(1)


def _bessel_j(n: int) -> Callable:
    def rule(x: Any) -> Any:
        size = abs_(x)
        near = curve(f"j{n}_near", minimum(size, 8.0) * minimum(size, 8.0))
        near = near * size if n else near
        p, q, c, s = _waves(n, size)
        value = where(le(size, 8.0), near, p * c - q * s)
        value = where(eq(size, math.inf), 0.0, value)
        return value * sign(x) if n else value

    return rule


def _waves(n: int, size: Any) -> tuple[Any, Any, Any, Any]:
    """The slow factors, with the falling size in them, and the waves, beyond 8."""
    far = maximum(size, 8.0)
    t = (8.0 / far) * (8.0 / far)
    fall = rsqrt(far) * math.sqrt(TWO_OVER_PI)
    angle = far - (2 * n + 1) * math.pi / 4
    return curve(f"p{n}", t) * fall, curve(f"q{n}", t) / far * fall, cos(angle), sin(angle)


def _bessel_y(n: int) -> Callable:
    def rule(x: Any) -> Any:
        held = minimum(maximum(x, 1e-30), 8.0)
        near = curve(f"y{n}_near", held * held)
        wave = _bessel_j(n)(held)
        near = (near * held if n else near) + log(held * 0.5) * TWO_OVER_PI * wave
        near = near - TWO_OVER_PI / held if n else near
        p, q, c, s = _waves(n, x)
        value = where(le(x, 8.0), near, p * s + q * c)
        value = where(eq(x, math.inf), 0.0, value)
        return where(eq(x, 0.0), -math.inf, where(lt(x, 0.0), math.nan, value))

    return rule


def _scaled_k(n: int) -> Callable:
    def rule(x: Any) -> Any:
        held = minimum(maximum(x, 1e-30), 2.0)
        grown = (scaled_i1 if n else scaled_i0)(held) * exp(held)
        rest, wave = curve(f"k{n}_near", held * held), log(held * 0.5) * grown
        near = rest * held + wave + 1.0 / held if n else rest - wave
        far = maximum(x, 2.0)
        value = where(le(x, 2.0), near * exp(held), curve(f"k{n}_far", 2.0 / far) * rsqrt(far))
        return where(eq(x, 0.0), math.inf, where(lt(x, 0.0), math.nan, value))

    return rule


def erfcx_rule(x: Any) -> Any:
    size = abs_(x)
    held = minimum(size, 1e30)
    value = curve("erfcx", (held - 4.0) / (held + 4.0)) / (held * 2.0 + 1.0)
    value = where(gt(size, 1e30), 0.5641895835477563 / size, value)
    return where(lt(x, 0.0), exp(x * x) * 2.0 - value, value)


def airy_rule(x: Any) -> Any:
    high = maximum(x, 2.0)
    z = high * sqrt(high) * (2 / 3)
    beyond = curve("airy_far", 2.0 / z) * rsqrt(z) * sqrt(high) * exp(-z)
    low = maximum(-x, 9.0)
    w = low * sqrt(low) * (2 / 3)
    u, t = tables.airy_series(), 1.0 / (w * w)
    even = 1.0 - t * (u[2] - t * (u[4] - t * u[6]))
    odd = (u[1] - t * (u[3] - t * (u[5] - t * u[7]))) / w
    angle = w - math.pi / 4
    waves = (cos(angle) * even + sin(angle) * odd) * rsqrt(sqrt(low)) * (1 / math.sqrt(math.pi))
    value = where(gt(x, 2.0), beyond, where(lt(x, -9.0), waves, curve("airy_near", x)))
    return where(eq(x, math.inf), 0.0, where(eq(x, -math.inf), math.nan, value))


def _signed(f: Callable[[float], float], odd: bool) -> Callable[[float], float]:
    return lambda x: math.copysign(1, x) * f(abs(x)) if odd else f(abs(x))


def _reference(f: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return ref.elementwise(f)


def _special(
    name: str,
    doc: str,
    rule: Callable,
    reference: Callable,
    grad: Any = NO_RULE,
    low: float = -12.0,
    high: float = 12.0,
    torch: tuple[str, ...] = (),
) -> OpDef:
    return composite(
        name, doc, (Arg("x"),), rule, _reference(reference), grad, promote="float",
        torch=torch, samples=unary(low, high),
    )  # fmt: skip


i0e = _special(
    "i0e",
    "exp(-|x|) I0(x).",
    scaled_i0,
    _signed(lambda x: tables.scaled_i(0, x), False),
    lambda g, x, out: (g * (i1e(x) - sign(x) * out),),
)
i1e = _special(
    "i1e",
    "exp(-|x|) I1(x).",
    scaled_i1,
    _signed(lambda x: tables.scaled_i(1, x), True),
    lambda g, x, out: (g * where(eq(x, 0.0), 0.5, i0e(x) - out * (sign(x) + _inverse(x))),),
)
i0 = _special("i0", "The modified Bessel function I0.", lambda x: scaled_i0(x) * exp(abs_(x)),
              _signed(lambda x: tables.scaled_i(0, x) * math.exp(x), False),
              lambda g, x: (g * i1(x),), torch=torch_names("i0"))  # fmt: skip
i1 = _special(
    "i1",
    "The modified Bessel function I1.",
    lambda x: scaled_i1(x) * exp(abs_(x)),
    _signed(lambda x: tables.scaled_i(1, x) * math.exp(x), True),
    lambda g, x, out: (g * (where(eq(x, 0.0), 0.5, i0(x) - out * _inverse(x))),),
)


def _inverse(x: Any) -> Any:
    """1 / x, 0 at 0."""
    return where(eq(x, 0.0), 0.0, 1.0 / where(eq(x, 0.0), 1.0, x))


bessel_j0 = _special("bessel_j0", "The Bessel function J0.", _bessel_j(0),
                     _signed(lambda x: tables.bessel_j(0, x), False))  # fmt: skip
bessel_j1 = _special("bessel_j1", "The Bessel function J1.", _bessel_j(1),
                     _signed(lambda x: tables.bessel_j(1, x), True))  # fmt: skip
bessel_y0 = _special("bessel_y0", "The Bessel function Y0.", _bessel_y(0),
                     lambda x: tables.bessel_y(0, x), low=0.2)  # fmt: skip
bessel_y1 = _special("bessel_y1", "The Bessel function Y1.", _bessel_y(1),
                     lambda x: tables.bessel_y(1, x), low=0.2)  # fmt: skip
scaled_modified_bessel_k0 = _special(
    "scaled_modified_bessel_k0", "exp(x) K0(x).", _scaled_k(0), lambda x: tables.scaled_k(0, x),
    low=0.2,
)  # fmt: skip
scaled_modified_bessel_k1 = _special(
    "scaled_modified_bessel_k1", "exp(x) K1(x).", _scaled_k(1), lambda x: tables.scaled_k(1, x),
    low=0.2,
)  # fmt: skip
erfcx = _special("erfcx", "exp(x^2) erfc(x).", erfcx_rule, lambda x: tables.scaled_erfc(x)
                 if x >= 0 else 2 * math.exp(x * x) - tables.scaled_erfc(-x),
                 lambda g, x, out: (g * (x * out * 2.0 - 1.1283791670955126),),
                 low=-2.5, high=4)  # fmt: skip
airy_ai = _special("airy_ai", "Airy's function Ai.", airy_rule, tables.airy_ai, low=-14, high=6)


# The incomplete gamma function -------------------------------------------------------------


def _gamma_pair(a: float, x: float) -> tuple[float, float]:
    """P and Q: a series below a + 1, Lentz's continued fraction above."""
    if math.isnan(a) or math.isnan(x) or a < 0 or x < 0:
        return math.nan, math.nan
    if a == 0:
        return (math.nan, math.nan) if x == 0 else (1.0, 0.0)
    if x == 0 or a == math.inf:
        return (math.nan, math.nan) if a == x == math.inf else (0.0, 1.0)
    if x == math.inf:
        return 1.0, 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        k = a
        while abs(term) > 1e-17 * abs(total):
            k += 1
            term *= x / k
            total += term
        return front * total, 1 - front * total
    b, c = x + 1 - a, 1e300
    d = 1 / b
    h = d
    for i in range(1, 10000):
        an = -i * (i - a)
        b += 2
        d = 1 / (an * d + b or 1e-300)
        c = b + an / c or 1e-300
        h *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return 1 - front * h, front * h


def gammainc_reference(a: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    if not np.broadcast(a, x).size:
        return np.zeros(np.broadcast(a, x).shape, a.dtype)
    each = np.vectorize(lambda p, q: _gamma_pair(float(p), float(q))[upper], otypes=[np.float64])
    return each(a, x).astype(a.dtype)


def gammainc_grad(g: Any, a: Any, x: Any, upper: bool) -> tuple:
    """By x only, as PyTorch."""
    slope = exp((a - 1.0) * log(x) - x - lgamma(a))
    return None, g * (-slope if upper else slope)


gammainc = op(
    name="gammainc",
    doc="The regularized incomplete gamma function: P(a, x), or Q(a, x) when upper.",
    inputs=(Arg("a"), Arg("x"), Attr("upper", False)),
    kind="host",
    shape=elementwise_shape,
    dtype=float_dtype,
    reference=gammainc_reference,
    grad=gammainc_grad,
    samples=lambda rng: [
        Sample((np.array([0.5, 2.0, 7.0]), array(rng, 2, 3, low=0.2, high=9)), {"upper": upper},
               skip=("a",))
        for upper in (False, True)
    ],
)  # fmt: skip
