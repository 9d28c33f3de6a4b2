"""Chebyshev series of special functions, worked out at first use from integrals.

Gets the name of a function on an interval; gives coefficients in double precision. There are no
stored tables: each value comes from a quadrature of an integral representation (Bessel's and
Schlaefli's integrals), which converges geometrically. The same integrals are the references.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev, legendre

DEGREE = 48


@functools.cache
def _nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    return legendre.leggauss(count)


def _vector(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return np.vectorize(function, otypes=[np.float64])


def _over(low: float, high: float, f: Callable[[np.ndarray], np.ndarray], panels: int) -> float:
    """The integral of f from low to high: Gauss and Legendre on panels of 40 nodes."""
    x, w = _nodes(40)
    half = (high - low) / (2 * panels)
    places = low + half * (x + 1) + 2 * half * np.arange(panels)[:, None]
    return float(half * (f(places) @ w).sum())


def _turn(f: Callable[[np.ndarray], np.ndarray], count: int = 4000) -> float:
    """The mean over [0, pi] of an even, periodic f: the trapezoidal rule."""
    values = f(np.linspace(0, math.pi, count + 1))
    return float((values[1:-1].sum() + (values[0] + values[-1]) / 2) / count)


def scaled_i(n: int, x: float) -> float:
    """exp(-x) I_n(x), x >= 0."""
    return _turn(lambda a: np.exp(x * (np.cos(a) - 1)) * np.cos(n * a))


def bessel_j(n: int, x: float) -> float:
    return _turn(lambda a: np.cos(n * a - x * np.sin(a)))


def bessel_y(n: int, x: float) -> float:
    """Schlaefli's integral, x > 0."""
    inside = _over(0, math.pi, lambda a: np.sin(x * np.sin(a) - n * a), 24)
    sign = -1 if n % 2 else 1
    far = math.asinh(60 / x + 10)
    tail = _over(
        0, far, lambda u: (np.exp(n * u) + sign * np.exp(-n * u)) * np.exp(-x * np.sinh(u)), 10
    )
    return (inside - tail) / math.pi


def scaled_k(n: float, x: float) -> float:
    """exp(x) K_n(x), x > 0."""
    far = math.acosh(1 + 60 / x)
    return _over(0, far, lambda u: np.exp(-x * (np.cosh(u) - 1)) * np.cosh(n * u), 10)


def scaled_erfc(x: float) -> float:
    """exp(x^2) erfc(x), x >= 0."""
    # The integrand is e^-12 small at the end of a range that shrinks as x grows.
    far = math.sqrt(x * x + 40) - x
    return 2 / math.sqrt(math.pi) * _over(0, far, lambda u: np.exp(-u * u - 2 * x * u), 5)


def airy_ai(x: float) -> float:
    """Maclaurin's series near 0 (two solutions of y'' = x y), Bessel functions of 1/3 elsewhere."""
    if x > 2:
        z = 2 / 3 * x**1.5
        return math.sqrt(x / 3) / math.pi * scaled_k(1 / 3, z) * math.exp(-z)
    if x < -9:
        return _airy_far(-x)
    first, second, a, b = 1.0, x, 1.0, x
    for k in range(1, 80):
        a *= x**3 / ((3 * k - 1) * (3 * k))
        b *= x**3 / ((3 * k) * (3 * k + 1))
        first, second = first + a, second + b
    return first * 0.355028053887817239 - second * 0.258819403792806798


def airy_series(count: int = 12) -> list[float]:
    """u_k of the asymptotic series of Ai."""
    found = [1.0]
    for k in range(1, count):
        found.append(found[-1] * (6 * k - 5) * (6 * k - 1) / (72 * k))
    return found


