"""How far two results are apart.

In: numpy arrays of one shape and dtype. Out: the largest absolute and relative error, the largest
distance in units in the last place, and where the first difference is.

>>> far = difference(np.float32([1, 2, 4]), np.float32([1, 2, 4.0000005]))
>>> far.ulp, far.first
(1, (2,))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Difference:
    """absolute, relative (to the largest expected value), ulp: the largest of each; first: indices
    of the first element that differs, None where all bits are equal."""

    absolute: float
    relative: float
    ulp: int
    first: tuple[int, ...] | None

    @property
    def same_bits(self) -> bool:
        return self.first is None


def difference(got: np.ndarray, wanted: np.ndarray) -> Difference:
    a, b = wide(got), wide(wanted)
    unequal = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if got.dtype.kind == "f":
        unequal |= (np.signbit(a) != np.signbit(b)) & ~np.isnan(a)
    if not unequal.any():
        return Difference(0.0, 0.0, 0, None)
    with np.errstate(invalid="ignore"):
        apart = np.where(unequal, np.abs(a - b), 0.0)
    apart = np.where(np.isnan(apart), np.inf, apart)
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    worst = float(apart.max())
    first = np.unravel_index(int(np.flatnonzero(unequal)[0]), unequal.shape)
    place = tuple(int(i) for i in first)
    return Difference(worst, worst / scale if scale else worst, _ulp(got, wanted), place)


def wide(array: np.ndarray) -> np.ndarray:
    """As doubles (whole numbers beyond 2**53 are rounded)."""
    return np.asarray(array).astype(np.float64)


def _ulp(got: np.ndarray, wanted: np.ndarray) -> int:
    """The most steps from one value to the other along the representable ones."""
    if got.dtype.kind in "iub":
        return int(np.abs(wide(got) - wide(wanted)).max(initial=0))
    a, b = _ordered(got), _ordered(wanted)
    real = np.isfinite(wide(got)) & np.isfinite(wide(wanted))
    steps = np.maximum(a, b) - np.minimum(a, b)
    return int(steps[real].max(initial=0))


def _ordered(array: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, -0.0 and +0.0 alike."""
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}").astype(object)
    if array.dtype.itemsize < 8:
        bits = bits.astype(np.int64)
    least = -(1 << (8 * array.dtype.itemsize - 1))
    return np.where(bits < 0, least - bits, bits)
