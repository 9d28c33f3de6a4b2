"""Fused multiply-add in numpy with one rounding.

float32: the product is exact in float64; the sum is rounded to odd in float64, and a value that
is rounded to odd with more than two spare bits rounds to float32 as the exact sum would.
float64: the same idea with the product and sum as pairs of floats (Boldo and Melquiond), exact
unless something over- or underflows on the way; then it is a * b + c in extended precision.
"""

from __future__ import annotations

import numpy as np

_SPLIT = np.float64(134217729.0)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c, elementwise, for float32 or float64 arrays of one dtype."""
    if a.dtype == np.float32:
        product = a.astype(np.float64) * b.astype(np.float64)
        return _odd_sum(product, c.astype(np.float64)).astype(np.float32)
    return _fma64(a, b, c)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b in float64, rounded to odd: of the two neighbours of an inexact sum the odd one."""
    total, error = _two_sum(a, b)
    total = np.asarray(total)
    bits = total.view(np.int64)
    fix = (error != 0) & np.isfinite(error) & ((bits & 1) == 0)
    # One step towards the error: up in magnitude when the signs agree, else down.
    step = np.where((error > 0) == (total > 0), 1, -1)
    return (bits + np.where(fix, step, 0)).view(np.float64)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product = a * b
    a_big, b_big = _SPLIT * a, _SPLIT * b
    a_hi, b_hi = a_big - (a_big - a), b_big - (b_big - b)
    a_lo, b_lo = a - a_hi, b - b_hi
    return product, ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


def _fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    high, low = _two_product(a, b)
    top, rest = _two_sum(c, low)
    big, small = _two_sum(high, top)
    exact = big + _odd_sum(rest, small)
    wide = np.longdouble
    plain = (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(np.float64)
    size = np.maximum(np.abs(high), np.abs(c))
    safe = (np.abs(high) > 1e-250) & (size < 1e300) & (np.abs(a) < 1e290) & (np.abs(b) < 1e290)
    return np.where(safe, exact, plain)
