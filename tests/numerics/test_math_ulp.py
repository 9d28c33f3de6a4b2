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
from rushlight.ir import scalar as s
from tests.numerics.ulp_reference import REFERENCES, Wide, ulp_distance

COUNT = 20_000


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
        if name == "digamma":
            distance = distance * np.minimum(np.abs(wanted), 1).astype(np.float64)
    return float(distance.max())


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_math_error_is_within_the_stated_ulp(name: str, dtype: DType) -> None:
    assert worst(name, dtype) <= BOUNDS[name][dtype is float64]


if __name__ == "__main__":
    for function in REFERENCES:
        print(f"{function:8} {worst(function, float32):8.2f} {worst(function, float64):8.2f}")
