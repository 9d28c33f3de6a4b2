"""Every math function against an extended precision reference: a table of largest errors.

The bounds are those of the table in compiler/lower/decompose_math; run this file as a script to
print what is measured.
"""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.backends.interp.evaluate import evaluate
from rushlight.base.dtypes import DType, float32, float64
from rushlight.compiler.lower.decompose_math import BOUNDS, expand_expr
from rushlight.compiler.lower.math import exp_log
from rushlight.ir import scalar as s
from tests.numerics.ulp_reference import REFERENCES, Wide, ulp_distance

COUNT = 6_000


def run(name: str, *args: np.ndarray) -> np.ndarray:
    """The expanded function on numpy arrays of one float dtype."""
    dtype = float32 if args[0].dtype == np.float32 else float64
    params = tuple(s.param(f"x{i}", dtype) for i in range(len(args)))
    body = expand_expr(s.make(name, params, dtype))
    return evaluate([body], lambda leaf: args[int(leaf.meta[1:])])[0]


# Per function: intervals of arguments; "log" intervals are sampled by exponent.
RANGES: dict[str, list[tuple]] = {
    "exp": [(-104, 89), (-1, 1)], "exp2": [(-150, 129), (-1, 1)],
    "expm1": [(-20, 89), (-0.6, 0.6), ("log", -40, 0)],
    "log": [("log", -126, 127), ("log", -149, -120), (0.6, 1.7)],
    "log2": [("log", -126, 127), (0.6, 1.7)], "log10": [("log", -126, 127), (0.6, 1.7)],
    "log1p": [("log", -60, 60), (-0.99, 2), (-1e-3, 1e-3)],
    "sin": [(-10, 10), (-1e4, 1e4)], "cos": [(-10, 10), (-1e4, 1e4)],
    "tan": [(-10, 10), (-1e4, 1e4)],
    "sinh": [(-89, 89), (-1, 1), ("log", -40, 0)], "cosh": [(-89, 89), (-1, 1)],
    "tanh": [(-12, 12), (-1, 1), ("log", -60, 0)],
    "asin": [(-1, 1), ("log", -40, 0)], "acos": [(-1, 1), (0.99, 1)],
    "atan": [(-10, 10), ("log", -60, 60)],
    "asinh": [(-10, 10), ("log", -60, 120)], "acosh": [(1, 10), ("log", 0, 120), (1, 1.01)],
    "atanh": [(-1, 1), ("log", -40, 0), (0.99, 1)],
    "erf": [(-4.5, 4.5), (-1, 1), ("log", -60, 0)], "erfc": [(-6, 9), (0, 2)],
    "erfinv": [(-1, 1), (0.99, 1), ("log", -40, 0)],
    "lgamma": [(0.01, 4), (4, 100), ("log", -60, 60)], "digamma": [(0.01, 10), ("log", -20, 60)],
    "sigmoid": [(-100, 100), (-4, 4)], "rsqrt": [("log", -126, 127)],
}  # fmt: skip

# float64 reaches further than float32 in these.
RANGES64 = {
    "exp": [(-744, 709.7)], "exp2": [(-1073, 1024)], "expm1": [(-40, 709)],
    "log": [("log", -1070, 1020)], "erf": [(-6, 6)], "erfc": [(5, 26)], "sinh": [(-709, 709)],
    "cosh": [(-709, 709)], "sigmoid": [(-744, 40)],
}  # fmt: skip


