"""Public indexing along one dim, written with gather_nd and scatter_nd.

Indices are int64, non-negative and in range (the kernel checks); the public functions wrap
negative ones. Gradients of the scattering ops read only the indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.opdef import Arg, Attr, Call, Dim
from rushlight.ops.binary import eq, floor_divide
from rushlight.ops.build import expand_to, iota_along, slice_dim, to_dtype, zeros
from rushlight.ops.composite import composite
from rushlight.ops.indexed import gather_nd, scatter_joined
from rushlight.ops.meta import Meta
from rushlight.ops.movement import permute, reshape, slice_scatter_
from rushlight.ops.rules import (
    Shape,
    is_static,
    operand_dtype,
    operand_shape,
    replace_dim,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, whole
from rushlight.ops.select import where


def check_index(call: Call) -> None:
    """index: int64, with the operand's number of dims."""
    index, x = call["index"], call["x"]
    if index.dtype is not int64:
        raise RuntimeError(f"{call.op.name}(): Expected dtype int64 for index")
    if index.ndim != x.ndim:
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as input tensor"
            if call.op.name == "gather"
            else "Index tensor must have the same number of dimensions as self tensor"
        )
    for d, (a, b) in enumerate(zip(index.shape, x.shape, strict=True)):
        if d != call["dim"] and is_static(a) and is_static(b) and a > b:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be "
                f"no larger than self {list(x.shape)} apart from dimension {call['dim']}"
            )


def places(index: Any, dim: int) -> list[Any]:
    """Full coordinates: the index along dim, the position along the others."""
    shape = index.shape
    return [
        index if d == dim else expand_to(iota_along(len(shape), d, size), (), shape)
        for d, size in enumerate(shape)
    ]


def at_dim(x: Any, index: Any, dim: int) -> Any:
    """gather; a 0-dim operand has one element for every index."""
    if x.ndim == 0:
        return reshape(at_dim(reshape(x, (1,)), reshape(index, (1,)), 0), ())
    return gather_nd(x, places(index, dim))


def numpy_places(index: np.ndarray, dim: int) -> tuple:
    grid: list[Any] = list(np.indices(index.shape))
    grid[dim] = index
    return tuple(grid)


gather = composite(
    "gather",
    "out[i][j] = x[index[i][j]][j] for dim 0, and so on.",
    (Arg("x"), Dim("dim"), Arg("index")),
    lambda x, dim, index: at_dim(x, index, dim),
    lambda x, index, dim: x[numpy_places(index, dim)],
    lambda g, dim, index, meta: (
        scatter_add(zeros(meta.shape("x"), meta.dtype("x")), dim, index, g),
        None,
    ),
    shape=lambda call: call["index"].shape,
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.gather", "Tensor.gather"),
    check=check_index,
    samples=lambda rng: [
        Sample((array(rng, 5, 4), whole(rng, 3, 4)), {"dim": 0}),
        Sample((array(rng, 2, 5, 3), whole(rng, 2, 7, 2)), {"dim": 1}),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 2)), np.zeros(2, np.int64)), {"dim": 0}, RuntimeError, "same num"),
        ErrorSample((np.ones(2), np.zeros(2)), {"dim": 0}, RuntimeError, "int64"),
    ),
)

SCATTER = (Arg("x"), Dim("dim"), Arg("index"), Arg("src"))
SCATTER_ERRORS = (
    ErrorSample(
        (np.ones((2, 2)), np.zeros(2, np.int64), np.ones(2)), {"dim": 0}, RuntimeError, "same num"
    ),
)


def scatter_dim(x: Any, dim: int, index: Any, src: Any, kind: str) -> Any:
    """scatter_nd at `places`; src may be larger than index."""
    if x.ndim == 0:
        flat = [reshape(v, (1,)) for v in (x, index, src)]
        return reshape(scatter_dim(flat[0], 0, flat[1], flat[2], kind), ())
    return scatter_joined(x, cut(src, index.shape), places(index, dim), kind)


def cut(src: Any, shape: Shape) -> Any:
    """The first elements of src along every dim."""
    for d, size in enumerate(shape):
        if src.shape[d] != size:
            src = slice_dim(src, src.shape, d, 0, size)
    return src


def uncut(g: Any, have: Shape, want: Shape, dtype: Any) -> Any:
    """The gradient of cut."""
    if have == want:
        return g
    steps, start = (1,) * len(want), (0,) * len(want)
    return slice_scatter_(zeros(want, dtype), g, start, have, steps)


