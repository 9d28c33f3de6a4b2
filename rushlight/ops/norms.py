"""Normalizations. Statistics are in float32 for narrow floats; a hand gradient recomputes them
from the input, so nothing but operands is saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, Value
from rushlight.ops.binary import add, maximum, mul
from rushlight.ops.build import conj_of, count_value, keep, like, sum_to_shape
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import float_dtype, is_static, operand_dtype, operand_shape
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.statistics import norm as p_norm
from rushlight.ops.unary import rsqrt

EPS = Value("eps", 1e-5)


def mean_over(x: Any, dims: Sequence[int]) -> Any:
    """The mean, with the dims kept as 1."""
    count = count_value([x.shape[d] for d in dims], x.dtype)
    return keep(reduce_sum(x, tuple(dims)), x.shape, dims) / count


def standardized(x: Any, dims: Sequence[int], eps: Any) -> tuple[Any, Any]:
    """((x - mean) * rstd, rstd) over dims."""
    off = x - mean_over(x, dims)
    rstd = rsqrt(mean_over(off * off, dims) + like(eps, x.dtype))
    return off * rstd, rstd


def standardized_grad(g: Any, unit: Any, rstd: Any, dims: Sequence[int]) -> Any:
    """The gradient through standardized: g less its mean and its part along the output."""
    return rstd * (g - mean_over(g, dims) - unit * mean_over(g * unit, dims))


def last_dims(ndim: int, count: int) -> tuple[int, ...]:
    return tuple(range(ndim - count, ndim))


def layer_norm_decompose(
    input: Any,
    weight: Any = None,
    bias: Any = None,
    normalized_ndim: int = 1,
    eps: Any = 1e-5,  # noqa: A002, E501
) -> Any:
    out, _ = standardized(input, last_dims(input.ndim, normalized_ndim), eps)
    out = out if weight is None else mul(out, weight)
    return out if bias is None else add(out, bias)


def layer_norm_grad(
    g: Any,
    input: Any,
    weight: Any,
    normalized_ndim: int,
    eps: Any,
    meta: Meta,  # noqa: A002
) -> tuple:
    shape = meta.shape("input")
    unit, rstd = standardized(input, last_dims(len(shape), normalized_ndim), eps)
    inner = g if weight is None else g * weight
    by_input = by_weight = by_bias = None
    if meta.needs("input"):
        by_input = standardized_grad(inner, unit, rstd, last_dims(len(shape), normalized_ndim))
    if meta.needs("weight"):
        by_weight = sum_to_shape(g * unit, shape, meta.shape("weight"))
    if meta.needs("bias"):
        by_bias = sum_to_shape(g, shape, meta.shape("bias"))
    return by_input, by_weight, by_bias


def check_layer_norm(call: Call) -> None:
    shape, count = call["input"].shape, call["normalized_ndim"]
    inner = shape[len(shape) - count :]
    if count < 1 or count > len(shape):
        raise RuntimeError(
            f"Expected normalized_shape to be at least 1-dimensional and within input of size "
            f"{list(shape)}, got {count} dims"
        )
    for name in ("weight", "bias"):
        node = call.named.get(name)
        if node is not None and node.shape != inner and all(map(is_static, node.shape + inner)):
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(node.shape)} and normalized_shape = {list(inner)}"
            )


def numpy_standard(x: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axes, keepdims=True) + eps)


def affine(x: np.ndarray, weight: Any, bias: Any) -> np.ndarray:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def layer_norm_reference(
    x: np.ndarray, weight: Any, bias: Any, eps: float, normalized_ndim: int
) -> np.ndarray:
    return affine(numpy_standard(x, last_dims(x.ndim, normalized_ndim), eps), weight, bias)


def layer_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 3, 4), array(rng, 4), array(rng, 4), 1e-5), {"normalized_ndim": 1}),
        Sample((array(rng, 2, 3, 4), array(rng, 3, 4), None, 1e-3), {"normalized_ndim": 2}),
        Sample((array(rng, 2, 5), None, None, 1e-5), {"normalized_ndim": 1}),
    ]


layer_norm = composite(
    "layer_norm",
    "Mean 0 and variance 1 over the last dims, then weight and bias.",
    (
        Arg("input"),
        Arg("weight", optional=True),
        Arg("bias", optional=True),
        Attr("normalized_ndim", 1),
        EPS,
    ),
    layer_norm_decompose,
    layer_norm_reference,
    layer_norm_grad,
    shape=operand_shape,
    dtype=operand_dtype,
    check=check_layer_norm,
    samples=layer_samples,
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones(2), None, 1e-5), {}, RuntimeError, "same shape as"),
    ),
    pair='"LayerNormKernelImpl"',
)


def rms_norm_decompose(
    input: Any,
    weight: Any = None,
    normalized_ndim: int = 1,
    eps: Any = 1e-5,  # noqa: A002
) -> Any:
    dims = last_dims(input.ndim, normalized_ndim)
    out = input * rsqrt(mean_over(input * input, dims) + like(eps, input.dtype))
    return out if weight is None else mul(out, weight)


def rms_norm_grad(
    g: Any,
    input: Any,
    weight: Any,
    normalized_ndim: int,
    eps: Any,
    meta: Meta,  # noqa: A002
) -> tuple:
    shape = meta.shape("input")
    dims = last_dims(len(shape), normalized_ndim)
    input = conj_of(input)  # noqa: A001
    weight = weight if weight is None else conj_of(weight)
    rstd = rsqrt(mean_over(input * input, dims) + like(eps, input.dtype))
    unit = input * rstd
    inner = g if weight is None else g * weight
    by_input = rstd * (inner - unit * mean_over(inner * unit, dims))
    by_weight = (
        sum_to_shape(g * unit, shape, meta.shape("weight")) if meta.needs("weight") else None
    )
    return by_input, by_weight


rms_norm = composite(
    "rms_norm",
    "Divide by the root of the mean square over the last dims, then weight.",
    (Arg("input"), Arg("weight", optional=True), Attr("normalized_ndim", 1), EPS),
    rms_norm_decompose,
    lambda x, weight, eps, normalized_ndim: affine(
        x / np.sqrt((x * x).mean(last_dims(x.ndim, normalized_ndim), keepdims=True) + eps),
        weight,
        None,
    ),
    rms_norm_grad,
    shape=operand_shape,
    dtype=operand_dtype,
    check=check_layer_norm,
    samples=lambda rng: [
        Sample((s.args[0], s.args[1], s.args[3]), s.attrs) for s in layer_samples(rng)
    ],
)


def normalize_decompose(input: Any, p: float = 2.0, dim: int = 1, eps: Any = 1e-12) -> Any:  # noqa: A002, E501
    size = p_norm(input, p, (dim,), True)
    return input / maximum(size, like(eps, input.dtype))


normalize = composite(
    "normalize",
    "Divide by the p-norm along dim, but not by less than eps.",
    (Arg("input"), Attr("p", 2.0), Attr("dim", 1), Value("eps", 1e-12)),
    normalize_decompose,
    lambda x, eps, p, dim: (
        x / np.maximum(np.sum(np.abs(x) ** p, axis=dim, keepdims=True) ** (1 / p), eps)
    ),
    shape=operand_shape,
    dtype=float_dtype,
    torch=("nn.functional.normalize",),
    samples=lambda rng: [
        Sample((array(rng, 3, 4), 1e-12), {"p": 2.0, "dim": 1}),
        Sample((array(rng, 3, 4), 1e-12), {"p": 3.0, "dim": 0}),
    ],
)