def samples(name: str, dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(5)
    parts = []
    for interval in RANGES[name] + (RANGES64.get(name, []) if dtype is float64 else []):
        if interval[0] == "log":
            parts.append(2.0 ** rng.uniform(interval[1], interval[2], COUNT))
        else:
            parts.append(rng.uniform(*interval, COUNT))
    return np.concatenate(parts).astype(dtype.np)


def pairs(name: str, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    if name == "atan2":
        size = 2.0 ** rng.uniform(-30, 30, (2, 2 * COUNT))
        y, x = size * rng.choice([-1, 1], size.shape)
        return y.astype(dtype.np), x.astype(dtype.np)
    base = np.concatenate([2.0 ** rng.uniform(-100, 100, COUNT), rng.uniform(0, 3, COUNT)])
    top = 80 if dtype is float32 else 700
    exponent = rng.uniform(-top, top, 2 * COUNT) / np.abs(np.log(base))
    exponent[::3] = np.clip(exponent[::3], -5, 5)
    return base.astype(dtype.np), exponent.astype(dtype.np)


def worst(name: str, dtype: DType) -> float:
    args = pairs(name, dtype) if name in s.MATH_BINARY else (samples(name, dtype),)
    with np.errstate(all="ignore"):
        wanted = REFERENCES[name](*(a.astype(Wide) for a in args))
        distance = ulp_distance(run(name, *args), wanted)
        if name in ("digamma", "lgamma"):
            distance = distance * np.minimum(np.abs(wanted), 1).astype(np.float64)
    return float(distance.max())


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_math_error_is_within_the_stated_ulp(name: str, dtype: DType) -> None:
    assert worst(name, dtype) <= BOUNDS[name][dtype is float64]


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_exp_of_a_softmax_is_exp_where_sums_can_see_it(dtype: DType) -> None:
    lowest, zero = (-87.3, -88.1) if dtype is float32 else (-708.3, -709.2)
    x = s.param("x", dtype)
    body = exp_log.exp_not_positive(x)

    def exp(values: np.ndarray) -> np.ndarray:
        return evaluate([body], lambda leaf: values.astype(dtype.np))[0]

    seen = np.random.default_rng(7).uniform(lowest, 0, COUNT).astype(dtype.np)
    assert ulp_distance(exp(seen), REFERENCES["exp"](seen.astype(Wide))).max() <= 1
    assert exp(np.array([0.0, -0.0])).tolist() == [1, 1]
    assert exp(np.array([zero, -1e30, -np.inf])).tolist() == [0, 0, 0]
    assert np.isnan(exp(np.array([np.nan]))).all()


NAN, INF = float("nan"), float("inf")
TINY = {"float32": 1e-45, "float64": 5e-324}

SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1e30, INF), (-1e30, 0)],
    "exp2": [(0, 1), (3, 8), (-3, 0.125), (INF, INF), (-INF, 0), (2000, INF), (-2000, 0)],
    "expm1": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -1), (-1e30, -1), (1e30, INF)],
    "log": [(1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN)],
    "log2": [(1, 0), (8, 3), (0.25, -2), (0, -INF), (INF, INF), (-1, NAN)],
    "log10": [(1, 0), (1000, 3), (0, -INF), (INF, INF), (-1, NAN)],
    "log1p": [(0, 0), (-0.0, -0.0), (-1, -INF), (INF, INF), (-2, NAN), (-INF, NAN)],
    "sin": [(0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0, 1), (-0.0, 1), (INF, NAN)], "tan": [(0, 0), (-0.0, -0.0), (INF, NAN)],
    "sinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e30, INF)],
    "cosh": [(0, 1), (INF, INF), (-INF, INF), (-1e30, INF)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (50, 1), (-50, -1)],
    "asin": [(0, 0), (-0.0, -0.0), (1.5, NAN), (-INF, NAN)],
    "acos": [(1, 0), (1.5, NAN), (INF, NAN)],
    "atan": [(0, 0), (-0.0, -0.0), (INF, np.pi / 2), (-INF, -np.pi / 2)],
    "asinh": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0), (0.5, NAN), (INF, INF), (-INF, NAN)],
    "atanh": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (INF, NAN)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (10, 1)],
    "erfc": [(0, 1), (INF, 0), (-INF, 2), (100, 0), (-100, 2)],
    "erfinv": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (INF, NAN)],
    "lgamma": [(1, 0), (2, 0), (0, INF), (-0.0, INF), (-1, INF), (INF, INF), (-INF, INF)],
    "digamma": [(0, -INF), (-0.0, INF), (-1, NAN), (INF, INF)],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0), (1e30, 1), (-1e30, 0)],
    "rsqrt": [(4, 0.5), (0, INF), (-0.0, -INF), (INF, 0), (-1, NAN)],
}  # fmt: skip


def same(got: float, wanted: float) -> bool:
    if np.isnan(wanted):
        return bool(np.isnan(got))
    return bool(got == wanted and np.signbit(got) == np.signbit(wanted))


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_math_special_values(name: str, dtype: DType) -> None:
    cases = [*SPECIAL[name], (NAN, NAN)]
    with np.errstate(all="ignore"):
        got = run(name, np.array([x for x, _ in cases]).astype(dtype.np))
    for (x, wanted), value in zip(cases, got, strict=True):
        assert same(value, dtype.np.type(wanted)), (name, x, value, wanted)