def scatter_samples(rng: Rng) -> list[Sample]:
    at = np.stack([rng.permutation(5)[:3] for _ in range(4)], 1)
    return [
        Sample((array(rng, 5, 4), at, array(rng, 3, 4)), {"dim": 0}),
        Sample((array(rng, 3, 5), at.T[:2], array(rng, 3, 3)), {"dim": 1}),
    ]


def add_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 5, 4), whole(rng, 3, 4), array(rng, 3, 4)), {"dim": 0}),
        Sample((array(rng, 3, 5), whole(rng, 2, 3), array(rng, 3, 4)), {"dim": 1}),
    ]


def _numpy_scatter(rule: Any) -> Any:
    def apply(x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray:
        result = np.array(x)
        part = src[tuple(slice(0, n) for n in index.shape)]
        if rule is None:
            result[numpy_places(index, dim)] = part
        else:
            rule.at(result, numpy_places(index, dim), part)
        return result

    return apply


def scatter_grad(g: Any, dim: int, index: Any, meta: Meta) -> tuple:
    hole = zeros(tuple(index.shape), meta.dtype("x"))
    by_src = uncut(at_dim(g, index, dim), index.shape, meta.shape("src"), meta.dtype("src"))
    return scatter(g, dim, index, hole), None, by_src


def scatter_add_grad(g: Any, dim: int, index: Any, meta: Meta) -> tuple:
    by_src = uncut(at_dim(g, index, dim), index.shape, meta.shape("src"), meta.dtype("src"))
    return g, None, by_src


scatter = composite(
    "scatter",
    "x with src written at the indices along dim.",
    SCATTER,
    lambda x, dim, index, src: scatter_dim(x, dim, index, src, "set"),
    _numpy_scatter(None),
    scatter_grad,
    shape=operand_shape,
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.scatter", "Tensor.scatter", "Tensor.scatter_"),
    check=check_index,
    samples=scatter_samples,
    error_samples=SCATTER_ERRORS,
)
scatter_add = composite(
    "scatter_add",
    "x with src added at the indices along dim, in order.",
    SCATTER,
    lambda x, dim, index, src: scatter_dim(x, dim, index, src, "sum"),
    _numpy_scatter(np.add),
    scatter_add_grad,
    shape=operand_shape,
    dtype=operand_dtype,
    torch=("torch.scatter_add", "Tensor.scatter_add", "Tensor.scatter_add_"),
    check=check_index,
    samples=add_samples,
    error_samples=SCATTER_ERRORS,
)

KINDS = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min", "mean": "sum"}
NUMPY = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
# What a place starts from when its own value does not count.
START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": float("-inf"), "amin": float("inf")}


def check_reduce(call: Call) -> None:
    check_index(call)
    if call["reduce"] not in KINDS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {call['reduce']}."
        )


def scatter_reduce_decompose(
    x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
) -> Any:
    start = x
    if not include_self:
        touched = scatter_dim(
            to_dtype(x, int64) * 0, dim, index, to_dtype(src, int64) * 0 + 1, "set"
        )
        edge = START[reduce] if x.dtype.is_inexact else _whole_edge(x.dtype, reduce)
        start = where(eq(touched, 1), edge, x)
    total = scatter_dim(start, dim, index, src, KINDS[reduce])
    if reduce != "mean":
        return total
    ones = to_dtype(src, int64) * 0 + 1
    count = scatter_dim(to_dtype(x, int64) * 0 + int(include_self), dim, index, ones, "sum")
    count = to_dtype(where(eq(count, 0), 1, count), x.dtype)
    return total / count if x.dtype.is_inexact else floor_divide(total, count)


def _whole_edge(dtype: Any, reduce: str) -> int:
    if reduce in ("sum", "mean", "prod"):
        return int(START[reduce])
    if dtype.kind == "bool":
        return reduce == "amin"
    limits = np.iinfo(dtype.np)
    return int(limits.min if reduce == "amax" else limits.max)


def scatter_reduce_reference(
    x: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, reduce: str, include_self: bool
) -> np.ndarray:
    at = numpy_places(index, dim)
    part = src[tuple(slice(0, n) for n in index.shape)]
    result = np.array(x)
    if not include_self:
        result[at] = START[reduce]
    NUMPY["sum" if reduce == "mean" else reduce].at(result, at, part)
    if reduce == "mean":
        count = np.full(x.shape, int(include_self))
        np.add.at(count, at, 1)
        result = result / np.where(count == 0, 1, count)
    return result


