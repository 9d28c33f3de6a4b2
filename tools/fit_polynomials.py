"""Fits the polynomials of compiler/lower/math and prints the module coefficients.py.

    python tools/fit_polynomials.py > rushlight/compiler/lower/math/coefficients.py

Needs mpmath (a tool only, never a dependency). Each fit is a weighted minimax fit by Lawson's
iteration in 60 digits; the coefficients are then rounded one by one, lowest order first, and the
rest is fitted again, so that later ones make up for the rounding of earlier ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mpmath import mp, mpf

mp.dps = 60


@dataclass(frozen=True)
class Fit:
    """target(x) ~ sum c[k] * variable(x)**k on [low, high]; the error is weighted by `weight`."""

    name: str
    dtype: str
    doc: str
    target: Callable[[Any], Any]
    variable: Callable[[Any], Any]
    weight: Callable[[Any], Any]
    low: Any
    high: Any
    degree: int


def _safe(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, read a little beside 0 (targets have removable singularities there)."""
    return lambda x: function(x if abs(x) > mpf(10) ** -18 else mpf(10) ** -18)


def _nodes(fit: Fit, count: int) -> list[Any]:
    mid, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    return [mid - half * mp.cos(mp.pi * (i + mpf(1) / 2) / count) for i in range(count)]


def _least_squares(rows: list[list[Any]], right: list[Any], weights: list[Any]) -> list[Any]:
    n = len(rows[0])
    matrix, vector = mp.matrix(n, n), mp.matrix(n, 1)
    for row, value, weight in zip(rows, right, weights, strict=True):
        for i in range(n):
            scaled = row[i] * weight
            vector[i] += scaled * value
            for j in range(i, n):
                matrix[i, j] += scaled * row[j]
    for i in range(n):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
    return list(mp.lu_solve(matrix, vector))


def _minimax(rows: list[list[Any]], right: list[Any], scale: list[Any], turns: int) -> list[Any]:
    """Lawson: reweight by the error, so that it evens out."""
    lawson = [mpf(1)] * len(rows)
    best, best_error = [], mpf("inf")
    for _ in range(turns):
        weights = [lam * s * s for lam, s in zip(lawson, scale, strict=True)]
        found = _least_squares(rows, right, weights)
        errors = [
            abs(s * (value - sum(c * x for c, x in zip(found, row, strict=True))))
            for row, value, s in zip(rows, right, scale, strict=True)
        ]
        if max(errors) < best_error:
            best, best_error = found, max(errors)
        total = sum(lam * e for lam, e in zip(lawson, errors, strict=True)) or mpf(1)
        scale_up = len(rows) / total
        lawson = [
            lam * e * scale_up + mpf(10) ** -12 for lam, e in zip(lawson, errors, strict=True)
        ]
    return best


def _round(value: Any, dtype: str) -> float:
    if dtype == "float64":
        return float(value)
    return struct.unpack("<f", struct.pack("<f", float(value)))[0]


def solve(fit: Fit) -> tuple[list[float], float]:
    """Rounded coefficients (low order first) and the weighted maximum error."""
    points = _nodes(fit, 4 * fit.degree + 12)
    target, weight = _safe(fit.target), _safe(fit.weight)
    values = [target(x) for x in points]
    scale = [weight(x) for x in points]
    powers = [[fit.variable(x) ** k for k in range(fit.degree + 1)] for x in points]
    done: list[float] = []
    rest = values
    # The first few coefficients carry the precision; the others are rounded together.
    while len(done) <= fit.degree:
        tail = [row[len(done) :] for row in powers]
        found = _minimax(tail, rest, scale, 8 if len(done) < 4 else 2)
        count = 1 if len(done) < 4 else len(found)
        for c in found[:count]:
            done.append(_round(c, fit.dtype))
        rest = [
            value - sum(mpf(c) * x for c, x in zip(done, row, strict=False))
            for value, row in zip(values, powers, strict=True)
        ]
    return done, float(max(abs(s * r) for s, r in zip(scale, rest, strict=True)))


ONE = mpf(1)
LN2 = mp.log(2)
HALF_LN2 = LN2 / 2 * mpf("1.01")
QUARTER_PI = mp.pi / 4 * mpf("1.01")
SQ2 = mp.sqrt(2)


def _log_r(z: Any) -> Any:
    """log((1+s)/(1-s)) / s - 2 over z, with z = s*s."""
    s = mp.sqrt(z)
    return (mp.log((1 + s) / (1 - s)) / s - 2) / z


def _erfcx_t(t: Any) -> Any:
    a = 4 * (1 + t) / (1 - t)
    return mp.erfc(a) * mp.exp(a * a) * (1 + 2 * a)