ODD_AT_DENORMALS = "expm1 log1p sin tan sinh tanh asin atan asinh atanh".split()


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ODD_AT_DENORMALS)
def test_math_keeps_denormal_arguments(name: str, dtype: DType) -> None:
    tiny = np.array([TINY[dtype.name], -7 * TINY[dtype.name]]).astype(dtype.np)
    assert run(name, tiny).tolist() == tiny.tolist()


def pow_cases() -> list[tuple[float, float, float]]:
    """C99 F.9.4.4."""
    out = [(1, y, 1) for y in (NAN, INF, -INF, 0.5)] + [
        (x, z, 1) for x in (NAN, INF, 0.0, -3) for z in (0.0, -0.0)
    ]
    out += [
        (-1, INF, 1),
        (-1, -INF, 1),
        (-8, 1 / 3, NAN),
        (-2, 3, -8),
        (-2, 2, 4),
        (-2, -3, -0.125),
    ]
    out += [(0.0, 3, 0.0), (-0.0, 3, -0.0), (-0.0, 2, 0.0), (-0.0, 0.5, 0.0), (0.0, -1, INF)]
    out += [(-0.0, -1, -INF), (-0.0, -2, INF), (-0.0, -0.5, INF), (0.0, INF, 0), (0.0, -INF, INF)]
    out += [(0.5, INF, 0), (0.5, -INF, INF), (2, INF, INF), (2, -INF, 0), (-0.5, INF, 0)]
    out += [(INF, 2, INF), (INF, -2, 0), (-INF, 3, -INF), (-INF, 2, INF), (-INF, -3, -0.0)]
    out += [
        (-INF, 0.5, INF),
        (-INF, -0.5, 0),
        (NAN, 1, NAN),
        (2, NAN, NAN),
        (3, 2, 9),
        (10, 5, 1e5),
    ]
    out += [(-3, 1e30, INF), (2, 1e30, INF), (2, -1e30, 0), (7, 1, 7), (-1, 1e15 + 1, -1)]
    return out


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_pow_special_values(dtype: DType) -> None:
    cases = pow_cases()
    if dtype is float32:
        cases = [c for c in cases if c[1] != 1e15 + 1 and c[1] != 1 / 3]
    x, y, wanted = (np.array(column).astype(dtype.np) for column in zip(*cases, strict=True))
    for i, value in enumerate(run("pow", x, y)):
        assert same(value, wanted[i]), (x[i], y[i], value, wanted[i])


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
def test_atan2_special_values(dtype: DType) -> None:
    edges = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40, 1e38, -1e38]
    y, x = (a.ravel().astype(dtype.np) for a in np.meshgrid(edges, edges))
    got, wanted = run("atan2", y, x), np.arctan2(y.astype(Wide), x.astype(Wide)).astype(dtype.np)
    for i, value in enumerate(got):
        close = abs(value - wanted[i]) <= 3 * np.spacing(abs(wanted[i]))
        assert same(value, wanted[i]) or (close and value != 0), (y[i], x[i], value, wanted[i])


def test_lgamma_is_relative_at_its_zeros() -> None:
    # mpmath at 40 digits.
    points = {
        1.0009765625: -0.0005629031799912047,
        0.9990234375: 0.0005644719118551234,
        2.0009765625: 0.00041318279306425424,
        1.9990234375: -0.0004125677359714894,
    }
    got = run("lgamma", np.array(list(points)))
    np.testing.assert_allclose(got, list(points.values()), rtol=1e-15)


def test_sin_of_huge_arguments() -> None:
    x = np.array([1e5, 123456789.0, 1e12, 2.0**49], np.float32)
    assert ulp_distance(run("sin", x), np.sin(x.astype(Wide))).max() < 2
    assert np.abs(run("sin", np.array([1e20, 3e38], np.float32))).max() <= 1


if __name__ == "__main__":
    for function in REFERENCES:
        print(f"{function:8} {worst(function, float32):8.2f} {worst(function, float64):8.2f}")