scatter_reduce = composite(
    "scatter_reduce",
    "x joined with src at the indices along dim by sum, prod, mean, amax or amin.",
    (*SCATTER, Attr("reduce"), Attr("include_self", True)),
    scatter_reduce_decompose,
    scatter_reduce_reference,
    shape=operand_shape,
    dtype=operand_dtype,
    torch=("torch.scatter_reduce", "Tensor.scatter_reduce", "Tensor.scatter_reduce_"),
    check=check_reduce,
    samples=lambda rng: [
        Sample(s.args, {**s.attrs, "reduce": kind, "include_self": own})
        for s in add_samples(rng)
        for kind in KINDS
        for own in (True, False)
    ],
    error_samples=(
        ErrorSample(
            (np.ones(2), np.zeros(2, np.int64), np.ones(2)),
            {"dim": 0, "reduce": "max"},
            RuntimeError,
            "must be either sum",
        ),
    ),
)


def dim_first(ndim: int, dim: int) -> tuple[int, ...]:
    return (dim, *(i for i in range(ndim) if i != dim))


def dim_back(ndim: int, dim: int) -> tuple[int, ...]:
    """Undo dim_first."""
    return (*range(1, dim + 1), 0, *range(dim + 1, ndim))


def check_line(call: Call) -> None:
    index = call["index"]
    if index.ndim > 1:
        raise IndexError(f"{call.op.name}(): Index is supposed to be a vector")
    if index.dtype is not int64:
        raise RuntimeError(f"{call.op.name}(): Expected dtype int64 for index")


def index_select_decompose(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0:
        return x
    index = reshape(index, (index.numel(),))
    lines = gather_nd(permute(x, dim_first(x.ndim, dim)), [index])
    return permute(lines, dim_back(x.ndim, dim))


def index_select_shape(call: Call) -> Shape:
    shape = call["x"].shape
    return replace_dim(shape, call["dim"], call["index"].numel()) if shape else ()


index_select = composite(
    "index_select",
    "The lines of x along dim that a vector of indices names.",
    (Arg("x"), Dim("dim"), Arg("index")),
    index_select_decompose,
    lambda x, index, dim: np.take(x, index, dim),
    lambda g, dim, index, meta: (
        index_add(zeros(meta.shape("x"), meta.dtype("x")), dim, index, g),
        None,
    ),
    shape=index_select_shape,
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.index_select", "Tensor.index_select"),
    check=check_line,
    samples=lambda rng: [
        Sample((array(rng, 5, 4), whole(rng, 3)), {"dim": 0}),
        Sample((array(rng, 2, 5, 3), whole(rng, 6)), {"dim": 1}),
    ],
    error_samples=(
        ErrorSample((np.ones(3), np.zeros((1, 1), np.int64)), {"dim": 0}, IndexError, "vector"),
    ),
)


def lines_scatter(x: Any, dim: int, index: Any, source: Any, kind: str) -> Any:
    if x.ndim == 0:
        return reshape(lines_scatter(reshape(x, (1,)), 0, index, reshape(source, (1,)), kind), ())
    front = dim_first(x.ndim, dim)
    at = [reshape(index, (index.numel(),))]
    total = scatter_joined(permute(x, front), permute(source, front), at, kind)
    return permute(total, dim_back(x.ndim, dim))


def _numpy_lines(rule: Any) -> Any:
    def apply(x: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int) -> np.ndarray:
        result = np.moveaxis(np.array(x), dim, 0).copy()
        lines = np.moveaxis(source, dim, 0)
        for i, line in zip(index, lines, strict=True):
            result[i] = line if rule is None else rule(result[i], line)
        return np.moveaxis(result, 0, dim)

    return apply


LINES = (Arg("x"), Dim("dim"), Arg("index"), Arg("source"))


def lines_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 5, 4), rng.permutation(5)[:3], array(rng, 3, 4)), {"dim": 0}),
        Sample((array(rng, 2, 5), rng.permutation(5)[:3], array(rng, 2, 3)), {"dim": 1}),
    ]


index_add = composite(
    "index_add",
    "x with the lines of source added at the indices along dim, in order.",
    LINES,
    lambda x, dim, index, source: lines_scatter(x, dim, index, source, "sum"),
    _numpy_lines(np.add),
    lambda g, dim, index: (g, None, index_select(g, dim, index)),
    shape=operand_shape,
    dtype=operand_dtype,
    torch=(),
    check=check_line,
    samples=lines_samples,
)
index_copy = composite(
    "index_copy",
    "x with the lines of source written at the indices along dim.",
    LINES,
    lambda x, dim, index, source: lines_scatter(x, dim, index, source, "set"),
    _numpy_lines(None),
    lambda g, dim, index, meta: (
        index_copy(g, dim, index, zeros(meta.shape("source"), meta.dtype("x"))),
        None,
        index_select(g, dim, index),
    ),
    shape=operand_shape,
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.index_copy", "Tensor.index_copy", "Tensor.index_copy_"),
    check=check_line,
    samples=lines_samples,
)
