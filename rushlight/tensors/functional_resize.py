"""nn.functional: resizing an image by size or by scale factor (interpolate, upsample).

One dimension is resized after the other, each composed of gathers, so gradients reach the image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import DType, float32, float64, int64, uint8
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import arange
from rushlight.tensors.functional_image import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    per_dim,
)
from rushlight.tensors.functions_select import known
from rushlight.tensors.functions_view import movedim, reshape
from rushlight.tensors.tensor import Tensor

LINEAR = ("linear", "bilinear", "trilinear")
MODES = ("nearest", "nearest-exact", *LINEAR, "bicubic", "area")


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resize by size or by scale_factor, in the given mode."""
    spatial = input.dim() - 2
    if mode not in MODES:
        raise NotImplementedError(f"interpolate: mode={mode!r} is not supported")
    if antialias and (mode not in ("bilinear", "bicubic") or spatial != 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    sizes, scales = _wanted(input, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[spatial - 1]
        return pool(input, sizes)
    if mode == "bicubic" and spatial != 2:
        raise NotImplementedError(f"Got {spatial + 2}D input, but bicubic mode needs 4D input")
    if antialias:
        return resize_smoothly(input, sizes, scales, mode, bool(align_corners))
    resize = _cubic if mode == "bicubic" else _linear if mode in LINEAR else _nearest
    setting = mode == "nearest-exact" if resize is _nearest else bool(align_corners)
    result = input if resize is _nearest else input.to(_real(input))
    for axis in range(spatial):
        result = resize(result, axis + 2, sizes[axis], scales[axis], setting)
    if input._dtype is uint8 and resize is not _nearest:
        result = apply(ops.round_, (result,)).clamp(0, 255)
    return result.to(input._dtype)


upsample = interpolate


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate(mode="nearest")."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate(mode="bilinear", align_corners=True)."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def _wanted(input: Tensor, size: Any, scale_factor: Any, recompute: bool) -> tuple[tuple, tuple]:
    """The new sizes, and for each the scale to compute places with (None: the sizes' ratio)."""
    spatial = input.dim() - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined" if size is not None
                         else "either size or scale_factor should be defined")  # fmt: skip
    if size is not None:
        return per_dim(size, spatial), (None,) * spatial
    scales = scale_factor if isinstance(scale_factor, list | tuple) else (scale_factor,) * spatial
    sizes = tuple(int(math.floor(n * s)) for n, s in zip(input._shape[2:], scales, strict=True))
    return sizes, (None,) * spatial if recompute else tuple(scales)


def _places(input: Tensor, dim: int, size: int, scale: Any, corners: bool) -> Tensor:
    """Where each new element lies in the old dimension, as real numbers."""
    have = input._shape[dim]
    line = arange(size, dtype=_real(input))
    if corners:
        return line * ((have - 1) / (size - 1) if size > 1 else 0.0)
    ratio = 1.0 / scale if scale else have / size
    return (line + 0.5) * ratio - 0.5


def _real(input: Tensor) -> DType:
    """What places and weights are computed in: bfloat16 and uint8 count to 256 only."""
    return float64 if input._dtype is float64 else float32


def _along(input: Tensor, dim: int, line: Tensor) -> Tensor:
    return reshape(line, [-1 if d == dim else 1 for d in range(input.dim())])


def _nearest(input: Tensor, dim: int, size: int, scale: Any, exact: bool) -> Tensor:
    have = input._shape[dim]
    ratio = 1.0 / scale if scale else have / size
    place = (arange(size, dtype=_real(input)) + (0.5 if exact else 0.0)) * ratio
    return input.index_select(dim, place.floor().to(int64).clamp(max=have - 1))


def _linear(input: Tensor, dim: int, size: int, scale: Any, corners: bool) -> Tensor:
    have = input._shape[dim]
    place = _places(input, dim, size, scale, corners)
    if not corners:
        place = place.clamp(min=0.0)
    low = place.floor().to(int64).clamp(max=have - 1)
    high = (low + 1).clamp(max=have - 1)
    part = _along(input, dim, place - low)
    below, above = input.index_select(dim, low), input.index_select(dim, high)
    return below * (1 - part) + above * part


def resize_smoothly(
    input: Tensor, sizes: Sequence[int], scales: Sequence[Any], mode: str, corners: bool
) -> Tensor:
    """Each dimension by a matrix: antialias=True."""
    for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        shares = smooth_weights(input._shape[axis + 2], size, scale, mode, corners)
        weights = known(shares.astype(input._dtype.np))
        moved = movedim(input, axis + 2, -1)
        input = movedim(apply(ops.linear, (moved, weights, None)), -1, axis + 2)
    return input


def smooth_weights(
    have: int, size: int, scale: float | None, mode: str, corners: bool
) -> np.ndarray:
    """[size, have]: the share of each old element in each new one. When it shrinks, the filter is
    as wide as the old elements that a new one stands for."""
    if corners:
        ratio = (have - 1) / (size - 1) if size > 1 else 0.0
    else:
        ratio = 1.0 / scale if scale else have / size
    wide = max(ratio, 1.0)
    reach = (1 if mode == "bilinear" else 2) * wide
    center = ratio * (np.arange(size) + 0.5)
    first = np.maximum((center - reach + 0.5).astype(int), 0)
    stop = np.minimum((center + reach + 0.5).astype(int), have)
    old = np.arange(have)
    distance = np.abs((old + 0.5 - center[:, None]) / wide)
    share = _tent(distance) if mode == "bilinear" else _keys(distance)
    share = np.where((old >= first[:, None]) & (old < stop[:, None]), share, 0.0)
    return share / share.sum(1, keepdims=True)


def _tent(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - x, 0)


def _keys(x: np.ndarray) -> np.ndarray:
    """Keys' cubic with a = -0.5."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def cubic_weights(part: Tensor) -> list[Tensor]:
    """Keys' cubic with a = -0.75 at distances 1 + t, t, 1 - t, 2 - t."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(part + 1), near(part), near(1 - part), far(2 - part)]


def _cubic(input: Tensor, dim: int, size: int, scale: Any, corners: bool) -> Tensor:
    have = input._shape[dim]
    place = _places(input, dim, size, scale, corners)
    low = apply(ops.floor, (place,))
    first, *others = (
        input.index_select(dim, (low.to(int64) + (i - 1)).clamp(0, have - 1))
        * _along(input, dim, weight)
        for i, weight in enumerate(cubic_weights(place - low))
    )
    for term in others:
        first = first + term
    return first


__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]
