"""The same memory read as numbers of another size: `x.view(dtype)` where the size changes.

The last dim holds the bytes of a number one after the other, the lowest first. No element is
computed with: whole numbers are shifted and joined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import DType, find_dtype, int16, int32
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable
from rushlight.ir.symint import floordiv
from rushlight.ops.binary import bitwise_or, shift_left, shift_right
from rushlight.ops.build import full, iota_along, slice_dim
from rushlight.ops.composite import composite
from rushlight.ops.movement import reshape
from rushlight.ops.rules import Shape, dtype_attr, is_static
from rushlight.ops.samples import ErrorSample, Sample, whole
from rushlight.ops.select import bitcast, cast

BITS = NotDifferentiable("bits are not numbers")


def whole_of(dtype: DType) -> DType:
    """The unsigned dtype of the same size."""
    return find_dtype(f"uint{8 * dtype.itemsize}")


def read_wider_decompose(x: Any, dtype: DType) -> Any:
    """The parts of each number, moved to their place and joined."""
    count, goal = dtype.itemsize // x.dtype.itemsize, whole_of(dtype)
    shape = (*x.shape[:-1], floordiv(x.shape[-1], count), count)
    parts = reshape(bitcast(x, dtype=whole_of(x.dtype)), shape)
    total = None
    for i in range(count):
        part = reshape(slice_dim(parts, shape, len(shape) - 1, i, 1), shape[:-1])
        move = full((), 8 * x.dtype.itemsize * i, goal)
        part = shift_left(cast(part, dtype=goal), move)
        total = part if total is None else bitwise_or(total, part)
    return bitcast(total, dtype=dtype)


def read_narrower_decompose(x: Any, dtype: DType) -> Any:
    count, have = x.dtype.itemsize // dtype.itemsize, whole_of(x.dtype)
    wide = reshape(bitcast(x, dtype=have), (*x.shape, 1))
    places = iota_along(x.ndim + 1, x.ndim, count, have)
    moved = shift_right(wide, places * full((), 8 * dtype.itemsize, have))
    narrow = bitcast(cast(moved, dtype=whole_of(dtype)), dtype=dtype)
    return reshape(narrow, (*x.shape[:-1], x.shape[-1] * count))


def wider_shape(call: Call) -> Shape:
    shape, count = call["x"].shape, call["dtype"].itemsize // call["x"].dtype.itemsize
    if count < 2:
        raise RuntimeError(f"read_wider: {call['dtype'].name} is not wider")
    if is_static(shape[-1]) and shape[-1] % count:
        raise RuntimeError(f"read_wider: the last dim must be divisible by {count}")
    return (*shape[:-1], floordiv(shape[-1], count))


def narrower_shape(call: Call) -> Shape:
    shape, count = call["x"].shape, call["x"].dtype.itemsize // call["dtype"].itemsize
    if count < 2:
        raise RuntimeError(f"read_narrower: {call['dtype'].name} is not narrower")
    return (*shape[:-1], shape[-1] * count)


def _view(x: np.ndarray, dtype: DType) -> np.ndarray:
    return np.ascontiguousarray(x).view(dtype.np)


read_wider = composite(
    "read_wider",
    "The memory read as numbers of more bytes.",
    (Arg("x"), Attr("dtype")),
    read_wider_decompose,
    _view,
    BITS,
    shape=wider_shape,
    dtype=dtype_attr,
    promote="none",
    compute_f32=False,
    samples=lambda rng: [Sample((whole(rng, 3, 8).astype(np.int16),), {"dtype": int32})],
    error_samples=(ErrorSample((np.ones(3, np.int16),), {"dtype": int32}, RuntimeError, "divis"),),
)
read_narrower = composite(
    "read_narrower",
    "The memory read as numbers of fewer bytes.",
    (Arg("x"), Attr("dtype")),
    read_narrower_decompose,
    _view,
    BITS,
    shape=narrower_shape,
    dtype=dtype_attr,
    promote="none",
    compute_f32=False,
    samples=lambda rng: [Sample((whole(rng, 3, 4, high=1 << 40),), {"dtype": int16})],
    error_samples=(ErrorSample((np.ones(3, np.int16),), {"dtype": int32}, RuntimeError, "narrow"),),
)
