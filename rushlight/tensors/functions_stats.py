"""Statistics: quantiles, medians, histograms, covariances; membership, norms of slices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import bool_, complex64, complex128, int64
from rushlight.engine.capture import open_session
from rushlight.ir.arguments import wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import full, linspace
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_complex import adjoint, imag, real
from rushlight.tensors.functions_complex import complex as complex_
from rushlight.tensors.functions_linalg import matmul
from rushlight.tensors.functions_order import need_order, sort
from rushlight.tensors.functions_reduce import any as any_
from rushlight.tensors.functions_reduce import mean
from rushlight.tensors.functions_reduce import sum as sum_
from rushlight.tensors.functions_select import (
    known,
    nonzero,
    scatter_reduce,
)
from rushlight.tensors.functions_view import expand, movedim, reshape, unsqueeze
from rushlight.tensors.interop import look
from rushlight.tensors.numbers import result_type
from rushlight.tensors.out import finish, write_out_all
from rushlight.tensors.results import result_class
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor

Median = result_class("median", ("values", "indices"))
NanMedian = result_class("nanmedian", ("values", "indices"))
Histogram = result_class("histogram", ("hist", "bin_edges"))
Histogramdd = result_class("histogramdd", ("hist", "bin_edges"))


def _where(mask: Tensor, x: Any, y: Any) -> Tensor:
    return apply(ops.where, (mask, x, y))


# Quantiles ---------------------------------------------------------------------------------

METHODS_OF_QUANTILE = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(name: str, input: Tensor, q: Tensor, interpolation: str) -> None:
    if input._dtype.name not in ("float32", "float64"):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if not input.numel():
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if q.dim() > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q._dtype is not input._dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in METHODS_OF_QUANTILE:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if open_session() is not None:
        return  # the values are those of no one call
    values = look(q.detach())
    if values.size and not ((values >= 0) & (values <= 1)).all():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip: bool
) -> Tensor:
    q = q if isinstance(q, Tensor) else tensor_of(float(q), input._dtype)
    _check_quantile(name, input, q, interpolation)
    flat = reshape(input, (-1,)) if dim is None or not input.dim() else input
    axis = 0 if dim is None else wrap_dim(dim, max(input.dim(), 1))
    ordered = movedim(sort(flat, axis)[0], axis, -1)
    missing = apply(ops.isnan, (ordered.detach(),))
    if skip:
        count = sum_(~missing, -1, True)
        last = (count - 1).clamp(min=0).to(input._dtype)
    else:
        last = full((), float(ordered._shape[-1] - 1), dtype=input._dtype)
    place = reshape(q, (-1,)) * last
    if interpolation == "nearest":
        place = apply(ops.round_, (place,))
    low, high = apply(ops.floor, (place,)), apply(ops.ceil, (place,))
    lead = ordered._shape[:-1]
    below, above = (
        apply(ops.gather, (ordered, ordered.dim() - 1, expand(v.to(int64), (*lead, q.numel()))))
        for v in (low, high)
    )
    result = {
        "linear": lambda: apply(ops.lerp, (below, above, place - low)),
        "midpoint": lambda: apply(ops.lerp, (below, above, _half(place, low))),
        "lower": lambda: below, "nearest": lambda: below, "higher": lambda: above,
    }[interpolation]()  # fmt: skip
    if not skip:
        result = _where(any_(missing, -1, True), math.nan, result)
    result = movedim(result, -1, 0)
    if keepdim:
        shape = (1,) * input.dim() if dim is None else None
        result = reshape(result, (q.numel(), *shape)) if shape is not None else (
            unsqueeze(result, axis + 1) if input.dim() else result
        )  # fmt: skip
    return result if q.dim() else result[0]


def _half(place: Tensor, low: Tensor) -> Tensor:
    return _where(place == low, 0.0, full((), 0.5, dtype=place._dtype))


def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Quantiles along dim; NaN where there is a NaN."""
    return finish(_quantile("quantile", input, q, dim, keepdim, interpolation, False), out)


