"""Whole turns of the logarithm of running sums of complex exponentials.

log of a complex number is known up to whole turns (2 pi i). PyTorch adds one exponential after the
other: log(e^a + e^b) = m + log1p(e^(n - m)), m the one of a and b with the larger real part. So the
imaginary part goes on from that of the last sum, at most a quarter turn a step, and starts anew
where a term is at least as large as the sum before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.ops.binary import eq, ge, le
from rushlight.ops.build import iota_along, pad_dim, real_of, slice_dim
from rushlight.ops.complex import complex_, imag
from rushlight.ops.movement import reshape
from rushlight.ops.reduce import reduce_max, reduce_sum, scan_sum
from rushlight.ops.select import where
from rushlight.ops.unary import isfinite, round_

TURN = 2 * math.pi


def with_turns(x: Any, y: Any) -> Any:
    """y, the logarithms of the running sums of e^x over the last dim, with PyTorch's turns."""
    *lead, size = x.shape
    last, phase = x.ndim - 1, imag(y)
    fresh = ge(real_of(x), _before(real_of(y), float("-inf")))
    apart = phase - where(fresh, imag(x), _before(phase, 0.0))
    step = apart - _turns(apart)
    way = scan_sum(where(fresh, 0.0, step), last)
    # Each start minus the way up to it, and for each sum the last start before it.
    start = imag(x) + step - way
    row, column = iota_along(2, 1, size), iota_along(2, 0, size)
    own = where(le(row, column), where(reshape(fresh, (*lead, 1, size)), row, -1), -1)
    latest = reshape(reduce_max(own, (last + 1,)), (*lead, size, 1))
    chosen = where(eq(row, latest), reshape(start, (*lead, 1, size)), 0.0)
    off = reduce_sum(chosen, (last + 1,)) + way - phase
    return complex_(real_of(y), phase + where(isfinite(off), _turns(off), 0.0))


def _turns(angle: Any) -> Any:
    """The nearest number of whole turns, as an angle."""
    return round_(angle * (1 / TURN)) * TURN


def _before(x: Any, first: float) -> Any:
    """The value one place earlier."""
    last = x.ndim - 1
    short = slice_dim(x, x.shape, last, 0, x.shape[last] - 1)
    return pad_dim(short, x.ndim, last, 1, 0, first, x.dtype)


def running_complex_logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    """The same, one after the other."""
    lines = np.moveaxis(x, axis, 0)
    total, results = np.full(lines.shape[1:], -np.inf, x.dtype), []
    for term in lines:
        larger = np.real(term) >= np.real(total)
        most, least = np.where(larger, term, total), np.where(larger, total, term)
        with np.errstate(all="ignore"):
            added = most + np.log1p(np.exp(least - most))
        total = np.where(np.isneginf(np.real(least)), most, added)
        results.append(total)
    return np.moveaxis(np.array(results, x.dtype).reshape(lines.shape), 0, axis)