def _inverse_tail(w: Any) -> Any:
    """erfinv(x) / x where w = -log(1 - x*x)."""
    x = mp.sqrt(1 - mp.exp(-w)) if w > 0 else mpf(0)
    return mp.erfinv(x) / x if x else mp.sqrt(mp.pi) / 2


def _lgamma_part(x: Any) -> Any:
    return mp.loggamma(x) / ((x - 1) * (x - 2))


def _t(a: Any) -> Any:
    return (a - 4) / (a + 4)


def fits() -> list[Fit]:
    identity = lambda x: x  # noqa: E731
    out: list[Fit] = []
    for dtype, q, m, p2 in (("float32", 4, 4, 5), ("float64", 9, 10, 10)):
        tag = "32" if dtype == "float32" else "64"
        out += [
            Fit(
                f"EXP_{tag}",
                dtype,
                "(exp(r) - 1 - r) / r**2, |r| <= ln2/2",
                lambda r: (mp.expm1(r) - r) / r**2,
                identity,
                lambda r: r * r / mp.exp(r),
                -HALF_LN2,
                HALF_LN2,
                q,
            ),
            Fit(
                f"EXPM1_{tag}",
                dtype,
                "the same, error relative to exp(r) - 1",
                lambda r: (mp.expm1(r) - r) / r**2,
                identity,
                lambda r: r * r / abs(mp.expm1(r)),
                -HALF_LN2,
                HALF_LN2,
                m,
            ),
            Fit(
                f"EXP2_{tag}",
                dtype,
                "(2**r - 1) / r, |r| <= 1/2",
                lambda r: mp.expm1(r * LN2) / r,
                identity,
                lambda r: r / mpf(2) ** r,
                -ONE / 2,
                ONE / 2,
                p2,
            ),
        ]
    out += [
        Fit(
            "LOG_32",
            "float32",
            "(log(1+f) - f) / f**2, 1/sqrt2 <= 1+f <= sqrt2",
            lambda f: (mp.log1p(f) - f) / f**2,
            identity,
            lambda f: f * f / abs(mp.log1p(f)),
            1 / SQ2 - 1,
            SQ2 - 1,
            8,
        ),
        Fit(
            "LOG_64",
            "float64",
            "(log(1+f)/s - 2) / z with s = f/(2+f), z = s*s <= 0.0295",
            _log_r,
            identity,
            lambda z: z / 2,
            mpf(0),
            mpf("0.0295"),
            7,
        ),
        Fit(
            "POWLOG_64",
            "float64",
            "(the same - 2/3) / z",
            lambda z: (_log_r(z) - mpf(2) / 3) / z,
            identity,
            lambda z: z * z / 2,
            mpf("1e-6"),
            mpf("0.0295"),
            8,
        ),
    ]
    for tag, n in (("32", 2), ("64", 6)):
        dtype = "float" + tag
        out += [
            Fit(
                f"SIN_{tag}",
                dtype,
                "(sin(r)/r - 1) / s with s = r*r, |r| <= pi/4",
                lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
                identity,
                lambda s: s,
                mpf(0),
                QUARTER_PI**2,
                n,
            ),
            Fit(
                f"COS_{tag}",
                dtype,
                "(cos(r) - 1 + s/2) / s**2 with s = r*r",
                lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2,
                identity,
                lambda s: s * s,
                mpf("1e-6"),
                QUARTER_PI**2,
                n,
            ),
        ]
    out += [
        Fit(
            "ATAN_64",
            "float64",
            "(atan(t)/t - 1) / s with s = t*t, t <= tan(pi/8)",
            lambda s: (mp.atan(mp.sqrt(s)) / mp.sqrt(s) - 1) / s,
            identity,
            lambda s: s,
            mpf(0),
            mpf("0.17168"),
            11,
        ),
        Fit(
            "ERF_SMALL_32",
            "float32",
            "erf(x)/x in u = x*x - 2, |x| <= 2",
            lambda u: mp.erf(mp.sqrt(u + 2)) / mp.sqrt(u + 2) if u > -2 else 2 / mp.sqrt(mp.pi),
            identity,
            lambda u: ONE if u <= -2 else mp.sqrt(u + 2) / mp.erf(mp.sqrt(u + 2)),
            mpf(-2),
            mpf(2),
            10,
        ),
        Fit(
            "ERF_BIG_32",
            "float32",
            "erf(x) in x - 3, 2 <= x <= 3.95",
            mp.erf,
            lambda x: x - 3,
            lambda x: ONE,
            mpf(2),
            mpf("3.95"),
            10,
        ),
        Fit(
            "ERF_SMALL_64",
            "float64",
            "erf(x)/x in u = x*x - 1/2, |x| <= 1",
            lambda u: (
                mp.erf(mp.sqrt(u + 0.5)) / mp.sqrt(u + 0.5) if u > -0.5 else 2 / mp.sqrt(mp.pi)
            ),
            identity,
            lambda u: ONE,
            mpf(-0.5),
            mpf(0.5),
            13,
        ),
        Fit(
            "ERFCX_64",
            "float64",
            "erfc(a) exp(a*a) (1 + 2a) in t = (a-4)/(a+4), 0.45 <= a <= 28",
            _erfcx_t,
            identity,
            lambda t: 1 / _erfcx_t(t),
            _t(mpf("0.45")),
            _t(mpf(28)),
            22,
        ),
        Fit(
            "ERFINV_MID_64",
            "float64",
            "erfinv(x)/x in w - 2.5, w = -log(1-x*x) <= 5",
            _inverse_tail,
            lambda w: w - 2.5,
            lambda w: ONE,
            mpf(0),
            mpf(5),
            10,
        ),
        Fit(
            "ERFINV_TAIL_64",
            "float64",
            "erfinv(x)/x in sqrt(w) - 4, 5 <= w <= 37",
            lambda v: _inverse_tail(v * v),
            lambda v: v - 4,
            lambda v: 1 / v,
            mp.sqrt(5),
            mp.sqrt(37),
            14,
        ),
        Fit(
            "LGAMMA_64",
            "float64",
            "lgamma(x) / ((x-1)(x-2)) in x - 1.75, 1 <= x <= 2.5",
            _lgamma_part,
            lambda x: x - 1.75,
            lambda x: 1 / _lgamma_part(x),
            ONE,
            mpf("2.5"),
            25,
        ),
    ]
    return out


