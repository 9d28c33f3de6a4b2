"""Transposed convolutions: the input gradient of a convolution, as an op of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, OpDef
from rushlight.ops.binary import add
from rushlight.ops.build import conj_of, slice_dim, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.conv import check_bias, correlate, per_channel, spread_back, weight_back
from rushlight.ops.meta import Meta
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import Shape, common_dtype, is_static
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.window import pad_space


def _space(x: Shape, kernel: Shape, settings: Any) -> list[Any]:
    stride, padding, output_padding, dilation = settings
    parts = zip(x, kernel, stride, padding, output_padding, dilation, strict=True)
    return [(n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, k, s, p, extra, d in parts]


def transpose_shape(call: Call) -> Shape:
    x, weight = call["input"].shape, call["weight"].shape
    names = ("stride", "padding", "output_padding", "dilation")
    space = _space(x[2:], weight[2:], [call[name] for name in names])
    return (x[0], weight[1] * call["groups"], *space)


def transpose_decompose(
    input: Any,  # noqa: A002
    weight: Any,
    bias: Any = None,
    stride: Any = (1,),
    padding: Any = (0,),
    output_padding: Any = (0,),
    groups: int = 1,
    dilation: Any = (1,),
) -> Any:
    space = _space(input.shape[2:], weight.shape[2:], (stride, padding, output_padding, dilation))
    if bias is None:
        return spread_back(input, weight, space, stride, padding, dilation, groups)
    dtype, wide = input.dtype, input.dtype.compute  # one rounding, after the sum
    input, weight, bias = (to_dtype(x, wide) for x in (input, weight, bias))  # noqa: A001
    out = spread_back(input, weight, space, stride, padding, dilation, groups)
    return to_dtype(add(out, per_channel(bias, out.ndim)), dtype)


def transpose_grad(
    g: Any,
    input: Any,  # noqa: A002
    weight: Any,
    stride: Any,
    padding: Any,
    groups: int,
    dilation: Any,
    meta: Meta,
) -> tuple:
    """A convolution's gradients with input and gradient in each other's place."""
    by_input = by_weight = by_bias = None
    space = meta.shape("input")[2:]
    if meta.needs("input"):
        turned = conj_of(weight)
        out = correlate(pad_space(g, padding, padding, 0), turned, stride, dilation, groups)
        for i, size in enumerate(space):
            if out.shape[2 + i] != size:
                out = slice_dim(out, out.shape, 2 + i, 0, size)
        by_input = out
    if meta.needs("weight"):
        kernel = meta.shape("weight")[2:]
        by_weight = weight_back(conj_of(input), g, kernel, stride, padding, dilation, groups)
    if meta.needs("bias"):
        by_bias = reduce_sum(g, (0, *range(2, g.ndim)))
    return by_input, by_weight, by_bias


def transpose_reference(
    x: np.ndarray, weight: np.ndarray, bias: Any, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> np.ndarray:  # fmt: skip
    space = _space(x.shape[2:], weight.shape[2:], (stride, padding, output_padding, dilation))
    full = [n + 2 * p for n, p in zip(space, padding, strict=True)]
    split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    rows = weight.reshape(groups, x.shape[1] // groups, *weight.shape[1:])
    total = np.zeros((x.shape[0], groups, weight.shape[1], *full), x.dtype)
    for tap in np.ndindex(*weight.shape[2:]):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, x.shape[2:], stride, strict=True)
        )
        part = np.einsum("ngc...,gco->ngo...", split, rows[(slice(None),) * 3 + tap])
        total[(slice(None),) * 3 + at] += part
    total = total.reshape(x.shape[0], -1, *full)
    inside = tuple(slice(p, p + n) for p, n in zip(padding, space, strict=True))
    total = total[(slice(None),) * 2 + inside]
    return total if bias is None else total + bias.reshape(-1, *(1,) * len(space))


def check_transpose(call: Call) -> None:
    x, weight = call["input"].shape, call["weight"].shape
    spatial = int(call.op.name[-2])
    if len(x) != spatial + 2:
        raise RuntimeError(
            f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to "
            f"{call.op.name}, but got input of size: {list(x)}"
        )
    if is_static(x[1]) and is_static(weight[0]) and x[1] != weight[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight)}, expected input{list(x)} to have "
            f"{weight[0]} channels, but got {x[1]} channels instead"
        )
    check_bias(call, "transposed=1, ", weight[1] * call["groups"])
    space = transpose_shape(call)[2:]
    if any(is_static(size) and size < 1 for size in space):
        given, found = (" x ".join(map(str, sizes)) for sizes in (x[2:], space))
        raise RuntimeError(
            f"Given input size per channel: ({given}). Calculated output size per channel: "
            f"({found}). Output size is too small"
        )


def transpose_samples(spatial: int) -> Any:
    settings = [(1, 0, 0, 1, 1), (2, 1, 1, 2, 1), (3, 2, 0, 1, 2)]

    def build(rng: Rng) -> list[Sample]:
        found = []
        for stride, padding, extra, groups, dilation in settings[: 4 - spatial]:
            attrs = {"stride": (stride,) * spatial, "padding": (padding,) * spatial}
            attrs |= {"output_padding": (extra,) * spatial, "dilation": (dilation,) * spatial}
            x = array(rng, 2, 4, *(4, 5, 3)[:spatial])
            weight = array(rng, 4, 2, *(2, 3, 2)[:spatial])
            bias = None if groups == 2 else array(rng, 2)
            found.append(Sample((x, weight, bias), attrs | {"groups": groups}))
        return found

    return build


def _transpose(spatial: int) -> OpDef:
    one, none = (1,) * spatial, (0,) * spatial
    return composite(
        f"conv_transpose{spatial}d",
        f"The transpose of conv{spatial}d: every input element spreads weight over the output.",
        (
            Arg("input"),
            Arg("weight"),
            Arg("bias", optional=True),
            Attr("stride", one),
            Attr("padding", none),
            Attr("output_padding", none),
            Attr("groups", 1),
            Attr("dilation", one),
        ),
        transpose_decompose,
        transpose_reference,
        transpose_grad,
        shape=transpose_shape,
        dtype=common_dtype,
        compute_f32=False,
        check=check_transpose,
        samples=transpose_samples(spatial),
        error_samples=(
            ErrorSample(
                (np.ones((1, 3, *(4,) * spatial)), np.ones((2, 2, *(2,) * spatial)), None),
                {},
                RuntimeError,
                "channels instead",
            ),
            ErrorSample(
                (np.ones((1, 1, *(2,) * spatial)), np.ones((1, 1, *(2,) * spatial)), None),
                {"padding": (2,) * spatial},
                RuntimeError,
                "Output size is too small",
            ),
        ),
    )


conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transpose, (1, 2, 3))
