"""Masks, embedding tables, sorted search: indexing that is not a plain gather or scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_, int32, int64
from rushlight.ir.opdef import Arg, Attr, Call, Dim, NotDifferentiable
from rushlight.ops.binary import eq, ge, gt, logical_and, maximum, ne, sub
from rushlight.ops.build import to_dtype, zeros
from rushlight.ops.composite import composite
from rushlight.ops.indexed import gather_nd, scatter_nd
from rushlight.ops.indexing import at_dim
from rushlight.ops.meta import Meta
from rushlight.ops.movement import expand, reshape
from rushlight.ops.reduce import reduce_sum, scan_sum
from rushlight.ops.rules import Shape, broadcast_shapes, is_static, operand_dtype
from rushlight.ops.samples import ErrorSample, Sample, array, truth, whole
from rushlight.ops.select import where


def check_mask(call: Call) -> None:
    if call["mask"].dtype is not bool_:
        raise RuntimeError(
            f"{call.op.name} only supports boolean masks, but got mask with dtype "
            f"{call['mask'].dtype.name}"
        )


def masked_fill_grad(g: Any, mask: Any, meta: Meta) -> tuple:
    value = where(mask, g, 0) if meta.needs("value") else None
    return where(mask, 0, g), None, value


masked_fill = composite(
    "masked_fill",
    "value where the mask is true, else x.",
    (Arg("x"), Arg("mask"), Arg("value")),
    lambda x, mask, value: where(mask, value, x),
    lambda x, mask, value: np.where(mask, value, x),
    masked_fill_grad,
    dtype=operand_dtype,
    compute_f32=False,
    cheap=True,
    unify=False,
    torch=("torch.masked_fill", "Tensor.masked_fill", "Tensor.masked_fill_"),
    check=check_mask,
    samples=lambda rng: [Sample((array(rng, 3, 4), truth(rng, 4), array(rng)))],
    error_samples=(
        ErrorSample((np.ones(3), np.ones(3), np.float64(1)), {}, RuntimeError, "boolean masks"),
    ),
)


def masked_scatter_places(mask: Any) -> tuple[Any, Any]:
    """(the mask, the rank of each true element among the true ones), both flat."""
    flat = reshape(mask, (mask.numel(),))
    rank = sub(scan_sum(to_dtype(flat, int64), 0), 1)
    return flat, maximum(rank, 0)


def masked_scatter_decompose(x: Any, mask: Any, source: Any) -> Any:
    shape = broadcast_shapes(x.shape, mask.shape)
    mask, x = expand(mask, shape), expand(x, shape)
    _, rank = masked_scatter_places(mask)
    rank = where(reshape(mask, rank.shape), rank, 0)
    values = gather_nd(reshape(source, (source.numel(),)), [rank])
    return where(mask, reshape(values, shape), x)


def masked_scatter_reference(x: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, mask.shape)
    result = np.array(np.broadcast_to(x, shape))
    full_mask = np.broadcast_to(mask, shape)
    result[full_mask] = source.reshape(-1)[: full_mask.sum()]
    return result


masked_scatter = composite(
    "masked_scatter",
    "x with the elements of source, in order, where the mask is true.",
    (Arg("x"), Arg("mask"), Arg("source")),
    masked_scatter_decompose,
    masked_scatter_reference,
    shape=lambda call: broadcast_shapes(call["x"].shape, call["mask"].shape),
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.masked_scatter", "Tensor.masked_scatter", "Tensor.masked_scatter_"),
    check=check_mask,
    samples=lambda rng: [
        Sample((array(rng, 3, 4), truth(rng, 3, 4), array(rng, 4, 3))),
        Sample((array(rng, 3, 4), truth(rng, 4), array(rng, 13))),
    ],
)


def take_shapes(x: Any, indices: Any, dim: int) -> tuple[Shape, Shape]:
    """The two shapes, broadcast to each other but along dim."""
    lead_x = (*x.shape[:dim], 1, *x.shape[dim + 1 :])
    lead_i = (*indices.shape[:dim], 1, *indices.shape[dim + 1 :])
    both = broadcast_shapes(lead_x, lead_i)
    return tuple((*both[:dim], shape[dim], *both[dim + 1 :]) for shape in (x.shape, indices.shape))  # type: ignore[return-value]


def take_decompose(x: Any, indices: Any, dim: int) -> Any:
    x_shape, i_shape = take_shapes(x, indices, dim)
    return at_dim(expand(x, x_shape), expand(indices, i_shape), dim)


take_along_dim = composite(
    "take_along_dim",
    "gather after broadcasting x and indices to each other.",
    (Arg("x"), Arg("indices"), Dim("dim")),
    take_decompose,
    lambda x, indices, dim: np.take_along_axis(x, indices, dim),
    shape=lambda call: take_shapes(call["x"], call["indices"], call["dim"])[1],
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.take_along_dim", "Tensor.take_along_dim"),
    samples=lambda rng: [Sample((array(rng, 3, 4), whole(rng, 1, 2, high=4)), {"dim": 1})],
)


def check_embedding(call: Call) -> None:
    indices = call["indices"]
    if indices.dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {indices.dtype.name} instead (while checking arguments for "
            "embedding)"
        )
    if call["weight"].ndim != 2:
        raise RuntimeError("'weight' must be 2-D")


def embedding_decompose(weight: Any, indices: Any, padding_idx: int = -1) -> Any:
    return gather_nd(weight, [to_dtype(indices, int64)])


def embedding_grad(g: Any, indices: Any, padding_idx: int, meta: Meta) -> tuple:
    """Rows are added in index order; the padding row gets nothing."""
    indices = to_dtype(indices, int64)
    if padding_idx >= 0:
        padding = eq(indices, padding_idx)
        g = where(reshape(padding, (*indices.shape, 1)), 0.0, g)
    return (scatter_nd(zeros(meta.shape("weight"), g.dtype), g, [indices], kind="sum"),)


embedding = composite(
    "embedding",
    "Rows of weight by index; padding_idx (-1: none) gets no gradient.",
    (Arg("weight"), Arg("indices"), Attr("padding_idx", -1)),
    embedding_decompose,
    lambda weight, indices, padding_idx: weight[indices],
    embedding_grad,
    shape=lambda call: (*call["indices"].shape, call["weight"].shape[1]),
    dtype=operand_dtype,
    check=check_embedding,
    samples=lambda rng: [
        Sample((array(rng, 5, 3), whole(rng, 2, 4)), {"padding_idx": -1}),
        Sample((array(rng, 5, 3), whole(rng)), {"padding_idx": -1}),
    ],
    error_samples=(
        ErrorSample((np.ones((3, 2)), np.ones(2)), {}, RuntimeError, "scalar types"),
        ErrorSample((np.ones(3), np.zeros(2, np.int64)), {}, RuntimeError, "must be 2-D"),
    ),
)


def searchsorted_shape(call: Call) -> Shape:
    return call["values"].shape


def check_sorted(call: Call) -> None:
    line, values = call["sorted_sequence"], call["values"]
    if line.ndim != 1 and line.shape[:-1] != values.shape[:-1]:
        if all(map(is_static, line.shape + values.shape)):
            raise RuntimeError(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
                "dimensions of boundaries tensor and input value tensor must match, but we got "
                f"boundaries tensor {list(line.shape)} and input value tensor "
                f"{list(values.shape)}"
            )


def searchsorted_decompose(sorted_sequence: Any, values: Any, right: bool = False) -> Any:
    """How many boundaries are below (or not above): a count, not a search."""
    line = sorted_sequence
    if line.ndim > 1:
        line = reshape(line, (*line.shape[:-1], 1, line.shape[-1]))
    each = reshape(values, (*values.shape, 1))
    before = ge(each, line) if right else gt(each, line)
    # NaN sorts last.
    last = logical_and(ne(each, each), eq(line, line)) if values.dtype.is_floating_point else None
    if last is not None:
        before = where(last, True, before)
    count = to_dtype(before, int64)
    return reduce_sum(count, (count.ndim - 1,))


def searchsorted_reference(line: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray:
    side = "right" if right else "left"
    if line.ndim == 1:
        return np.searchsorted(line, values, side)
    flat = [
        np.searchsorted(a, b, side)
        for a, b in zip(
            line.reshape(-1, line.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True
        )
    ]
    return np.stack(flat).reshape(values.shape)


searchsorted = composite(
    "searchsorted",
    "Where each value would be put into a sorted line, to the left (or right) of equal ones.",
    (Arg("sorted_sequence"), Arg("values"), Attr("right", False)),
    searchsorted_decompose,
    searchsorted_reference,
    NotDifferentiable("the output is a position"),
    shape=searchsorted_shape,
    dtype=lambda call: int64,
    compute_f32=False,
    check=check_sorted,
    samples=lambda rng: [
        Sample((np.sort(array(rng, 6)), array(rng, 2, 3)), {"right": False}),
        Sample((np.arange(5), whole(rng, 4, high=6)), {"right": True}),
        Sample((np.sort(array(rng, 2, 6)), array(rng, 2, 3)), {"right": False}),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((3, 3))), {}, RuntimeError, "must match"),
    ),
)