def constants() -> list[tuple[str, list[float], str]]:
    """Numbers split into parts that add up to more digits than one float has."""

    def parts(value: Any, dtype: str, count: int) -> list[float]:
        out = []
        for _ in range(count):
            out.append(_round(value, dtype))
            value -= mpf(out[-1])
        return out

    def short(value: Any, bits: int) -> list[float]:
        """The first part has trailing zeros, so that small multiples of it are exact."""
        exponent = int(mp.floor(mp.log(value, 2))) + 1
        step = mpf(2) ** (exponent - bits)
        first = mp.floor(value / step) * step
        return [float(first), float(value - first)]

    stirling = [mp.bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 11)]
    asymptotic = [mp.bernoulli(2 * k) / (2 * k) for k in range(1, 12)]
    return [
        ("LN2_32", parts(LN2, "float32", 2), "ln 2"),
        ("LN2_64", parts(LN2, "float64", 2), "ln 2"),
        ("LN2_SHORT_64", short(LN2, 40), "ln 2, the first part in 40 bits"),
        ("LOG2E_32", parts(1 / LN2, "float32", 2), "1 / ln 2"),
        ("LOG2E_64", parts(1 / LN2, "float64", 2), "1 / ln 2"),
        ("LOG10E_64", parts(1 / mp.log(10), "float64", 2), "1 / ln 10"),
        ("LOG10_2_SHORT_64", short(mp.log(2, 10), 40), "log10 2, the first part in 40 bits"),
        ("TWO_THIRDS_64", parts(mpf(2) / 3, "float64", 2), "2 / 3"),
        ("HALF_PI_64", parts(mp.pi / 2, "float64", 3), "pi / 2"),
        ("PI_64", parts(mp.pi, "float64", 2), "pi"),
        ("TWO_OVER_PI", parts(2 / mp.pi, "float64", 1), "2 / pi"),
        ("STIRLING", [float(c) for c in stirling], "B(2k) / (2k (2k-1)), k = 1.."),
        ("DIGAMMA", [float(c) for c in asymptotic], "B(2k) / (2k), k = 1.."),
    ]


def main() -> None:
    print(
        '"""Written by tools/fit_polynomials.py; do not edit. Coefficients, low order first."""\n'
    )
    for name, values, doc in constants():
        print(f"# {doc}")
        _print_tuple(name, values)
    for fit in fits():
        values, error = solve(fit)
        print(f"# {fit.doc}; error {error:.1e}")
        _print_tuple(fit.name, values)


def _print_tuple(name: str, values: list[float]) -> None:
    print(f"{name} = (")
    for value in values:
        print(f"    {value!r},")
    print(")")


if __name__ == "__main__":
    main()
