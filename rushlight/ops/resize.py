"""Interpolation along one dim, and patches of images (im2col and back).

The public `interpolate` resizes dim after dim. `scale` is the step in the input per element of the
output (None: input size / output size), as PyTorch computes it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.base.dtypes import float32, float64, int64
from rushlight.ir.opdef import Arg, Attr, Call, Dim, Size, Sizes
from rushlight.ir.symint_math import product
from rushlight.ops.binary import add, maximum, minimum, mul, sub
from rushlight.ops.build import full, iota_along, reshape_to, size_value, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.conv import windows_of
from rushlight.ops.indexing import index_select
from rushlight.ops.movement import permute, reshape, slice_
from rushlight.ops.rules import Shape, float_dtype, operand_dtype, replace_dim
from rushlight.ops.samples import Rng, Sample, array
from rushlight.ops.unary import floor
from rushlight.ops.window import fold_windows, pad_space, window_count


def resized_shape(call: Call) -> Shape:
    return replace_dim(call["input"].shape, call["dim"], call["size"])


def step_of(have: Any, want: Any, scale: float | None, dtype: Any) -> Any:
    if scale is not None:
        return full((), scale, dtype)
    return size_value(have, dtype) / size_value(want, dtype)


def nearest_decompose(
    input: Any,
    dim: int,
    size: Any,
    scale: float | None = None,
    exact: bool = False,  # noqa: A002
) -> Any:
    have = input.shape[dim]
    at = iota_along(1, 0, size, float32)
    at = floor(mul(add(at, 0.5) if exact else at, step_of(have, size, scale, float32)))
    last = sub(size_value(have), 1)
    return index_select(input, dim, minimum(to_dtype(at, int64), last))


def nearest_reference(
    x: np.ndarray, dim: int, size: int, scale: float | None, exact: bool
) -> np.ndarray:
    step = np.float32(x.shape[dim]) / np.float32(size) if scale is None else np.float32(scale)
    at = np.floor((np.arange(size, dtype=np.float32) + (0.5 if exact else 0)) * step)
    return np.take(x, np.minimum(at.astype(np.int64), x.shape[dim] - 1), dim)


def nearest_samples(rng: Rng) -> list[Sample]:
    cases = [(1, 7, None, False), (1, 3, None, True), (0, 5, 0.4, False)]
    return [
        Sample((array(rng, 2, 5),), dict(zip(("dim", "size", "scale", "exact"), c, strict=True)))
        for c in cases
    ]


resize_nearest = composite(
    "resize_nearest",
    "Another size along dim: the element at floor(i * step) (exact: of the pixel's middle).",
    (Arg("input"), Dim("dim"), Size("size"), Attr("scale", None), Attr("exact", False)),
    nearest_decompose,
    nearest_reference,
    shape=resized_shape,
    dtype=operand_dtype,
    compute_f32=False,
    samples=nearest_samples,
)


def linear_places(have: Any, want: Any, scale: Any, align: bool, dtype: Any) -> tuple:
    """(left index, right index, weight of the right) for each output element."""
    at = iota_along(1, 0, want, dtype)
    if align:
        gaps = maximum(sub(size_value(want, dtype), 1.0), 1.0)
        at = mul(at, sub(size_value(have, dtype), 1.0) / gaps)
    else:
        at = maximum(sub(mul(add(at, 0.5), step_of(have, want, scale, dtype)), 0.5), 0.0)
    last = sub(size_value(have), 1)
    left = minimum(to_dtype(floor(at), int64), last)
    right = minimum(add(left, 1), last)
    return left, right, sub(at, to_dtype(left, dtype))


def linear_decompose(
    input: Any,
    dim: int,
    size: Any,
    scale: float | None = None,
    align_corners: bool = False,  # noqa: A002, E501
) -> Any:
    dtype = float64 if input.dtype is float64 else float32
    left, right, weight = linear_places(input.shape[dim], size, scale, align_corners, dtype)
    weight = reshape(weight, tuple(size if d == dim else 1 for d in range(input.ndim)))
    near, far = index_select(input, dim, left), index_select(input, dim, right)
    return add(mul(near, sub(1.0, weight)), mul(far, weight))


def linear_reference(
    x: np.ndarray, dim: int, size: int, scale: float | None, align_corners: bool
) -> np.ndarray:
    have = x.shape[dim]
    at = np.arange(size, dtype=np.float64)
    if align_corners:
        at = at * (have - 1) / max(size - 1, 1)
    else:
        at = np.maximum((at + 0.5) * (have / size if scale is None else scale) - 0.5, 0)
    left = np.minimum(np.floor(at).astype(np.int64), have - 1)
    right = np.minimum(left + 1, have - 1)
    weight = (at - left).reshape([size if d == dim else 1 for d in range(x.ndim)])
    return np.take(x, left, dim) * (1 - weight) + np.take(x, right, dim) * weight


def linear_samples(rng: Rng) -> list[Sample]:
    cases = [(1, 7, None, False), (1, 3, None, True), (0, 5, 0.4, False), (1, 1, None, True)]
    names = ("dim", "size", "scale", "align_corners")
    return [Sample((array(rng, 2, 5),), dict(zip(names, c, strict=True))) for c in cases]


resize_linear = composite(
    "resize_linear",
    "Another size along dim, between the two nearest elements.",
    (Arg("input"), Dim("dim"), Size("size"), Attr("scale", None), Attr("align_corners", False)),
    linear_decompose,
    linear_reference,
    shape=resized_shape,
    dtype=float_dtype,
    samples=linear_samples,
)

PATCHES = (Attr("kernel_size"), Attr("dilation"), Attr("padding"), Attr("stride"))


def _counts(space: Any, call: Any) -> list[Any]:
    parts = zip(
        space, call["kernel_size"], call["dilation"], call["padding"], call["stride"], strict=True
    )
    return [window_count(n + 2 * p, k, s, d) for n, k, d, p, s in parts]


def im2col_shape(call: Call) -> Shape:
    batch, channels, *space = call["input"].shape
    inner = channels * product(call["kernel_size"])
    return (batch, inner, product(_counts(space, call)))


def im2col_decompose(
    input: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,  # noqa: A002
) -> Any:
    padded = pad_space(input, padding, padding, 0)
    windows = permute(windows_of(padded, kernel_size, stride, dilation), (0, 1, 4, 5, 2, 3))
    batch, channels, kh, kw, height, width = windows.shape
    return reshape(windows, (batch, channels * kh * kw, height * width))


def im2col_reference(x: np.ndarray, kernel_size: Any, dilation: Any, padding: Any,
                     stride: Any) -> np.ndarray:  # fmt: skip
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    reach = [(k - 1) * d + 1 for k, d in zip(kernel_size, dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    batch, channels, height, width, kh, kw = windows.shape
    return windows.transpose(0, 1, 4, 5, 2, 3).reshape(batch, channels * kh * kw, height * width)


PATCH_CASES = [
    {"kernel_size": (2, 3), "dilation": (1, 1), "padding": (0, 1), "stride": (2, 1)},
    {"kernel_size": (2, 2), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)},
]
im2col = composite(
    "im2col",
    "All patches of a batch of images as columns (nn.functional.unfold).",
    (Arg("input"), *PATCHES),
    im2col_decompose,
    im2col_reference,
    shape=im2col_shape,
    dtype=operand_dtype,
    compute_f32=False,
    samples=lambda rng: [Sample((array(rng, 2, 2, 5, 4),), case) for case in PATCH_CASES],
)


def col2im_shape(call: Call) -> Shape:
    batch, inner, _ = call["input"].shape
    return (batch, inner // product(call["kernel_size"]), *call["output_size"])


def col2im_decompose(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,  # noqa: A002, E501
) -> Any:
    settings = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding}
    counts = _counts(output_size, settings | {"stride": stride})
    batch, inner, _ = input.shape
    channels = inner // product(kernel_size)
    windows = reshape_to(input, input.shape, (batch, channels, *kernel_size, *counts))
    windows = permute(windows, (0, 1, 4, 5, 2, 3))
    padded = [n + 2 * p for n, p in zip(output_size, padding, strict=True)]
    rows = fold_windows(windows, 3, padded[1], stride[1], dilation[1])
    image = fold_windows(rows, 2, padded[0], stride[0], dilation[0])
    lengths = (batch, channels, *output_size)
    return image if image.shape == lengths else slice_(image, (0, 0, *padding), lengths, (1,) * 4)


def col2im_reference(x: np.ndarray, output_size: Any, kernel_size: Any, dilation: Any,
                     padding: Any, stride: Any) -> np.ndarray:  # fmt: skip
    settings = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding}
    counts = _counts(output_size, settings | {"stride": stride})
    windows = x.reshape(x.shape[0], -1, *kernel_size, *counts)
    padded = [n + 2 * p for n, p in zip(output_size, padding, strict=True)]
    image = np.zeros((*windows.shape[:2], *padded), x.dtype)
    for i, j in np.ndindex(*kernel_size):
        rows = slice(i * dilation[0], i * dilation[0] + (counts[0] - 1) * stride[0] + 1, stride[0])
        lines = slice(j * dilation[1], j * dilation[1] + (counts[1] - 1) * stride[1] + 1, stride[1])
        image[:, :, rows, lines] += windows[:, :, i, j]
    top, left = padding
    return image[:, :, top : top + output_size[0], left : left + output_size[1]]


def col2im_samples(rng: Rng) -> list[Sample]:
    found = []
    for case in PATCH_CASES:
        columns = math.prod(_counts((5, 4), case))
        x = array(rng, 2, 2 * math.prod(case["kernel_size"]), columns)
        found.append(Sample((x,), {"output_size": (5, 4), **case}))
    return found


col2im = composite(
    "col2im",
    "Columns added up into images: im2col the other way (nn.functional.fold).",
    (Arg("input"), Sizes("output_size"), *PATCHES),
    col2im_decompose,
    col2im_reference,
    shape=col2im_shape,
    dtype=operand_dtype,
    compute_f32=False,
    samples=col2im_samples,
)
