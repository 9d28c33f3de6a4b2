"""Functions whose result's shape depends on values: unique, repeat_interleave, bincount; counts
and hashes of elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import float32, float64, int64, uint64
from rushlight.engine.capture import open_session
from rushlight.ir.arguments import wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import arange, full
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_reduce import amax, amin
from rushlight.tensors.functions_select import index_add_, index_select, known
from rushlight.tensors.functions_shape import cat
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import expand, movedim, reshape, unsqueeze
from rushlight.tensors.interop import look, look_at_all
from rushlight.tensors.placing import brought
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, new_tensor


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    values = look(input)
    found = np.unique(values, return_inverse=True, return_counts=True, axis=dim)
    inverse = found[1].reshape(values.shape if dim is None else -1)
    results = [known(found[0], input)]
    if return_inverse:
        results.append(known(inverse.astype(np.int64), input))
    if return_counts:
        results.append(known(found[2].astype(np.int64), input))
    return results[0] if len(results) == 1 else tuple(results)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    values = look(input) if dim is not None else look(input).reshape(-1)
    axis = dim or 0
    moved = np.moveaxis(values, axis, 0)
    fresh = np.ones(len(moved), bool)
    if len(moved) > 1:
        fresh[1:] = (moved[1:] != moved[:-1]).reshape(len(moved) - 1, -1).any(1)
    starts = np.flatnonzero(fresh)
    results = [known(np.moveaxis(moved[fresh], 0, axis), input)]
    if return_inverse:
        inverse = np.cumsum(fresh) - 1
        inverse = inverse.reshape(input._shape if dim is None else -1)
        results.append(known(inverse.astype(np.int64), input))
    if return_counts:
        results.append(known(np.diff(np.append(starts, len(moved))).astype(np.int64), input))
    return results[0] if len(results) == 1 else tuple(results)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    if repeats is None:
        return _repeated(input)
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    dim = wrap_dim(dim, input.dim())
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        whole = np.unique(look_at_all(repeats))
        repeats = int(whole[0]) if len(whole) == 1 else int(repeats.item())
    if isinstance(repeats, int):
        wide = expand(unsqueeze(input, dim + 1),
                      (*input._shape[: dim + 1], repeats, *input._shape[dim + 1 :]))  # fmt: skip
        shape = list(input._shape)
        shape[dim] *= repeats
        return apply(ops.reshape, (wide, tuple(shape)))
    repeats = repeats if isinstance(repeats, Tensor) else known(np.asarray(repeats, np.int64))
    if repeats.numel() != input._shape[dim]:
        raise RuntimeError("repeats must have the same size as input along dim, but got "
                           f"repeats.size(0) = {repeats.numel()} and input.size({dim}) = "
                           f"{input._shape[dim]}")  # fmt: skip
    return index_select(input, dim, _repeated(repeats))


def _repeated(repeats: Tensor) -> Tensor:
    """0, 1, ... each as often as it is said: by all examples of a vmapped call equally often."""
    size = repeats.numel()
    counts = look_at_all(repeats).reshape((-1, size) if size else (1, 0))
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    totals = counts.sum(1)
    if len(counts) == 1:
        return known(np.repeat(np.arange(size), counts[0]), repeats)
    if (totals != totals[0]).any():
        look(repeats)  # the examples differ in size, so each is done alone
    return bounds_up_to(apply(ops.cumsum, (repeats.to(int64), 0)), int(totals[0]))


def bounds_up_to(bounds: Tensor, size: int) -> Tensor:
    """For each of 0, 1, ... size - 1 how many numbers of a line of bounds are not above it."""
    held, last = bounds.to(int64).clamp(0, size), bounds.dim() - 1
    nothing = full((*bounds._shape[:-1], size + 1), 0, dtype=int64)
    ones = full(bounds._shape, 1, dtype=int64)
    marks = apply(ops.scatter_reduce, (nothing, last, held, ones, "sum", True))
    return narrow(apply(ops.cumsum, (marks, last)), last, 0, size)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    if not input._dtype.is_integral:
        raise NotImplementedError(
            f"\"bincount_cpu\" not implemented for '{input._dtype.scalar_name}'"
        )
    values = look(input)
    if values.ndim != 1 or (values.size and values.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    size = max(int(values.max()) + 1 if values.size else 0, minlength)
    if weights is not None and weights._dtype is not float32:
        weights = weights.to(float64)
    dtype = int64 if weights is None else weights._dtype
    base = new_tensor(ops.expand.node(ops.cast.node(arange(1)._value(), dtype), (size,)))
    src = weights if weights is not None else expand(tensor_of(1), input._shape)
    return index_add_(brought(base, input), 0, input, src)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max]; min = max: of the range
    of the elements. Raises RuntimeError where the range is not finite.

    >>> import rushlight as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if input._dtype.kind != "float":
        raise NotImplementedError(
            f"\"histogram_cpu\" not implemented for '{input._dtype.scalar_name}'"
        )
    x = reshape(input.detach(), (-1,))
    low, high = _range_of_bins(x, min, max)
    inside = apply(ops.logical_and, (x >= low, x <= high))
    place = ((x - low) * bins / (high - low)).to(int64).clamp(0, bins - 1)
    place = apply(ops.where, (inside, place, 0))
    counts = index_add_(brought(full((bins,), 0, dtype=int64), x), 0, place, inside.to(int64))
    return counts.to(input._dtype)


def _range_of_bins(x: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """The range asked for, or that of the values; one wider on both sides where it is one point."""
    if low > high:
        raise RuntimeError("torch.histc: max must be larger than min")
    ends = tuple(full((), float(end), dtype=x._dtype) for end in (low, high))
    if low == high and x.numel():
        ends = amin(x), amax(x)
        finite = open_session() is not None or np.isfinite([look(end).item() for end in ends]).all()
    else:
        finite = np.isfinite([low, high]).all()
    if not finite:
        values = ", ".join(f"{look(end).item():g}" for end in ends)
        raise RuntimeError(f"torch.histc: range of [{values}] is not finite")
    same = ends[0] == ends[1]
    return tuple(apply(ops.where, (same, end + side, end))  # type: ignore[return-value]
                 for end, side in zip(ends, (-1, 1), strict=True))  # fmt: skip


def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The xor of the elements' bits (as 64 bit numbers) along dim."""
    if input._dtype.kind == "float":
        bits = apply(ops.bitcast, (input.detach().to(float64), int64))
    else:
        bits = input.to(int64)
    dims = range(input.dim()) if dim in ((), None, []) else [dim] if isinstance(dim, int) else dim
    axes = sorted({wrap_dim(d, input.dim()) for d in dims}) if input.dim() else []
    kept = [n for i, n in enumerate(input._shape) if i not in axes]
    count = math.prod(input._shape[i] for i in axes)
    found = _xor_of_rows(reshape(movedim(bits, axes, range(len(axes))), (count, *kept)))
    shape = [1 if i in axes else n for i, n in enumerate(input._shape)] if keepdim else kept
    return apply(ops.bitcast, (reshape(found, shape), uint64))


def _xor_of_rows(bits: Tensor) -> Tensor:
    """Halves joined until one row is left; of no rows it is 0."""
    count = bits._shape[0]
    if not count:
        return full((1, *bits._shape[1:]), 0, dtype=int64)
    while count > 1:
        half = count // 2
        pairs = narrow(bits, 0, 0, half) ^ narrow(bits, 0, half, half)
        bits = cat([pairs, narrow(bits, 0, 2 * half, 1)]) if count % 2 else pairs
        count -= half
    return bits


FUNCTIONS: dict[str, Callable] = by_name(
    unique, unique_consecutive, repeat_interleave, bincount, histc, hash_tensor
)
METHODS: dict[str, Callable] = FUNCTIONS
