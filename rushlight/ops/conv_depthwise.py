"""Depthwise convolutions, tap by tap: each channel has a filter of its own, nothing is shared.

    out[n, c, p] = sum over taps t of w[c, t] * x[n, c, p * stride + t * dilation]

As contractions they would be one tiny product per image and channel. Written out they are one pass
over memory, with lanes along it. Shapes as in conv.py, with one channel in and out per group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as combinations
from typing import Any

from rushlight.ir.symint_math import product
from rushlight.ops.binary import add, mul
from rushlight.ops.build import to_dtype
from rushlight.ops.movement import cat, reshape, slice_
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import is_static
from rushlight.ops.window import window_count

# More taps would be a longer expression than a kernel keeps in one piece.
MOST_TAPS = 25


def is_depthwise(channels: Any, out: Any, kernel: Sequence[Any], groups: int) -> bool:
    """One channel in and one out per group, and few taps."""
    taps = product(kernel)
    if not isinstance(taps, int) or not all(map(is_static, (channels, out))):
        return False
    return groups > 1 and channels == out == groups and taps <= MOST_TAPS


def depthwise(x: Any, weight: Any, stride: Sequence[Any], dilation: Sequence[Any]) -> Any:
    """x (padded already) with weight[C, 1, *kernel]."""
    kernel = weight.shape[2:]
    counts = [
        window_count(*sizes) for sizes in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    wide = x.dtype.compute
    total: Any = None
    for tap, part in _taps(x, kernel, counts, stride, dilation):
        lengths = (weight.shape[0], 1, *(1,) * len(kernel))
        factor = slice_(weight, (0, 0, *tap), lengths, (1,) * weight.ndim)
        factor = reshape(factor, (1, weight.shape[0], *(1,) * len(kernel)))
        one = mul(to_dtype(part, wide), to_dtype(factor, wide))
        total = one if total is None else add(total, one)
    return to_dtype(total, x.dtype)


def depthwise_weight_back(
    g: Any, x: Any, kernel: Sequence[Any], stride: Sequence[Any], dilation: Sequence[Any]
) -> Any:
    """The gradient of the weight: a sum over images and positions for each tap."""
    wide, dims = x.dtype.compute, (0, *range(2, x.ndim))
    sums = [
        reshape(reduce_sum(mul(to_dtype(g, wide), to_dtype(part, wide)), dims), (x.shape[1], 1))
        for _, part in _taps(x, kernel, g.shape[2:], stride, dilation)
    ]
    return to_dtype(reshape(cat(sums, dim=1), (x.shape[1], 1, *kernel)), x.dtype)


def _taps(
    x: Any, kernel: Sequence[Any], counts: Sequence[Any], stride: Any, dilation: Any
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """(tap, what it meets at every position): views of x."""
    for tap in combinations(*map(range, kernel)):
        start = (0, 0, *(t * d for t, d in zip(tap, dilation, strict=True)))
        # A view with steps needs no more than the last element it takes.
        yield tap, slice_(x, start, (*x.shape[:2], *counts), (1, 1, *stride))
