"""Normalizations over a batch or over groups of channels (dim 1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable, OpDef, Value
from rushlight.ir.symint_math import product
from rushlight.ops.binary import add, maximum, mul
from rushlight.ops.build import count_value, like, to_dtype
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.norms import (
    EPS,
    affine,
    mean_over,
    numpy_standard,
    standardized,
    standardized_grad,
)
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import Shape, is_static, operand_dtype, operand_shape
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.unary import rsqrt


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
    """The sums of weight and bias are also those of the input: two over all elements."""
    dims = batch_dims(meta.ndim("input"))
    unit, rstd = standardized(input, dims, eps)
    along, total = reduce_sum(g * unit, dims), reduce_sum(g, dims)
    by_input = None
    if meta.needs("input"):
        shape = meta.shape("input")
        count = count_value([shape[d] for d in dims], input.dtype)
        mean, part = (channel(x, len(shape)) / count for x in (total, along))
        scale = rstd if weight is None else rstd * channel(weight, len(shape))
        by_input = scale * (g - mean - unit * part)
    return by_input, along if meta.needs("weight") else None, total if meta.needs("bias") else None


def _numpy_channel(x: Any, ndim: int) -> Any:
    return None if x is None else x.reshape(1, -1, *(1,) * (ndim - 2))


def batch_norm_reference(x: np.ndarray, weight: Any, bias: Any, eps: float) -> np.ndarray:
    unit = numpy_standard(x, batch_dims(x.ndim), eps)
    return affine(unit, _numpy_channel(weight, x.ndim), _numpy_channel(bias, x.ndim))


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
    pair='"batch_norm"',
)


def _of_batch(input: Any, spread: bool) -> Any:  # noqa: A002
    """The mean of each channel, or its variance with one taken off the count."""
    dims = batch_dims(input.ndim)
    mean = mean_over(input, dims)
    if not spread:
        return reshape(mean, (input.shape[1],))
    off = input - mean
    count = count_value([input.shape[d] for d in dims], input.dtype)
    return reduce_sum(off * off, dims) / maximum(count - 1.0, 0.0)


def _running(name: str, doc: str, spread: bool) -> OpDef:
    def decompose(running: Any, input: Any, keep: Any = 0.9, momentum: Any = 0.1) -> Any:  # noqa: A002
        fresh = _of_batch(to_dtype(input, running.dtype), spread)
        return running * like(keep, running.dtype) + fresh * like(momentum, running.dtype)

    def reference(running: np.ndarray, x: np.ndarray, keep: float, momentum: float) -> np.ndarray:
        dims = batch_dims(x.ndim)
        fresh = x.var(dims, ddof=1) if spread else x.mean(dims)
        return running * keep + fresh * momentum

    return composite(
        name,
        doc,
        (Arg("running"), Arg("input"), Value("keep", 0.9), Value("momentum", 0.1)),
        decompose,
        reference,
        NotDifferentiable("a running statistic has no gradient"),
        shape=lambda call: call["running"].shape,
        dtype=lambda call: call["running"].dtype,
        samples=lambda rng: [
            Sample((array(rng, 3), array(rng, 4, 3), 0.9, 0.1)),
            Sample((array(rng, 3), array(rng, 2, 3, 2, 2), 0.75, 0.25)),
        ],
    )


batch_norm_running_mean = _running(
    "batch_norm_running_mean", "A part of the running means and the means of this batch.", False
)
batch_norm_running_var = _running("batch_norm_running_var", "The same of unbiased variances.", True)


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
    lambda x, mean, var, weight, bias, eps: affine(
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
            ),
            skip=("running_mean", "running_var"),
        )
    ],
    pair='"batch_norm"',
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
    unit = numpy_standard(x.reshape(_grouped(x.shape, num_groups)), (2,), eps).reshape(x.shape)
    return affine(unit, _numpy_channel(weight, x.ndim), _numpy_channel(bias, x.ndim))


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
    pair='"GroupNormKernelImpl"',
)
