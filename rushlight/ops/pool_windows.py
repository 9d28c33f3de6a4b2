"""The windows of pools, and the largest of each: values, places, gradient.

Settings are tuples, one entry per spatial dim. With ceil_mode a last window may reach past the
padding, if it starts inside the input or the padding before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import DType, int64, uint8
from rushlight.ir.symint import floordiv
from rushlight.ir.symint_math import minimum as size_minimum
from rushlight.ir.symint_math import product
from rushlight.ops.best_tap import best_tap
from rushlight.ops.binary import add, eq, floor_divide, maximum, mul, remainder
from rushlight.ops.build import (
    expand_to,
    iota_along,
    size_value,
    slice_dim,
    to_dtype,
    zeros,
)
from rushlight.ops.conv import windows_of
from rushlight.ops.indexed import scatter_nd
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.reduce import reduce_max
from rushlight.ops.rules import Shape, const
from rushlight.ops.select import where
from rushlight.ops.window import pad_space, window_count

MOST_BYTE_TAPS = 256


def pooled_size(size: Any, k: int, s: int, p: int, d: int, ceil_mode: bool) -> Any:
    reach = (k - 1) * d + 1
    if not ceil_mode:
        return window_count(size + 2 * p, k, s, d)
    fit = floordiv(size + 2 * p - reach + s - 1, s) + 1
    return size_minimum(fit, floordiv(size + p - 1, s) + 1)


def pooled_space(space: Shape, kernel: Any, stride: Any, padding: Any, dilation: Any,
                 ceil_mode: bool) -> tuple:  # fmt: skip
    parts = zip(space, kernel, stride, padding, dilation, strict=True)
    return tuple(pooled_size(*part, ceil_mode) for part in parts)


def pooled_windows(x: Any, fill: float, settings: tuple) -> Any:
    """All windows of the padded input. With ceil_mode stride - 1 more elements make room for a
    last window; it is cut off where it would start after the input and the padding before it."""
    kernel, stride, padding, dilation, ceil_mode = settings
    high = [p + (s - 1 if ceil_mode else 0) for p, s in zip(padding, stride, strict=True)]
    windows = windows_of(pad_space(x, padding, high, fill), kernel, stride, dilation)
    for i, count in enumerate(pooled_space(x.shape[2:], *settings)):
        if windows.shape[2 + i] != count:
            windows = slice_dim(windows, windows.shape, 2 + i, 0, count)
    return windows


def max_windows(x: Any, settings: tuple) -> Any:
    low = float("-inf") if x.dtype.is_inexact else int(np.iinfo(x.dtype.np).min)
    return pooled_windows(x, low, settings)


def settings_of(
    kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple:
    return (kernel_size, stride, padding, dilation, ceil_mode)


def max_pool_decompose(input: Any, **settings: Any) -> Any:  # noqa: A002
    windows = max_windows(input, settings_of(**settings))
    spatial = input.ndim - 2
    return reduce_max(windows, tuple(range(2 + spatial, 2 + 2 * spatial)))


def max_pool_places(input: Any, **settings: Any) -> Any:  # noqa: A002
    """The flat position in the input's space of what stands for each window (best_tap.py)."""
    kernel, stride, padding, dilation, _ = settings_of(**settings)
    space, spatial = input.shape[2:], input.ndim - 2
    windows = max_windows(input, settings_of(**settings))
    tap = best_tap(windows, tuple(range(2 + spatial, 2 + 2 * spatial)))
    flat = None
    for i in range(spatial):
        inner = product(kernel[i + 1 :])
        step = remainder(floor_divide(tap, inner), kernel[i])
        start = iota_along(tap.ndim, 2 + i, tap.shape[2 + i])
        at = add(add(mul(start, stride[i]), mul(step, dilation[i])), -padding[i])
        if padding[i]:
            # In a window of nothing but -inf the padding before it is as large: its first element.
            at = maximum(at, remainder(at, dilation[i]))
        flat = at if flat is None else add(mul(flat, size_value(space[i])), at)
    return flat


def max_pool_grad(g: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,  # noqa: A002, E501
                  ceil_mode: bool, meta: Meta) -> tuple:  # fmt: skip
    """Everything to the element that stands for the window, added up where windows overlap."""
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    settings = dict(zip(names, (kernel_size, stride, padding, dilation, ceil_mode), strict=True))
    plain = not any(padding) and all(d == 1 for d in dilation) and not ceil_mode
    if plain and tuple(kernel_size) == tuple(stride):
        return (_apart_max_grad(g, input, kernel_size, meta.shape("input")),)
    flat = max_pool_places(input, **settings)
    shape = meta.shape("input")
    lines, places = shape[0] * shape[1], product(flat.shape[2:])
    at = reshape(flat, (lines, places))
    row = expand_to(iota_along(2, 0, lines), (), (lines, places))
    space = zeros((lines, product(shape[2:])), g.dtype)
    total = scatter_nd(space, reshape(g, (lines, places)), [row, at], kind="sum")
    return (reshape(total, shape),)


def _apart_max_grad(g: Any, x: Any, kernel: Any, shape: Shape) -> Any:
    """Of windows side by side: each element knows its own window, so nothing is scattered.

    What is kept of the forward pass is the tap of each window, a byte if there are few of them."""
    spatial = g.ndim - 2
    taps = product(kernel)
    narrow = uint8 if isinstance(taps, int) and taps <= MOST_BYTE_TAPS else int64
    windows = windows_of(x, kernel, kernel, (1,) * spatial)
    first = to_dtype(best_tap(windows, tuple(range(g.ndim, g.ndim + spatial))), narrow)
    covered = tuple(n * k for n, k in zip(g.shape[2:], kernel, strict=True))
    here = eq(_own_taps(kernel, g.shape[2:], covered, narrow), _repeated(first, kernel, covered))
    spread = where(here, _repeated(g, kernel, covered), const(0, g.dtype))
    rest = [size - inside for size, inside in zip(shape[2:], covered, strict=True)]
    return pad_space(spread, (0,) * spatial, rest, 0)


def _own_taps(kernel: Any, counts: Any, covered: tuple, dtype: DType) -> Any:
    """Of each covered place the number of its tap in its window: a pattern that needs no memory."""
    taps = to_dtype(iota_along(1, 0, product(kernel)), dtype)
    narrow = tuple(n for size in kernel for n in (1, size))
    wide = tuple(n for pair in zip(counts, kernel, strict=True) for n in pair)
    spread = expand_to(reshape(taps, (1, 1, *narrow)), (1, 1, *narrow), (1, 1, *wide))
    return reshape(spread, (1, 1, *covered))


def _repeated(x: Any, kernel: Any, covered: tuple) -> Any:
    """Each element in every place of its window."""
    lead, space = x.shape[:2], x.shape[2:]
    narrow = tuple(n for size in space for n in (size, 1))
    wide = tuple(n for pair in zip(space, kernel, strict=True) for n in pair)
    spread = expand_to(reshape(x, (*lead, *narrow)), (*lead, *narrow), (*lead, *wide))
    return reshape(spread, (*lead, *covered))
