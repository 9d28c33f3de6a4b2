"""Are two results equal? Within the tolerance of the dtype, and of PyTorch's own rounding."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

TOLERANCE = {
    "float64": (1e-6, 1e-7), "float32": (1e-4, 1e-5), "bfloat16": (2e-2, 1e-2),
    "float16": (2e-3, 1e-3), "complex32": (2e-3, 1e-3),
    "complex64": (1e-4, 1e-5), "complex128": (1e-6, 1e-7),
}  # fmt: skip
GRADIENT = 5  # a gradient may be off by this many times the tolerance


def noise(have: tuple | None, wide: tuple | None) -> float:
    """How far PyTorch's result is from its own in float64."""
    if have is None or wide is None or have[0] == "plain" or have[1].shape != wide[1].shape:
        return 0.0
    if have[1].dtype.kind not in "fc" or not have[1].size:
        return 0.0
    exact = wide[1]
    both = np.isfinite(have[1]) & np.isfinite(exact)
    return float(np.max(np.abs(have[1].astype(exact.dtype) - exact)[both], initial=0.0))


def differs(got: Any, want: Any, how: str = "", slack: float = 0.0, factor: float = 1.0) -> str:
    """'' when equal. `how`: '' values, 'size' values without sign, 'shape' shape and dtype only."""
    if got is None or want is None:
        other = got if want is None else want
        return "" if other is None or not np.any(other[1]) else "one gradient is None"
    if got[0] != want[0]:
        return f"dtype {got[0]}, want {want[0]}"
    if got[0] == "plain":
        same = how == "shape" or got[1] == want[1] or _near_numbers(got[1], want[1])
        return "" if same else f"{got[1]!r}, want {want[1]!r}"
    a, b = np.asarray(got[1]), np.asarray(want[1])
    if a.shape != b.shape:
        return f"shape {a.shape}, want {b.shape}"
    if how == "shape":
        return ""
    if b.dtype.kind not in "fc":
        return "" if np.array_equal(a, b) else "values differ"
    return _far(a, b, want[0], how == "size", slack, factor)


def _far(a: np.ndarray, b: np.ndarray, dtype: str, size: bool, slack: float, factor: float) -> str:
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    if size:
        a, b = np.abs(a), np.abs(b)
    rtol, atol = TOLERANCE[dtype]
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(b), np.abs(b), 0)
        scale = float(finite.max(initial=0.0))
        allowed = factor * (atol + rtol * np.maximum(finite, 1e-2 * scale)) + 4 * slack
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        off = np.where(same, 0, np.abs(a - b))
        good = same | (off <= allowed)
    if good.all():
        return ""
    if np.isnan(off[~good]).any():
        return "NaN on one side"
    return f"off by {off[~good].max():.3g}"


def _near_numbers(a: Any, b: Any) -> bool:
    numbers = (int, float, complex)
    if not (isinstance(a, numbers) and isinstance(b, numbers)):
        return False
    return a != a and b != b or cmath.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5)