def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Quantiles along dim, NaN left out."""
    return finish(_quantile("nanquantile", input, q, dim, keepdim, interpolation, True), out)


def _median(skip: bool, pair: type) -> Callable:

    def function(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None):
        flat = reshape(input, (-1,)) if dim is None or not input.dim() else input
        axis = 0 if dim is None else wrap_dim(dim, max(input.dim(), 1))
        size = flat._shape[axis]
        if not size:
            if dim is None:
                return finish(full((), math.nan, dtype=input._dtype), out)
            raise IndexError(f"median(): Expected reduction dim {axis} to have non-zero size.")
        need_order("median_cpu" if dim is None else "median_out", input)
        order = apply(ops.argsort_, (flat.detach(), axis, False))  # NaN comes last
        missing = apply(ops.isnan, (flat.detach(),))
        count = sum_(~missing, axis, True)
        place = (count - 1) // 2 if skip else _where(count == size, (size - 1) // 2, count)
        at = apply(ops.gather, (order, axis, place.clamp(min=0).to(int64)))
        values = apply(ops.gather, (flat, axis, at))
        if dim is None:
            return finish(reshape(values, ()), out)
        if not input.dim():
            values, at = reshape(values, ()), reshape(at, ())
        elif not keepdim:
            values, at = values.squeeze(axis), at.squeeze(axis)
        return write_out_all(out, pair((values, at)))

    function.__name__ = function.__qualname__ = "nanmedian" if skip else "median"
    function.__doc__ = "The lower median" + (
        ", NaN left out." if skip else "; NaN if there is one."
    )
    return function


median, nanmedian = _median(False, Median), _median(True, NanMedian)


# Histograms --------------------------------------------------------------------------------


def _edges(values: np.ndarray, bins: Any, range: Any) -> np.ndarray:
    if isinstance(bins, Tensor):
        return look(bins)
    low, high = (float(values.min()), float(values.max())) if range is None and values.size else (
        tuple(range) if range is not None else (0.0, 0.0)
    )  # fmt: skip
    if low == high:
        low, high = low - 0.5, high + 0.5
    return look(linspace(low, high, int(bins) + 1, dtype=tensor_of(values[:0])._dtype))


def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Counts (or sums of weights) in bins, and the edges of the bins."""
    values = look(input.detach()).reshape(-1)
    edges = _edges(values, bins, range)
    counts, _ = np.histogram(
        values, edges, weights=None if weight is None else look(weight.detach()).reshape(-1)
    )
    counts = counts.astype(values.dtype)
    if density:
        counts = (counts / np.diff(edges) / counts.sum()).astype(values.dtype)
    result = Histogram((known(counts, input), known(edges, input)))
    if out is None:
        return result
    return Histogram((finish(result[0], out[0]), finish(result[1], out[1])))


def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> Any:  # fmt: skip
    """A histogram of points: the last dimension of the input holds the coordinates."""
    points = look(input.detach()).reshape(-1, input._shape[-1])
    count = points.shape[1]
    each = [bins] * count if isinstance(bins, int) else list(bins)
    if len(each) != count:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    ranges = [None] * count if range is None else list(zip(range[::2], range[1::2], strict=True))
    edges = [_edges(points[:, i], b, r) for i, (b, r) in enumerate(zip(each, ranges, strict=True))]
    weights = None if weight is None else look(weight.detach()).reshape(-1)
    found = _counts(points, edges, weights)
    if density:
        volume = functools.reduce(np.multiply.outer, [np.diff(e) for e in edges])
        found = found / (volume * found.sum())
    return Histogramdd(
        (known(found.astype(points.dtype), input), tuple(known(e, input) for e in edges))
    )


def _counts(points: np.ndarray, edges: list[np.ndarray], weights: np.ndarray | None) -> np.ndarray:
    """How many points lie in each cell; the last edge belongs to the last bin. Edges that fall
    have bins that hold nothing."""
    sizes = tuple(len(e) - 1 for e in edges)
    inside, cells = np.ones(len(points), bool), []
    for column, e in zip(points.T, edges, strict=True):
        at = np.searchsorted(e, column, "right") - 1
        at[column == e[-1]] = len(e) - 2
        inside &= (column >= e[0]) & (column <= e[-1])
        cells.append(at)
    flat = np.ravel_multi_index([c[inside] for c in cells], sizes) if inside.any() else []
    kept = None if weights is None else weights[inside]
    return np.bincount(np.asarray(flat, np.int64), kept, math.prod(sizes)).reshape(sizes)


