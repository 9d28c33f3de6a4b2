"""Reference values of the math functions in extended precision (64 bits), and ULP distances."""

from __future__ import annotations

import numpy as np

Wide = np.longdouble
PI = Wide("3.14159265358979323846264338327950288")
LOG2 = Wide("0.693147180559945309417232121458176568")


def erf(x: np.ndarray) -> np.ndarray:
    """Below 2.5 Kummer's series (all terms positive), above by erfc."""
    a = np.abs(x)
    near = np.minimum(a, Wide(2.5))
    term = near.copy()
    total = near.copy()
    for n in range(1, 90):
        term = term * 2 * near * near / (2 * n + 1)
        total = total + term
    series = total * 2 / np.sqrt(PI) * np.exp(-near * near)
    return np.copysign(np.where(a < 2.5, series, 1 - _erfc_far(np.maximum(a, Wide(2)))), x)


def _erfc_far(a: np.ndarray) -> np.ndarray:
    """Continued fraction for a >= 2."""
    fraction = np.zeros_like(a)
    for n in range(140, 0, -1):
        fraction = (Wide(n) / 2) / (a + fraction)
    return np.exp(-a * a) / (a + fraction) / np.sqrt(PI)


def erfc(x: np.ndarray) -> np.ndarray:
    return np.where(x < 2, 1 - erf(x), _erfc_far(np.maximum(x, Wide(2))))


def erfinv(x: np.ndarray) -> np.ndarray:
    """Newton's method on erfc from a rough start."""
    a = np.abs(x)
    gap = 1 - a
    w = -np.log(gap * (1 + a))
    k = 2 / (PI * Wide("0.147")) + (-w) / 2
    y = np.sqrt(np.sqrt(k * k + w / Wide("0.147")) - k)
    for _ in range(6):
        error = np.where(a < 0.9, erf(y) - a, gap - erfc(y))
        y = y - error * np.sqrt(PI) / 2 * np.exp(y * y)
    result = np.copysign(y, x)
    return np.where(a < 1e-9, x * np.sqrt(PI) / 2, result)


_BERNOULLI = ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))


def lgamma(x: np.ndarray) -> np.ndarray:
    """Stirling's series from 40 on."""
    mirrored = x < 0.5
    a = np.where(mirrored, 1 - x, x)
    shift = np.zeros_like(a)
    y = a.copy()
    for _ in range(40):
        low = y < 40
        shift = shift + np.where(low, np.log(np.where(low, y, 1)), 0)
        y = np.where(low, y + 1, y)
    series = sum(
        Wide(n) / d / (2 * k * (2 * k - 1)) / y ** (2 * k - 1)
        for k, (n, d) in enumerate(_BERNOULLI, 1)
    )
    value = (y - Wide(0.5)) * np.log(y) - y + np.log(2 * PI) / 2 + series - shift
    part = x - np.rint(x)
    return np.where(mirrored, np.log(PI / np.abs(np.sin(PI * part))) - value, value)


def digamma(x: np.ndarray) -> np.ndarray:
    mirrored = x < 0
    a = np.where(mirrored, 1 - x, x)
    total, y = np.zeros_like(a), a.copy()
    for _ in range(40):
        low = y < 40
        total = total + np.where(low, 1 / np.where(low, y, 1), 0)
        y = np.where(low, y + 1, y)
    series = sum(Wide(n) / d / (2 * k) / y ** (2 * k) for k, (n, d) in enumerate(_BERNOULLI, 1))
    value = np.log(y) - 1 / (2 * y) - series - total
    part = x - np.rint(x)
    return np.where(mirrored, value - PI / np.tan(PI * part), value)


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


REFERENCES = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": erf, "erfc": erfc, "erfinv": erfinv, "lgamma": lgamma, "digamma": digamma,
    "sigmoid": sigmoid, "rsqrt": lambda x: 1 / np.sqrt(x), "pow": np.power,
    "atan2": np.arctan2,
}  # fmt: skip


def ulp_distance(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """|got - wanted| in units of got's dtype at `wanted`; inf where only one is finite or NaN."""
    dtype = got.dtype
    rounded = wanted.astype(dtype)
    spacing = np.spacing(np.where(np.isfinite(rounded), np.abs(rounded), 1)).astype(Wide)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    both = np.isfinite(got) & np.isfinite(rounded)
    distance = np.abs(got.astype(Wide) - wanted) / spacing
    return np.where(both, distance, np.where(same, 0, np.inf)).astype(np.float64)
