"""The movement primitive `unfold`: sliding windows, what convolutions and pools are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ir.node import const_node
from rushlight.ir.opdef import Arg, Attr, Call, Dim, Size, op
from rushlight.ir.symint import floordiv
from rushlight.ops.build import iota_along, pad_dim, slice_dim, zeros
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.movement import pad, permute, reshape
from rushlight.ops.rules import is_static, operand_dtype, replace_dim
from rushlight.ops.samples import ErrorSample, Sample, array


def window_count(length: Any, size: Any, step: int, dilation: int) -> Any:
    """How many windows of `size` elements, `dilation` apart, start every `step`."""
    return floordiv(length - ((size - 1) * dilation + 1), step) + 1


def check_unfold(call: Call) -> None:
    length = call["x"].shape[call["dim"]]
    reach = (call["size"] - 1) * call["dilation"] + 1
    if is_static(length) and is_static(reach) and not 0 < reach <= length:
        raise RuntimeError(
            f"maximum size for tensor at dimension {call['dim']} is {length} but size is {reach}"
        )


def unfold_reference(x: np.ndarray, dim: int, size: int, step: int, dilation: int) -> np.ndarray:
    reach = (size - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, dim)
    starts = (slice(None),) * dim + (slice(None, None, step),)
    return windows[starts][..., ::dilation]


def pad_space(
    x: Any, low: Sequence[Any], high: Sequence[Any], fill: float, between: Any = ()
) -> Any:
    between = tuple(between) or (0,) * len(low)
    if not any((*low, *high, *between)):
        return x
    zero = (0, 0)
    value = const_node(fill, x.dtype)
    return pad(x, value, (*zero, *low), (*zero, *high), (*zero, *between))


UNROLL = 16


def unfold_grad(g: Any, dim: int, size: Any, step: int, dilation: int, meta: Meta) -> tuple:
    return (fold_windows(g, dim, meta.shape("x")[dim], step, dilation),)


def fold_windows(g: Any, dim: int, length: Any, step: int, dilation: int) -> Any:
    """Add the elements of windows up where they came from: element k of window w from
    w*step + k*dilation. g has the windows along dim and their elements last."""
    *shape, size = g.shape
    ndim, windows = len(shape), shape[dim]
    shape[dim] = length
    if step == size and dilation == 1:
        joined = permute(g, (*range(dim + 1), ndim, *range(dim + 1, ndim)))
        flat = reshape(joined, replace_dim(tuple(shape), dim, windows * size))
        return pad_dim(flat, ndim, dim, 0, length - windows * size, 0, g.dtype)
    if is_static(size) and size <= UNROLL:
        return _add_taps(g, dim, length, step, dilation)
    first = permute(g, (dim, ndim, *(i for i in range(ndim) if i != dim)))
    at = iota_along(2, 0, windows) * step + iota_along(2, 1, size) * dilation
    front = (length, *(s for i, s in enumerate(shape) if i != dim))
    total = late.scatter_nd(zeros(front, g.dtype), first, [at], kind="sum")
    return permute(total, (*range(1, dim + 1), 0, *range(dim + 1, ndim)))


def _add_taps(g: Any, dim: int, length: Any, step: int, dilation: int) -> Any:
    """Sum over k of the windows' k-th elements, spread out by `step` and moved by k*dilation."""
    ndim = g.ndim - 1
    stretched = (g.shape[dim] - 1) * step + 1
    inside = tuple(step - 1 if i == dim else 0 for i in range(ndim))
    total = None
    for k in range(g.shape[-1]):
        part = reshape(slice_dim(g, g.shape, ndim, k, 1), g.shape[:-1])
        low = tuple(k * dilation if i == dim else 0 for i in range(ndim))
        after = length - stretched - k * dilation
        high = tuple(after if i == dim else 0 for i in range(ndim))
        part = pad(part, const_node(0, g.dtype), low, high, inside)
        total = part if total is None else total + part
    return total


unfold = op(
    name="unfold",
    doc="Windows: dim becomes their number, a new last dimension holds their elements.",
    inputs=(Arg("x"), Dim("dim"), Size("size"), Attr("step", 1), Attr("dilation", 1)),
    shape=lambda call: (
        *replace_dim(
            call["x"].shape,
            call["dim"],
            window_count(
                call["x"].shape[call["dim"]], call["size"], call["step"], call["dilation"]
            ),
        ),
        call["size"],
    ),
    dtype=operand_dtype,
    kind="movement",
    reference=unfold_reference,
    grad=unfold_grad,
    cheap=True,
    check=check_unfold,
    samples=lambda rng: [
        Sample((array(rng, 2, 9, 3),), {"dim": 1, "size": 3, "step": 2, "dilation": 2}),
        Sample((array(rng, 8),), {"dim": 0, "size": 3, "step": 1, "dilation": 1}),
        Sample((array(rng, 2, 7),), {"dim": 1, "size": 2, "step": 2, "dilation": 1}),
        Sample((array(rng, 9),), {"dim": 0, "size": 2, "step": 3, "dilation": 1}),
    ],
    error_samples=(ErrorSample((np.ones(3),), {"dim": 0, "size": 4}, RuntimeError, "maximum"),),
)