# Covariance --------------------------------------------------------------------------------


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The covariance matrix of variables (rows) by observations (columns)."""
    if input.dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.dim()} dimensions"
        )
    x = input if input.dim() == 2 else reshape(input, (1, -1))
    if not x._dtype.is_inexact:
        x = x.float()
    count = x._shape[1]
    _check_weights(fweights, "fweights", count, "int")
    _check_weights(aweights, "aweights", count, "float")
    weights = fweights
    if aweights is not None:
        weights = aweights if fweights is None else aweights * fweights
    if weights is None:
        average, total = mean(x, 1, True), count
        factor: Any = max(count - correction, 0)
        off = x - average
        scaled = off
    else:
        total = sum_(weights)
        off = x - unsqueeze(sum_(x * weights, 1), 1) / total
        scaled = off * weights
        if correction == 0 or aweights is None:
            factor = (total - correction).clamp(min=0)
        else:
            factor = (total - sum_(weights * aweights) * correction / total).clamp(min=0)
    result = matmul(off, adjoint(scaled)) / factor
    return result.squeeze() if input.dim() < 2 or x._shape[0] == 1 else result


def _check_weights(weights: Tensor | None, name: str, count: int, kind: str) -> None:
    if weights is None:
        return
    if weights.dim() > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.dim()} dimensions"
        )
    kinds = ("int", "uint") if kind == "int" else ("float",)
    if weights._dtype.kind not in kinds:
        text = "integral" if kind == "int" else "floating point"
        raise RuntimeError(
            f"cov(): expected {name} to have {text} dtype but got {name} with "
            f"{weights._dtype.name} dtype"
        )
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the "
            f"input but got {weights.numel()} != {count}"
        )
    if weights.numel() and look(weights.detach()).min() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


def corrcoef(input: Tensor) -> Tensor:
    """Correlation coefficients."""
    if input.dim() > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.dim()} dimensions"
        )
    c = cov(input)
    if not c.dim():
        return c / c
    spread = apply(ops.sqrt, (real(c.diagonal()),))
    share = c / unsqueeze(spread, 1) / unsqueeze(spread, 0)
    if not share._dtype.is_complex:
        return share.clamp(-1, 1)
    return complex_(real(share).clamp(-1, 1), imag(share).clamp(-1, 1))


# Elsewhere ---------------------------------------------------------------------------------


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """True where an element is one of the test elements.

    assume_unique: a promise that makes nothing faster here, and changes no result.
    """
    a = elements if isinstance(elements, Tensor) else tensor_of(elements)
    b = test_elements if isinstance(test_elements, Tensor) else tensor_of(test_elements)
    for x in (a, b):
        if x._dtype in (bool_, complex64, complex128):
            name = x._dtype.scalar_name
            raise RuntimeError(f"Unsupported input type encountered for isin(): {name}")
    dtype = result_type([elements, test_elements])
    found = any_(unsqueeze(a.to(dtype), -1) == reshape(b.to(dtype), (-1,)), -1)
    return finish(~found if invert else found, out)


def renorm(
    input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """Each slice along dim scaled down to norm maxnorm where it is larger."""
    dim = wrap_dim(dim, input.dim())
    if input.dim() < 2:
        raise RuntimeError("renorm: input needs at least 2 dimensions, got "
                           f"{input.dim()} dimensions")  # fmt: skip
    size = apply(
        ops.norm, (input, float(p), tuple(d for d in range(input.dim()) if d != dim), True)
    )
    return finish(input * _where(size > maxnorm, maxnorm / (size + 1e-7), 1.0), out)


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Rows of source joined with the input's at the indices by prod, mean, amax or amin."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if not input.dim():
        flat = index_reduce(reshape(input, (1,)), 0, index, reshape(source, (-1,)), reduce,
                            include_self=include_self)  # fmt: skip
        return finish(reshape(flat, ()), out)
    at = wrap_dim(dim, input.dim())
    shape = [-1 if d == at else 1 for d in range(input.dim())]
    wide = expand(reshape(index.to(int64), shape), source._shape)
    return finish(scatter_reduce(input, at, wide, source, reduce, include_self=include_self), out)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` places that are not zero, filled up with fill_value."""
    rows = nonzero(input.detach())
    rows = look(rows)[:size]
    result = np.full((size, input.dim()), fill_value, np.int64)
    result[: len(rows)] = rows
    return known(result, input)


FUNCTIONS: dict[str, Callable] = by_name(
    quantile, nanquantile, median, nanmedian, histogram, histogramdd, cov, corrcoef, isin, renorm,
    index_reduce, nonzero_static,
)  # fmt: skip
METHODS: dict[str, Callable] = by_name(
    quantile, nanquantile, median, nanmedian, histogram, cov, corrcoef, isin, renorm, index_reduce,
    nonzero_static,
)  # fmt: skip
