"""Pools over [N, C, *space] in 1, 2 and 3 dims: windows, then a reduction of each.

Settings are tuples, one entry per spatial dim. With ceil_mode a last window may reach past the
padding, if it starts inside the input or the padding before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.complex_operands import refusal
from rushlight.ir.opdef import (
    FROM_DECOMPOSITION,
    Arg,
    Attr,
    Call,
    NotDifferentiable,
    OpDef,
    Sizes,
)
from rushlight.ops.best_tap import numpy_best_tap
from rushlight.ops.binary import add, floor_divide, ge, logical_and, lt, mul
from rushlight.ops.build import full, iota_along, size_value, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.movement import pad, permute, reshape, slice_
from rushlight.ops.pool_windows import (
    max_pool_decompose,
    max_pool_grad,
    max_pool_places,
    pooled_size,
    pooled_space,
    pooled_windows,
    settings_of,
)
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import Shape, const, float_dtype, is_static, operand_dtype
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.select import where
from rushlight.ops.unary import abs_, sign
from rushlight.ops.window import unfold


def _numpy_windows(x: np.ndarray, fill: Any, settings: tuple) -> np.ndarray:
    kernel, stride, padding, dilation, ceil_mode = settings
    spatial = x.ndim - 2
    counts = pooled_space(x.shape[2:], *settings)
    wide = [(0, 0), (0, 0)]
    for n, size, k, s, p, d in zip(
        counts, x.shape[2:], kernel, stride, padding, dilation, strict=True
    ):
        wide.append((p, max(p, (n - 1) * s + (k - 1) * d + 1 - size - p)))
    x = np.pad(x, wide, constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    x = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, 2 + spatial)))
    starts = tuple(slice(0, (n - 1) * s + 1, s) for n, s in zip(counts, stride, strict=True))
    taps = tuple(slice(None, None, d) for d in dilation)
    return x[(slice(None),) * 2 + starts + taps]


def _window_axes(ndim: int) -> tuple[int, ...]:
    return tuple(range(ndim, 2 * ndim - 2))


def max_pool_reference(input: np.ndarray, **settings: Any) -> np.ndarray:  # noqa: A002
    windows = _numpy_windows(input, -np.inf, settings_of(**settings))
    return windows.max(_window_axes(input.ndim)).astype(input.dtype)


def max_pool_index_reference(input: np.ndarray, **settings: Any) -> np.ndarray:  # noqa: A002
    where_from = np.broadcast_to(
        np.arange(math.prod(input.shape[2:])).reshape(input.shape[2:]), input.shape
    )
    windows = _numpy_windows(input, -np.inf, settings_of(**settings))
    places = _numpy_windows(where_from.astype(np.float64), -1, settings_of(**settings))
    lead = windows.shape[: input.ndim]
    places = places.reshape(*lead, -1)
    best = numpy_best_tap(windows.reshape(*lead, -1), -1, True)
    found = np.take_along_axis(places, best, -1)
    # Nothing but the least number: the first that is no padding.
    inside = np.take_along_axis(places, (places >= 0).argmax(-1)[..., None], -1)
    found = np.where(found < 0, inside, found)
    return found[..., 0].astype(np.int64)


def check_pool(call: Call) -> None:
    spatial = int(call.op.name.removesuffix("_index")[-2])
    shape = call["input"].shape
    if len(shape) != spatial + 2:
        raise RuntimeError(
            f"{call.op.name}: Expected {spatial + 1}D or {spatial + 2}D (batch mode) tensor, "
            f"got shape {list(shape)}"
        )
    for kernel, padding in zip(call["kernel_size"], call["padding"], strict=True):
        if padding > kernel // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={padding}, "
                f"kernel_size={kernel} and dilation=1"
            )


def pool_shape(call: Call) -> Shape:
    shape, spatial = call["input"].shape, len(call["kernel_size"])
    named = call.named
    space = pooled_space(
        shape[2:], call["kernel_size"], call["stride"], call["padding"],
        named.get("dilation", (1,) * spatial), call["ceil_mode"],
    )  # fmt: skip
    for size in space:
        if is_static(size) and size < 1:
            raise RuntimeError(
                f"Given input size: {list(shape[1:])}. Calculated output size: "
                f"{[shape[1], *space]}. Output size is too small"
            )
    return (*shape[:2], *space)


def pool_samples(spatial: int, dilated: bool, **more: Any) -> Any:
    settings = [(2, 2, 0, 1, False), (3, 2, 1, 1, True), (2, 1, 1, 2, False)]

    def build(rng: Rng) -> list[Sample]:
        found = []
        for kernel, stride, padding, dilation, ceil_mode in settings[: 4 - spatial]:
            attrs: dict[str, Any] = {"kernel_size": (kernel,) * spatial}
            attrs |= {"stride": (stride,) * spatial, "padding": (padding,) * spatial}
            attrs |= {"ceil_mode": ceil_mode, **more}
            if dilated:
                attrs["dilation"] = (dilation,) * spatial
            found.append(Sample((array(rng, 2, 2, *(6, 5, 4)[:spatial]),), attrs))
        return found

    return build


def _max_pool(spatial: int) -> tuple[OpDef, OpDef]:
    one, none = (1,) * spatial, (0,) * spatial
    inputs = (
        Arg("input"), Attr("kernel_size"), Attr("stride"), Attr("padding", none),
        Attr("dilation", one), Attr("ceil_mode", False),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "shape": pool_shape,
        "compute_f32": False,
        "check": check_pool,
        "samples": pool_samples(spatial, True),
        "error_samples": (
            ErrorSample(
                (np.ones((1, 1, *(4,) * spatial)),),
                {"kernel_size": (2,) * spatial, "stride": one, "padding": (2,) * spatial},
                RuntimeError,
                "at most half",
            ),
        ),
    }
    values = composite(
        f"max_pool{spatial}d", "The largest element of every window.", inputs, max_pool_decompose,
        max_pool_reference, max_pool_grad, dtype=operand_dtype, **fields,
    )  # fmt: skip
    places = composite(
        f"max_pool{spatial}d_index", "Where in the flat space each window's largest element is.",
        inputs, max_pool_places, max_pool_index_reference,
        NotDifferentiable("the output is a position"), dtype=lambda call: int64, **fields,
    )  # fmt: skip
    return values, places


(max_pool1d, max_pool1d_index), (max_pool2d, max_pool2d_index), (max_pool3d, max_pool3d_index) = (
    map(_max_pool, (1, 2, 3))
)


def window_counts(x: Any, settings: tuple, include_pad: bool) -> Any:
    """How many elements of the input (or of it and its padding) are in each window."""
    kernel, stride, padding, _, ceil_mode = settings
    spatial = x.ndim - 2
    if all(is_static(s) for s in x.shape) and include_pad and not ceil_mode:
        return full((), math.prod(kernel), x.dtype)
    total = None
    for i in range(spatial):
        inside = x.shape[2 + i] + (2 * padding[i] if include_pad else 0)
        around = 0 if include_pad else padding[i]
        count = pooled_size(x.shape[2 + i], kernel[i], stride[i], padding[i], 1, ceil_mode)
        line = full((inside,), 1, x.dtype)
        # Room for the last window wherever it starts; windows too many are cut off below.
        after = padding[i] + stride[i]
        line = pad(line, const(0, x.dtype), (around,), (after,), (0,))
        sums = reduce_sum(unfold(line, 0, kernel[i], stride[i]), (1,))
        if sums.shape[0] != count:
            sums = slice_(sums, (0,), (count,), (1,))
        sums = reshape(sums, tuple(count if j == i else 1 for j in range(spatial)))
        total = sums if total is None else mul(total, sums)
    return total


def avg_pool_decompose(
    input: Any,  # noqa: A002
    kernel_size: Any,
    stride: Any,
    padding: Any = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    spatial = input.ndim - 2
    settings = (kernel_size, stride, padding, (1,) * spatial, ceil_mode)
    windows = pooled_windows(input, 0, settings)
    total = reduce_sum(windows, tuple(range(2 + spatial, 2 + 2 * spatial)))
    if divisor_override is not None:
        return _share(total, const(divisor_override, total.dtype))
    return _share(total, window_counts(input, settings, count_include_pad))


def _share(total: Any, count: Any) -> Any:
    """The quotient; of whole numbers cut toward zero."""
    if total.dtype.is_inexact:
        return total / count
    return mul(mul(sign(total), sign(count)), floor_divide(abs_(total), abs_(count)))


def mean_dtype(call: Call) -> Any:
    """Floats, and the one whole dtype that PyTorch averages."""
    dtype = operand_dtype(call)
    if dtype.kind != "float" and dtype is not int64:
        raise NotImplementedError(refusal(call.op.name, dtype))
    return dtype


def avg_pool_reference(
    x: np.ndarray, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> np.ndarray:  # fmt: skip
    settings = (kernel_size, stride, padding, (1,) * (x.ndim - 2), ceil_mode)
    axes = _window_axes(x.ndim)
    total = _numpy_windows(x, 0, settings).sum(axes)
    if divisor_override is not None:
        return total / divisor_override
    ones = np.ones_like(x)
    if count_include_pad:
        wide = [(0, 0), (0, 0), *((p, p) for p in padding)]
        inner = (kernel_size, stride, (0,) * len(padding), settings[3], ceil_mode)
        windows = _numpy_windows(np.pad(ones, wide, constant_values=1), 0, inner)
        counts = windows.sum(axes)[tuple(slice(0, n) for n in total.shape)]
    else:
        counts = _numpy_windows(ones, 0, settings).sum(axes)
    return total / counts


def _avg_pool(spatial: int) -> OpDef:
    first = pool_samples(spatial, False, count_include_pad=True, divisor_override=None)
    second = pool_samples(spatial, False, count_include_pad=False, divisor_override=None)
    third = pool_samples(spatial, False, count_include_pad=False, divisor_override=3)
    return composite(
        f"avg_pool{spatial}d",
        "The mean of every window.",
        (
            Arg("input"), Attr("kernel_size"), Attr("stride"), Attr("padding", (0,) * spatial),
            Attr("ceil_mode", False), Attr("count_include_pad", True),
            Attr("divisor_override", None),
        ),
        avg_pool_decompose,
        avg_pool_reference,
        FROM_DECOMPOSITION,
        shape=pool_shape,
        dtype=mean_dtype,
        check=check_pool,
        samples=lambda rng: first(rng) + second(rng) + third(rng)[:1],
    )  # fmt: skip


avg_pool1d, avg_pool2d, avg_pool3d = map(_avg_pool, (1, 2, 3))


def adaptive_decompose(input: Any, output_size: tuple[Any, ...]) -> Any:  # noqa: A002
    """Blocks where the size divides, all dims at once; else one dim after the other: a mask of
    every window."""
    blocks, inside, elements = [*input.shape[:2]], [], 1
    for i, count in enumerate(output_size):
        size = input.shape[2 + i]
        divides = is_static(size) and is_static(count) and count and size % count == 0
        if count == size or not divides:
            blocks.append(size)
            continue
        blocks += (count, size // count)
        inside.append(len(blocks) - 1)
        elements *= size // count
    if inside:
        input = reduce_sum(reshape(input, tuple(blocks)), tuple(inside)) / float(elements)  # noqa: A001
    for i, count in enumerate(output_size):
        if input.shape[2 + i] != count:
            input = _adaptive_dim(input, 2 + i, count)  # noqa: A001
    return input


def _adaptive_dim(x: Any, dim: int, count: Any) -> Any:
    """Window i is floor(i * size / count) up to ceil((i + 1) * size / count)."""
    size = x.shape[dim]
    i, j = iota_along(2, 0, count), iota_along(2, 1, size)
    length, many = size_value(size), size_value(count)
    start = floor_divide(mul(i, length), many)
    end = floor_divide(add(mul(add(i, 1), length), add(many, -1)), many)
    inside = logical_and(ge(j, start), lt(j, end))
    last = (*(d for d in range(x.ndim) if d != dim), dim)
    lines = permute(x, last)
    lines = reshape(lines, (*lines.shape[:-1], 1, size))
    total = reduce_sum(where(inside, lines, 0.0), (x.ndim,))
    total = total / reshape(to_dtype(add(end, mul(start, -1)), x.dtype), (count,))
    return permute(total, (*range(dim), x.ndim - 1, *range(dim, x.ndim - 1)))


def adaptive_reference(x: np.ndarray, output_size: tuple[int, ...]) -> np.ndarray:
    for i, count in enumerate(output_size):
        size, dim = x.shape[2 + i], 2 + i
        parts = [
            x.take(range(k * size // count, -(-(k + 1) * size // count)), dim).mean(dim)
            for k in range(count)
        ]
        x = np.stack(parts, dim)
    return x


def _adaptive(spatial: int) -> OpDef:
    return composite(
        f"adaptive_avg_pool{spatial}d",
        "Means of windows spread evenly, so many as asked for.",
        (Arg("input"), Sizes("output_size")),
        adaptive_decompose,
        adaptive_reference,
        shape=lambda call: (*call["input"].shape[:2], *call["output_size"]),
        dtype=float_dtype,
        samples=lambda rng: [
            Sample((array(rng, 2, 2, *(6, 5, 4)[:spatial]),), {"output_size": (n,) * spatial})
            for n in (1, 2, 3)
        ],
    )


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive, (1, 2, 3))
