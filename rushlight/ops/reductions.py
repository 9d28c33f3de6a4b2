"""Public reductions: `dim` is None (all), an int or a tuple; `keepdim` keeps reduced dims as 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_, int64
from rushlight.ir.opdef import FROM_DECOMPOSITION, Arg, Attr, Call, Dims, OpDef
from rushlight.ops import reference as ref
from rushlight.ops.binary import eq, maximum, ne, sub
from rushlight.ops.build import full, keep, size_value, to_dtype, unreduce
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.reduce import (
    POSITION,
    argmax_,
    argmin_,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from rushlight.ops.rules import (
    all_dims,
    bool_dtype,
    float_dtype,
    int64_dtype,
    is_static,
    operand_dtype,
    reduced_shape,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, truth
from rushlight.ops.select import where
from rushlight.ops.unary import STEP, abs_, exp, isfinite, log, sign, sqrt

INPUTS = (Arg("input"), Dims("dim", None), Attr("keepdim", False))


def over(x: Any, dim: Any, keepdim: bool, reduce: Callable) -> Any:
    """Reduce with a primitive; a 0-dim operand (or no dims) is its own result."""
    dims = all_dims(dim, x.ndim)
    if x.ndim == 0 or not dims:
        return x
    result = reduce(x, dims)
    return keep(result, x.shape, dims) if keepdim else result


def spread(g: Any, shape: tuple, dim: Any, keepdim: bool) -> Any:
    """The gradient of a reduction, repeated to the operand's shape."""
    if not shape:
        return g
    return unreduce(g, shape, all_dims(dim, len(shape)), keepdim)


def count_of(shape: tuple, dim: Any) -> Any:
    """How many elements are reduced to one."""
    count: Any = 1
    for d in all_dims(dim, len(shape)) if shape else ():
        count = count * shape[d]
    return count


def samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 3, 4),), {"dim": None, "keepdim": False}),
        Sample((array(rng, 2, 3, 4),), {"dim": (0, -1), "keepdim": True}),
        Sample((array(rng, 3, 4),), {"dim": 1, "keepdim": False}),
        Sample((array(rng),), {"dim": None, "keepdim": False}),
    ]


def truth_samples(rng: Rng) -> list[Sample]:
    return [Sample((truth(rng, 3, 4),), s.attrs) for s in samples(rng)[::2]]


DIM_ERRORS = (
    ErrorSample((np.ones((2, 3)),), {"dim": 2}, IndexError, "Dimension out of range"),
    ErrorSample((np.ones((2, 3)),), {"dim": (0, 0)}, RuntimeError, "appears multiple times"),
)


def _reduction(
    name: str,
    doc: str,
    decompose: Callable,
    reference: Callable,
    grad: Any = FROM_DECOMPOSITION,
    inputs: tuple = INPUTS,
    **fields: Any,
) -> OpDef:
    fields.setdefault("samples", samples)
    fields.setdefault("shape", reduced_shape)
    fields.setdefault("torch", (f"torch.{name}", f"Tensor.{name}"))
    fields.setdefault("error_samples", DIM_ERRORS)
    return composite(name, doc, inputs, decompose, reference, grad, **fields)


def numpy_over(function: Callable) -> Callable:
    return lambda input, dim, keepdim: function(input, axis=ref.axes(dim), keepdims=keepdim)  # noqa: A002, E501


def whole_sum_dtype(call: Call) -> Any:
    """Sums and products of whole numbers and bools are int64."""
    dtype = call["input"].dtype
    return int64 if dtype.is_integral else dtype


