"""Public reductions: `dim` is None (all), an int or a tuple; `keepdim` keeps reduced dims as 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_, int64
from rushlight.ir.opdef import FROM_DECOMPOSITION, Arg, Attr, Call, Dims, OpDef
from rushlight.ops import reference as ref
from rushlight.ops.best_tap import best_tap, numpy_best_tap
from rushlight.ops.binary import eq, ne
from rushlight.ops.build import count_value, full, keep, to_dtype, unreduce
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
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
    inexact_dtype,
    int64_dtype,
    is_static,
    operand_dtype,
    reduced_shape,
    without_dims,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, truth
from rushlight.ops.unary import STEP

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


def reduction(
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


sum_ = reduction(
    "sum",
    "The sum over dims; whole numbers become int64.",
    _accumulate(reduce_sum),
    numpy_over(np.sum),
    sum_grad,
    dtype=whole_sum_dtype,
    compute_f32=False,
)
prod = reduction(
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
    return count_value([shape[d] for d in all_dims(dim, len(shape))] if shape else (), dtype)


def mean_grad(g: Any, dim: Any, keepdim: bool, meta: Meta) -> tuple:
    shape, dtype = meta.shape("input"), meta.dtype("input")
    return (spread(g / _count(shape, dim, dtype), shape, dim, keepdim),)


mean = reduction(
    "mean",
    "The sum over dims by the count.",
    mean_decompose,
    numpy_over(np.mean),
    mean_grad,
    dtype=inexact_dtype,
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


amax = reduction(
    "amax",
    "The largest over dims; equal ones share the gradient.",
    lambda input, dim=None, keepdim=False: over(input, dim, keepdim, reduce_max),
    numpy_over(np.max),
    extreme_grad,
    dtype=operand_dtype,
    check=check_not_empty,
    compute_f32=False,
    pair='"max_values_cpu"',
)
amin = reduction(
    "amin",
    "The smallest over dims; equal ones share the gradient.",
    lambda input, dim=None, keepdim=False: over(input, dim, keepdim, reduce_min),
    numpy_over(np.min),
    extreme_grad,
    dtype=operand_dtype,
    check=check_not_empty,
    compute_f32=False,
    pair='"min_values_cpu"',
)


def _truth_over(reduce: Callable) -> Callable:
    def decompose(input: Any, dim: Any = None, keepdim: bool = False) -> Any:  # noqa: A002
        return over(input if input.dtype is bool_ else ne(input, 0), dim, keepdim, reduce)

    return decompose


any_ = reduction("any", "True where any element over dims is not 0.", _truth_over(reduce_any),
                  numpy_over(np.any), STEP, dtype=bool_dtype, samples=truth_samples,
                  compute_f32=False)  # fmt: skip
all_ = reduction("all", "True where no element over dims is 0.", _truth_over(reduce_all),
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


argmax = reduction("argmax", "The first position of the largest over one dim, or over all.",
                    _position(argmax_), _numpy_position(np.argmax), POSITION, dtype=int64_dtype,
                    check=check_not_empty, samples=position_samples,
                    compute_f32=False,
                    pair="argmax(): does not support complex input")  # fmt: skip
argmin = reduction("argmin", "The first position of the smallest over one dim, or over all.",
                    _position(argmin_), _numpy_position(np.argmin), POSITION, dtype=int64_dtype,
                    check=check_not_empty, samples=position_samples,
                    compute_f32=False,
                    pair="argmin(): does not support complex input")  # fmt: skip
window_argmax = reduction(
    "window_argmax", "The position that stands for a window of a max pool, over one dim or all.",
    _position(best_tap), _numpy_position(numpy_best_tap),
    POSITION, dtype=int64_dtype, check=check_not_empty, samples=position_samples,
    compute_f32=False, torch=(),
)  # fmt: skip
count_nonzero = reduction(
    "count_nonzero",
    "How many elements over dims are not 0.",
    lambda input, dim=None: over(to_dtype(ne(input, 0), int64), dim, False, reduce_sum),
    lambda input, dim: np.count_nonzero(input, axis=ref.axes(dim)),
    POSITION,
    (Arg("input"), Dims("dim", None)),
    shape=lambda call: without_dims(call.src[0].shape, all_dims(call["dim"], call.src[0].ndim)),
    dtype=int64_dtype,
    compute_f32=False,
    samples=lambda rng: [Sample((array(rng, 3, 4),), {"dim": d}) for d in (None, 1)],
)
