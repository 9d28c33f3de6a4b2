"""Public reductions with statistics in them: var, std, logsumexp, norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.ir.opdef import Arg, Attr, Call, Dims
from rushlight.ops import reference as ref
from rushlight.ops.binary import eq, maximum, ne, sub
from rushlight.ops.build import conj_of, count_value, real_of, squared_size, to_dtype
from rushlight.ops.complex import sgn
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.reduce import (
    reduce_max,
    reduce_min,
    reduce_sum,
)
from rushlight.ops.reductions import mean_decompose, over, reduction, spread
from rushlight.ops.rules import (
    all_dims,
    inexact_dtype,
    is_static,
)
from rushlight.ops.samples import Rng, Sample, array
from rushlight.ops.select import where
from rushlight.ops.unary import abs_, exp, isfinite, log, sqrt

SPREAD_INPUTS = (Arg("input"), Dims("dim", None), Attr("correction", 1), Attr("keepdim", False))


def centered(x: Any, dim: Any) -> Any:
    return x - mean_decompose(x, dim, True)


def _free_count(shape: tuple, dim: Any, correction: Any, dtype: Any) -> Any:
    """max(0, n - correction)."""
    sizes = [shape[d] for d in all_dims(dim, len(shape))] if shape else ()
    return maximum(sub(count_value(sizes, dtype), float(correction)), 0.0)


def var_decompose(
    input: Any,
    dim: Any = None,
    correction: Any = 1,
    keepdim: bool = False,  # noqa: A002
) -> Any:
    square = squared_size(centered(input, dim))
    free = _free_count(input.shape, dim, correction, square.dtype)
    return over(square, dim, keepdim, reduce_sum) / free


def spread_dtype(call: Call) -> DType:
    """Of a size: real for complex numbers."""
    return inexact_dtype(call).to_real()


def var_grad(
    g: Any,
    input: Any,
    dim: Any,
    correction: Any,
    keepdim: bool,
    meta: Meta,  # noqa: A002
) -> tuple:
    shape, dtype = meta.shape("input"), meta.dtype("input")
    share = g * 2.0 / _free_count(shape, dim, correction, dtype.to_real())
    return (to_dtype(spread(share, shape, dim, keepdim), dtype) * centered(input, dim),)


def std_grad(
    g: Any,
    input: Any,
    out: Any,
    dim: Any,
    correction: Any,
    keepdim: bool,
    meta: Meta,  # noqa: A002
) -> tuple:
    flat = eq(out, 0.0)
    through = where(flat, 0.0, g / (where(flat, 1.0, out) * 2.0))
    return var_grad(through, input, dim, correction, keepdim, meta)


def _numpy_spread(function: Callable) -> Callable:
    def apply(input: np.ndarray, dim: Any, correction: Any, keepdim: bool) -> np.ndarray:  # noqa: A002
        axis = ref.axes(dim)
        return function(input, axis=axis, ddof=correction, keepdims=keepdim)

    return apply


def spread_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 3, 4),), {"dim": None, "correction": 1, "keepdim": False}),
        Sample((array(rng, 3, 4, 2),), {"dim": (0, 2), "correction": 0, "keepdim": True}),
    ]


var = reduction("var", "The mean squared distance from the mean, by n - correction.",
                 var_decompose, _numpy_spread(np.var), var_grad, SPREAD_INPUTS,
                 samples=spread_samples, dtype=spread_dtype)  # fmt: skip
std = reduction("std", "The square root of var.",
                 lambda input, dim=None, correction=1, keepdim=False: sqrt(
                     var_decompose(input, dim, correction, keepdim)
                 ), _numpy_spread(np.std), std_grad,
                 SPREAD_INPUTS, samples=spread_samples, dtype=spread_dtype)  # fmt: skip


def logsumexp_decompose(input: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: A002
    if input.ndim == 0 and input.dtype.is_complex:  # its angle is wrapped, as for others
        return reshape(logsumexp_decompose(reshape(input, (1,))), ())
    if input.ndim == 0:
        return input
    if any(is_static(input.shape[d]) and input.shape[d] == 0 for d in all_dims(dim, input.ndim)):
        return log(over(input, dim, keepdim, reduce_sum))  # of nothing: log 0
    top = over(real_of(input), dim, True, reduce_max)
    top = to_dtype(where(isfinite(top), top, 0.0), input.dtype)
    total = log(over(exp(input - top), dim, True, reduce_sum)) + top
    return total if keepdim else _drop(total, input.shape, dim)


def _drop(x: Any, shape: tuple, dim: Any) -> Any:
    dims = all_dims(dim, len(shape))
    return reshape(x, tuple(s for i, s in enumerate(shape) if i not in dims))


def logsumexp_grad(g: Any, input: Any, out: Any, dim: Any, keepdim: bool, meta: Meta) -> tuple:  # noqa: A002
    shape = meta.shape("input")
    whole = spread(out, shape, dim, keepdim)
    share = exp(conj_of(input - where(isfinite(whole), whole, 0.0)))
    return (spread(g, shape, dim, keepdim) * share,)


logsumexp = reduction("logsumexp", "log of the sum of exponentials over dims.",
                       logsumexp_decompose,
                       lambda input, dim, keepdim: ref.logsumexp(input, ref.axes(dim), keepdim),
                       logsumexp_grad, dtype=inexact_dtype, promote="float")  # fmt: skip


NORM_INPUTS = (Arg("input"), Attr("p", 2.0), Dims("dim", None), Attr("keepdim", False))


def norm_decompose(
    input: Any,
    p: float = 2.0,
    dim: Any = None,
    keepdim: bool = False,  # noqa: A002
) -> Any:
    size = abs_(input)
    if p == math.inf or p == -math.inf:
        return over(size, dim, keepdim, reduce_max if p > 0 else reduce_min)
    if p == 0:
        return over(to_dtype(ne(input, 0.0), size.dtype), dim, keepdim, reduce_sum)
    if p == 1:
        return over(size, dim, keepdim, reduce_sum)
    if p == 2:
        return sqrt(over(squared_size(input), dim, keepdim, reduce_sum))
    return over(size ** float(p), dim, keepdim, reduce_sum) ** (1.0 / p)


def norm_reference(input: np.ndarray, p: float, dim: Any, keepdim: bool) -> Any:  # noqa: A002
    size, axis = np.abs(input), ref.axes(dim)
    if p == math.inf or p == -math.inf:
        return (np.max if p > 0 else np.min)(size, axis=axis, keepdims=keepdim)
    if p == 0:
        return np.sum(size != 0, axis=axis, keepdims=keepdim).astype(input.dtype)
    return np.sum(size**p, axis=axis, keepdims=keepdim) ** (1 / p)


def norm_grad(
    g: Any,
    input: Any,
    out: Any,
    p: float,
    dim: Any,
    keepdim: bool,
    meta: Meta,  # noqa: A002
) -> tuple:
    """0 where the norm is 0."""
    shape, dtype = meta.shape("input"), meta.out_dtype

    def along(size: Any, direction: Any) -> tuple:
        return (to_dtype(size, direction.dtype) * direction,)

    if p == 0:
        return (None,)
    if p == 1:
        return along(spread(g, shape, dim, keepdim), sgn(input))
    if p in (math.inf, -math.inf):
        same = to_dtype(eq(abs_(input), spread(out, shape, dim, keepdim)), dtype)
        share = g / over(same, dim, keepdim, reduce_sum)
        return along(spread(share, shape, dim, keepdim) * same, sgn(input))
    flat = eq(out, 0.0)
    safe = where(flat, 1.0, out)
    if p == 2:
        return along(spread(where(flat, 0.0, g / safe), shape, dim, keepdim), input)
    share = spread(where(flat, 0.0, g * safe ** (1.0 - p)), shape, dim, keepdim)
    zero = eq(input, 0.0)
    power = where(zero, 0.0, where(zero, 1.0, abs_(input)) ** (p - 1.0))
    return along(share * power, sgn(input))


norm = reduction(
    "norm",
    "The p-norm over dims, as of a vector (torch.linalg.vector_norm).",
    norm_decompose,
    norm_reference,
    norm_grad,
    NORM_INPUTS,
    dtype=spread_dtype,
    torch=("torch.norm", "Tensor.norm"),
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"p": p, "dim": d, "keepdim": k})
        for p, d, k in (
            (2.0, None, False), (1.0, 1, True), (3.0, (0, 1), False), (math.inf, 0, False),
            (-math.inf, None, False), (0.0, 1, False), (0.5, 1, False),
        )
    ],
)  # fmt: skip