def _accumulate(reduce: Callable) -> Callable:
    def decompose(input: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: A002
        if input.dtype.is_integral:
            input = to_dtype(input, int64)  # noqa: A001
        return over(input, dim, keepdim, reduce)

    return decompose


def sum_grad(g: Any, dim: Any, keepdim: bool, meta: Meta) -> tuple:
    return (spread(g, meta.shape("input"), dim, keepdim),)


sum_ = _reduction(
    "sum",
    "The sum over dims; whole numbers become int64.",
    _accumulate(reduce_sum),
    numpy_over(np.sum),
    sum_grad,
    dtype=whole_sum_dtype,
    compute_f32=False,
)
prod = _reduction(
    "prod",
    "The product over dims; whole numbers become int64.",
    _accumulate(reduce_prod),
    numpy_over(np.prod),
    dtype=whole_sum_dtype,
    compute_f32=False,
)


def mean_decompose(input: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: A002
    return over(input, dim, keepdim, reduce_sum) / _count(input.shape, dim, input.dtype)


def _count(shape: tuple, dim: Any, dtype: Any) -> Any:
    return size_value(count_of(shape, dim), dtype)


def mean_grad(g: Any, dim: Any, keepdim: bool, meta: Meta) -> tuple:
    shape, dtype = meta.shape("input"), meta.dtype("input")
    return (spread(g / _count(shape, dim, dtype), shape, dim, keepdim),)


mean = _reduction(
    "mean", "The sum over dims by the count.", mean_decompose, numpy_over(np.mean), mean_grad
)


def check_not_empty(call: Call) -> None:
    """max and min of nothing have no value."""
    shape = call["input"].shape
    for d in all_dims(call["dim"], len(shape)) if shape else ():
        if is_static(shape[d]) and shape[d] == 0:
            if call["dim"] is None:
                raise RuntimeError(
                    f"{call.op.name}(): Expected reduction dim to be specified for input.numel() "
                    "== 0. Specify the reduction dim with the 'dim' argument."
                )
            raise IndexError(f"{call.op.name}(): Expected reduction dim {d} to have non-zero size.")


def extreme_grad(g: Any, input: Any, out: Any, dim: Any, keepdim: bool, meta: Meta) -> tuple:  # noqa: A002
    """Equal shares to all that are the extreme."""
    shape, dtype = meta.shape("input"), meta.dtype("input")
    same = to_dtype(eq(input, spread(out, shape, dim, keepdim)), dtype)
    count = over(same, dim, keepdim, reduce_sum)
    return (same * spread(g / count, shape, dim, keepdim),)


amax = _reduction(
    "amax",
    "The largest over dims; equal ones share the gradient.",
    lambda input, dim=None, keepdim=False: over(input, dim, keepdim, reduce_max),
    numpy_over(np.max),
    extreme_grad,
    dtype=operand_dtype,
    check=check_not_empty,
    compute_f32=False,
)
amin = _reduction(
    "amin",
    "The smallest over dims; equal ones share the gradient.",
    lambda input, dim=None, keepdim=False: over(input, dim, keepdim, reduce_min),
    numpy_over(np.min),
    extreme_grad,
    dtype=operand_dtype,
    check=check_not_empty,
    compute_f32=False,
)


def _truth_over(reduce: Callable) -> Callable:
    def decompose(input: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: A002
        return over(input if input.dtype is bool_ else ne(input, 0), dim, keepdim, reduce)

    return decompose


any_ = _reduction("any", "True where any element over dims is not 0.", _truth_over(reduce_any),
                  numpy_over(np.any), STEP, dtype=bool_dtype, samples=truth_samples,
                  compute_f32=False)  # fmt: skip
all_ = _reduction("all", "True where no element over dims is 0.", _truth_over(reduce_all),
                  numpy_over(np.all), STEP, dtype=bool_dtype, samples=truth_samples,
                  compute_f32=False)  # fmt: skip


def _position(find: Callable) -> Callable:
    def decompose(input: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: A002
        if input.ndim == 0:
            return full((), 0, int64)
        return over(input, dim, keepdim, find)

    return decompose


def _numpy_position(find: Callable) -> Callable:
    def apply(input: np.ndarray, dim: Any, keepdim: bool) -> np.ndarray:  # noqa: A002
        axis = dim[0] if isinstance(dim, tuple) else dim
        return find(input, axis=axis, keepdims=keepdim)

    return apply


def position_samples(rng: Rng) -> list[Sample]:
    return [samples(rng)[i] for i in (0, 2, 3)]


argmax = _reduction("argmax", "The first position of the largest over one dim, or over all.",
                    _position(argmax_), _numpy_position(np.argmax), POSITION, dtype=int64_dtype,
                    check=check_not_empty, samples=position_samples,
                    compute_f32=False)  # fmt: skip
argmin = _reduction("argmin", "The first position of the smallest over one dim, or over all.",
                    _position(argmin_), _numpy_position(np.argmin), POSITION, dtype=int64_dtype,
                    check=check_not_empty, samples=position_samples,
                    compute_f32=False)  # fmt: skip
count_nonzero = _reduction(
    "count_nonzero",
    "How many elements over dims are not 0.",
    lambda input, dim=None: over(to_dtype(ne(input, 0), int64), dim, False, reduce_sum),
    lambda input, dim: np.count_nonzero(input, axis=ref.axes(dim)),
    POSITION,
    (Arg("input"), Dims("dim", None)),
    shape=lambda call: reduced_shape(_Plain(call)),
    dtype=int64_dtype,
    compute_f32=False,
    samples=lambda rng: [Sample((array(rng, 3, 4),), {"dim": d}) for d in (None, 1)],
)


class _Plain:
    """A call read as one without keepdim."""

    def __init__(self, call: Call) -> None:
        self.src, self.call = call.src, call

    def __getitem__(self, name: str) -> Any:
        return False if name == "keepdim" else self.call[name]


SPREAD_INPUTS = (Arg("input"), Dims("dim", None), Attr("correction", 1), Attr("keepdim", False))


def centered(x: Any, dim: Any) -> Any:
    return x - mean_decompose(x, dim, True)


def _free_count(shape: tuple, dim: Any, correction: Any, dtype: Any) -> Any:
    """max(0, n - correction)."""
    count = count_of(shape, dim)
    if is_static(count):
        return full((), max(0.0, count - correction), dtype)
    return maximum(sub(size_value(count, dtype), float(correction)), 0.0)


def var_decompose(
    input: Any,
    dim: Any = None,
    correction: Any = 1,
    keepdim: bool = False,  # noqa: A002
) -> Any:
    off = centered(input, dim)
    free = _free_count(input.shape, dim, correction, input.dtype)
    return over(off * off, dim, keepdim, reduce_sum) / free


def var_grad(
    g: Any,
    input: Any,
    dim: Any,
    correction: Any,
    keepdim: bool,
    meta: Meta,  # noqa: A002
) -> tuple:
    shape, dtype = meta.shape("input"), meta.dtype("input")
    share = g * 2.0 / _free_count(shape, dim, correction, dtype)
    return (spread(share, shape, dim, keepdim) * centered(input, dim),)


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


var = _reduction("var", "The mean squared distance from the mean, by n - correction.",
                 var_decompose, _numpy_spread(np.var), var_grad, SPREAD_INPUTS,
                 samples=spread_samples)  # fmt: skip
std = _reduction("std", "The square root of var.",
                 lambda input, dim=None, correction=1, keepdim=False: sqrt(
                     var_decompose(input, dim, correction, keepdim)
                 ), _numpy_spread(np.std), std_grad,
                 SPREAD_INPUTS, samples=spread_samples)  # fmt: skip


def logsumexp_decompose(input: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: A002
    if input.ndim == 0:
        return input
    top = over(input, dim, True, reduce_max)
    top = where(isfinite(top), top, 0.0)
    total = log(over(exp(input - top), dim, True, reduce_sum)) + top
    return total if keepdim else _drop(total, input.shape, dim)


def _drop(x: Any, shape: tuple, dim: Any) -> Any:
    dims = all_dims(dim, len(shape))
    return reshape(x, tuple(s for i, s in enumerate(shape) if i not in dims))


def logsumexp_grad(g: Any, input: Any, out: Any, dim: Any, keepdim: bool, meta: Meta) -> tuple:  # noqa: A002
    shape = meta.shape("input")
    whole = spread(out, shape, dim, keepdim)
    share = exp(input - where(isfinite(whole), whole, 0.0))
    return (spread(g, shape, dim, keepdim) * share,)


logsumexp = _reduction("logsumexp", "log of the sum of exponentials over dims.",
                       logsumexp_decompose,
                       lambda input, dim, keepdim: ref.logsumexp(input, ref.axes(dim), keepdim),
                       logsumexp_grad)  # fmt: skip


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
        return over(to_dtype(ne(input, 0.0), input.dtype), dim, keepdim, reduce_sum)
    if p == 1:
        return over(size, dim, keepdim, reduce_sum)
    if p == 2:
        return sqrt(over(input * input, dim, keepdim, reduce_sum))
    return over(size ** float(p), dim, keepdim, reduce_sum) ** (1.0 / p)


def norm_reference(input: np.ndarray, p: float, dim: Any, keepdim: bool) -> np.ndarray:  # noqa: A002
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
    shape, dtype = meta.shape("input"), meta.dtype("input")
    if p == 0:
        return (None,)
    if p == 1:
        return (spread(g, shape, dim, keepdim) * sign(input),)
    if p in (math.inf, -math.inf):
        same = to_dtype(eq(abs_(input), spread(out, shape, dim, keepdim)), dtype)
        share = g / over(same, dim, keepdim, reduce_sum)
        return (spread(share, shape, dim, keepdim) * same * sign(input),)
    flat = eq(out, 0.0)
    safe = where(flat, 1.0, out)
    if p == 2:
        return (spread(where(flat, 0.0, g / safe), shape, dim, keepdim) * input,)
    share = spread(where(flat, 0.0, g * safe ** (1.0 - p)), shape, dim, keepdim)
    zero = eq(input, 0.0)
    power = where(zero, 0.0, where(zero, 1.0, abs_(input)) ** (p - 1.0))
    return (share * power * sign(input),)


norm = _reduction(
    "norm",
    "The p-norm over dims, as of a vector (torch.linalg.vector_norm).",
    norm_decompose,
    norm_reference,
    norm_grad,
    NORM_INPUTS,
    dtype=float_dtype,
    torch=("torch.norm", "Tensor.norm"),
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"p": p, "dim": d, "keepdim": k})
        for p, d, k in (
            (2.0, None, False), (1.0, 1, True), (3.0, (0, 1), False), (math.inf, 0, False),
            (-math.inf, None, False), (0.0, 1, False), (0.5, 1, False),
        )
    ],
)  # fmt: skip