def _airy_far(x: float) -> float:
    z = 2 / 3 * x**1.5
    u = airy_series()
    even = sum((-1) ** k * u[2 * k] / z ** (2 * k) for k in range(5))
    odd = sum((-1) ** k * u[2 * k + 1] / z ** (2 * k + 1) for k in range(5))
    angle = z - math.pi / 4
    return (math.cos(angle) * even + math.sin(angle) * odd) / (math.sqrt(math.pi) * x**0.25)


def _phase(n: int, x: float, part: str) -> float:
    """The slow factors P and Q of J and Y beyond 8."""
    angle = x - (2 * n + 1) * math.pi / 4
    size, j, y = math.sqrt(math.pi * x / 2), bessel_j(n, x), bessel_y(n, x)
    if part == "p":
        return size * (j * math.cos(angle) + y * math.sin(angle))
    return size * (y * math.cos(angle) - j * math.sin(angle)) * x


def _y_rest(n: int, x: float) -> float:
    """What is smooth in x^2: Y less its logarithm (and its pole)."""
    rest = bessel_y(n, x) - 2 / math.pi * math.log(x / 2) * bessel_j(n, x)
    return rest if n == 0 else (rest + 2 / (math.pi * x)) / x


def _k_rest(n: int, x: float) -> float:
    k, i = scaled_k(n, x) * math.exp(-x), scaled_i(n, x) * math.exp(x)
    if n == 0:
        return k + math.log(x / 2) * i
    return (k - math.log(x / 2) * i - 1 / x) / x


# name -> (function of the variable, where the variable runs from, to)
CURVES: dict[str, tuple[Callable[[float], float], float, float]] = {}
for _n in (0, 1):
    CURVES[f"i{_n}_near"] = (lambda x, n=_n: scaled_i(n, x), 0.0, 8.0)
    CURVES[f"i{_n}_far"] = (lambda s, n=_n: scaled_i(n, 8 / s) * math.sqrt(8 / s), 0.0, 1.0)
    CURVES[f"j{_n}_near"] = (
        lambda s, n=_n: bessel_j(n, math.sqrt(s)) / (math.sqrt(s) if n else 1), 0.0, 64.0
    )  # fmt: skip
    CURVES[f"p{_n}"] = (lambda s, n=_n: _phase(n, 8 / math.sqrt(s), "p"), 0.0, 1.0)
    CURVES[f"q{_n}"] = (lambda s, n=_n: _phase(n, 8 / math.sqrt(s), "q"), 0.0, 1.0)
    CURVES[f"y{_n}_near"] = (lambda s, n=_n: _y_rest(n, math.sqrt(s)), 0.0, 64.0)
    CURVES[f"k{_n}_near"] = (lambda s, n=_n: _k_rest(n, math.sqrt(s)), 0.0, 4.0)
    CURVES[f"k{_n}_far"] = (lambda s, n=_n: scaled_k(n, 2 / s) * math.sqrt(2 / s), 0.0, 1.0)
CURVES["erfcx"] = (
    lambda s: scaled_erfc(4 * (1 + s) / (1 - s)) * (1 + 8 * (1 + s) / (1 - s)),
    -1.0,
    1.0,
)
CURVES["airy_near"] = (airy_ai, -9.0, 2.0)
CURVES["airy_far"] = (
    lambda s: scaled_k(1 / 3, 2 / s) * math.sqrt(2 / s) * math.sqrt(1 / 3) / math.pi, 0.0, 1.1
)  # fmt: skip


@functools.cache
def series(name: str, small: float) -> tuple[tuple[float, ...], float, float]:
    """(coefficients down to `small` of the largest, the middle and the half width)."""
    curve, low, high = CURVES[name]
    middle, half = (low + high) / 2, (high - low) / 2
    found = chebyshev.chebinterpolate(
        lambda u: _vector(curve)(middle + half * u),  # type: ignore[call-overload]
        DEGREE,
    )
    keep = np.flatnonzero(np.abs(found) > small * np.abs(found).max())
    return tuple(float(c) for c in found[: keep[-1] + 1]), middle, half
