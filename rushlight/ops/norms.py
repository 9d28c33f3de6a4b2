"""Normalizations. Statistics are in float32 for narrow floats; a hand gradient recomputes them
from the input, so nothing but operands is saved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, Value
from rushlight.ir.symint import product
from rushlight.ops.binary import add, maximum, mul
from rushlight.ops.build import keep, like, size_value, sum_to_shape
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.reductions import norm as p_norm
from rushlight.ops.rules import Shape, float_dtype, is_static, operand_dtype, operand_shape
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.unary import rsqrt

EPS = Value("eps", 1e-5)


def mean_over(x: Any, dims: Sequence[int]) -> Any:
    """The mean, with the dims kept as 1."""
    count = size_value(product(x.shape[d] for d in dims), x.dtype)
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


def _numpy_standard(x: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axes, keepdims=True) + eps)


def _affine(x: np.ndarray, weight: Any, bias: Any) -> np.ndarray:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def layer_norm_reference(
    x: np.ndarray, weight: Any, bias: Any, eps: float, normalized_ndim: int
) -> np.ndarray:
    return _affine(_numpy_standard(x, last_dims(x.ndim, normalized_ndim), eps), weight, bias)


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
    lambda x, weight, eps, normalized_ndim: _affine(
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


def channel(x: Any, ndim: int) -> Any:
    """A vector over dimension 1 of an ndim-dimensional value."""
    return reshape(x, (1, *x.shape, *(1,) * (ndim - 2)))


def batch_dims(ndim: int) -> tuple[int, ...]:
    return (0, *range(2, ndim))


def scaled(out: Any, weight: Any, bias: Any) -> Any:
    out = out if weight is None else mul(out, channel(weight, out.ndim))
    return out if bias is None else add(out, channel(bias, out.ndim))


def batch_norm_decompose(input: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:  # noqa: A002, E501
    out, _ = standardized(input, batch_dims(input.ndim), eps)
    return scaled(out, weight, bias)


def batch_norm_grad(g: Any, input: Any, weight: Any, eps: Any, meta: Meta) -> tuple:  # noqa: A002
    dims = batch_dims(meta.ndim("input"))
    unit, rstd = standardized(input, dims, eps)
    inner = g if weight is None else g * channel(weight, len(dims) + 1)
    return (
        standardized_grad(inner, unit, rstd, dims) if meta.needs("input") else None,
        reduce_sum(g * unit, dims) if meta.needs("weight") else None,
        reduce_sum(g, dims) if meta.needs("bias") else None,
    )


def _numpy_channel(x: Any, ndim: int) -> Any:
    return None if x is None else x.reshape(1, -1, *(1,) * (ndim - 2))


def batch_norm_reference(x: np.ndarray, weight: Any, bias: Any, eps: float) -> np.ndarray:
    unit = _numpy_standard(x, batch_dims(x.ndim), eps)
    return _affine(unit, _numpy_channel(weight, x.ndim), _numpy_channel(bias, x.ndim))


def check_batch_norm(call: Call) -> None:
    shape = call["input"].shape
    if len(shape) < 2:
        raise RuntimeError(f"{call.op.name}: expected at least 2 dims, got {len(shape)}")
    for name in ("weight", "bias", "running_mean", "running_var"):
        node = call.named.get(name)
        if node is None or not is_static(shape[1]) or not all(map(is_static, node.shape)):
            continue
        if node.shape != (shape[1],):
            raise RuntimeError(
                f"{name} should contain {shape[1]} elements not {math.prod(node.shape)}"
            )
    if call.op.name == "batch_norm":
        count = product(shape[d] for d in batch_dims(len(shape)))
        if count == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size "
                f"torch.Size({list(shape)})"
            )


def batch_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 4, 3), array(rng, 3), array(rng, 3), 1e-5)),
        Sample((array(rng, 2, 3, 2, 2), None, None, 1e-3)),
    ]


batch_norm = composite(
    "batch_norm",
    "Mean 0 and variance 1 per channel (dim 1) over this batch, then weight and bias.",
    (Arg("input"), Arg("weight", optional=True), Arg("bias", optional=True), EPS),
    batch_norm_decompose,
    batch_norm_reference,
    batch_norm_grad,
    shape=operand_shape,
    dtype=operand_dtype,
    check=check_batch_norm,
    samples=batch_samples,
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones(2), None, 1e-5), {}, RuntimeError, "should contain"),
        ErrorSample((np.ones((1, 3)), None, None, 1e-5), {}, ValueError, "more than 1 value"),
    ),
)


def inference_decompose(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,  # noqa: A002, E501
    eps: Any = 1e-5,
) -> Any:  # fmt: skip
    rstd = rsqrt(running_var + like(eps, running_var.dtype))
    out = mul(input - channel(running_mean, input.ndim), channel(rstd, input.ndim))
    return scaled(out, weight, bias)


batch_norm_inference = composite(
    "batch_norm_inference",
    "Normalize per channel with given statistics, then weight and bias.",
    (
        Arg("input"),
        Arg("running_mean"),
        Arg("running_var"),
        Arg("weight", optional=True),
        Arg("bias", optional=True),
        EPS,
    ),
    inference_decompose,
    lambda x, mean, var, weight, bias, eps: _affine(
        (x - _numpy_channel(mean, x.ndim)) / np.sqrt(_numpy_channel(var, x.ndim) + eps),
        _numpy_channel(weight, x.ndim),
        _numpy_channel(bias, x.ndim),
    ),
    shape=operand_shape,
    dtype=operand_dtype,
    check=check_batch_norm,
    samples=lambda rng: [
        Sample(
            (
                array(rng, 2, 3, 4), array(rng, 3), array(rng, 3, low=0.5), array(rng, 3),
                array(rng, 3), 1e-5,
            )
        )
    ],
)  # fmt: skip


def check_group_norm(call: Call) -> None:
    shape, groups = call["input"].shape, call["num_groups"]
    if is_static(shape[1]) and shape[1] % groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(shape)} and num_groups={groups}"
        )
    check_batch_norm(call)


def _grouped(shape: Shape, groups: int) -> Shape:
    return (shape[0], groups, product(shape[1:]) // groups)


def group_norm_decompose(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: Any = 1e-5,  # noqa: A002
) -> Any:
    out, _ = standardized(reshape(input, _grouped(input.shape, num_groups)), (2,), eps)
    return scaled(reshape(out, input.shape), weight, bias)


def group_norm_grad(
    g: Any,
    input: Any,
    weight: Any,
    num_groups: int,
    eps: Any,
    meta: Meta,  # noqa: A002
) -> tuple:
    shape = meta.shape("input")
    grouped = _grouped(shape, num_groups)
    unit, rstd = standardized(reshape(input, grouped), (2,), eps)
    inner = g if weight is None else g * channel(weight, len(shape))
    by_input = standardized_grad(reshape(inner, grouped), unit, rstd, (2,))
    dims = batch_dims(len(shape))
    return (
        reshape(by_input, shape),
        reduce_sum(g * reshape(unit, shape), dims) if meta.needs("weight") else None,
        reduce_sum(g, dims) if meta.needs("bias") else None,
    )


def group_norm_reference(
    x: np.ndarray, weight: Any, bias: Any, eps: float, num_groups: int
) -> np.ndarray:
    unit = _numpy_standard(x.reshape(_grouped(x.shape, num_groups)), (2,), eps).reshape(x.shape)
    return _affine(unit, _numpy_channel(weight, x.ndim), _numpy_channel(bias, x.ndim))


group_norm = composite(
    "group_norm",
    "Mean 0 and variance 1 per group of channels of each item, then weight and bias.",
    (
        Arg("input"),
        Attr("num_groups"),
        Arg("weight", optional=True),
        Arg("bias", optional=True),
        EPS,
    ),
    group_norm_decompose,
    group_norm_reference,
    group_norm_grad,
    shape=operand_shape,
    dtype=operand_dtype,
    check=check_group_norm,
    samples=lambda rng: [
        Sample((array(rng, 2, 4, 3), array(rng, 4), array(rng, 4), 1e-5), {"num_groups": 2}),
        Sample((array(rng, 2, 4), None, None, 1e-5), {"num_groups": 1}),
    ],
    error_samples=(
        ErrorSample(
            (np.ones((2, 3, 2)), None, None, 1e-5), {"num_groups": 2}, RuntimeError, "divisible"
        ),
    ),
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
