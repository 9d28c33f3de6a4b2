"""The element that stands for a window of a max pool.

PyTorch's loops over a window go on where an element is larger or is NaN: of equal ones the first
stands for it, of several NaN the last.
"""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

import numpy as np

from rushlight.base.dtypes import int32, int64
from rushlight.ir.symint_math import product
from rushlight.ops.binary import add, gt, logical_or, mul
from rushlight.ops.build import expand_to, iota_along, size_value, to_dtype
from rushlight.ops.movement import reshape, slice_
from rushlight.ops.reduce import argmax_, reduce_max
from rushlight.ops.rules import const
from rushlight.ops.select import where
from rushlight.ops.unary import isnan

# So few are compared one by one: lanes run over windows.
FEW = 16


def best_tap(windows: Any, dims: tuple[int, ...]) -> Any:
    """Its position in the flattened dims, int64."""
    if not windows.dtype.is_floating_point:
        return argmax_(windows, dims)
    taps = product([windows.shape[d] for d in dims])
    if isinstance(taps, int) and taps <= FEW:
        return _one_by_one(windows, dims)
    # Numbered from 1, so that 0 says that there is no NaN.
    number = const(1, int32)
    for i, dim in enumerate(dims):
        line = iota_along(windows.ndim, dim, windows.shape[dim], int32)
        inner = to_dtype(size_value(product([windows.shape[d] for d in dims[i + 1 :]])), int32)
        number = add(number, mul(line, inner))
    last = reduce_max(where(isnan(windows), number, const(0, int32)), dims)
    found = add(to_dtype(last, int64), const(-1, int64))
    return where(gt(last, const(0, int32)), found, argmax_(windows, dims))


def _one_by_one(windows: Any, dims: tuple[int, ...]) -> Any:
    """As PyTorch's loops do it, written out."""
    kept = tuple(n for d, n in enumerate(windows.shape) if d not in dims)
    best, position = None, expand_to(const(0, int64), (), kept)
    for number, places in enumerate(combinations(*(range(windows.shape[d]) for d in dims))):
        start, length = [0] * windows.ndim, list(windows.shape)
        for dim, place in zip(dims, places, strict=True):
            start[dim], length[dim] = place, 1
        piece = slice_(windows, tuple(start), tuple(length), (1,) * windows.ndim)
        element = to_dtype(reshape(piece, kept), windows.dtype.compute)
        if best is None:
            best = element
            continue
        better = logical_or(gt(element, best), isnan(element))
        position = where(better, const(number, int64), position)
        best = where(better, element, best)
    return position


def numpy_best_tap(x: np.ndarray, axis: int | None, keepdims: bool = False) -> np.ndarray:
    """The same along one axis, or over all, for numpy."""
    line = x.reshape(-1) if axis is None else x
    at = 0 if axis is None else axis
    missing = np.isnan(line)
    last = line.shape[at] - 1 - np.flip(missing, at).argmax(at, keepdims=True)
    found = np.where(missing.any(at, keepdims=True), last, line.argmax(at, keepdims=True))
    if axis is None:
        return found.reshape((1,) * x.ndim) if keepdims else found.reshape(())
    return found if keepdims else found.squeeze(at)
