"""Functions whose result's shape depends on values: unique, repeat_interleave, bincount, histc."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import float32, float64, int64
from rushlight.ir.arguments import wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import arange
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_select import index_add_, index_select, known
from rushlight.tensors.functions_view import expand, reshape, unsqueeze
from rushlight.tensors.interop import look
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, new_tensor


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    values = look(input)
    found = np.unique(values, return_inverse=True, return_counts=True, axis=dim)
    inverse = found[1].reshape(values.shape if dim is None else -1)
    results = [known(found[0])]
    if return_inverse:
        results.append(known(inverse.astype(np.int64)))
    if return_counts:
        results.append(known(found[2].astype(np.int64)))
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
    results = [known(np.moveaxis(moved[fresh], 0, axis))]
    if return_inverse:
        inverse = np.cumsum(fresh) - 1
        results.append(known(inverse.reshape(input._shape if dim is None else -1).astype(np.int64)))
    if return_counts:
        results.append(known(np.diff(np.append(starts, len(moved))).astype(np.int64)))
    return results[0] if len(results) == 1 else tuple(results)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    if repeats is None:
        counts = look(input)
        return known(_repeated(counts))
    if dim is None:
        input, dim = reshape(input, (-1,)), 0
    dim = wrap_dim(dim, input.dim())
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        repeats = int(repeats.item())
    if isinstance(repeats, int):
        wide = expand(unsqueeze(input, dim + 1),
                      (*input._shape[: dim + 1], repeats, *input._shape[dim + 1 :]))  # fmt: skip
        shape = list(input._shape)
        shape[dim] *= repeats
        return apply(ops.reshape, (wide, tuple(shape)))
    counts = look(repeats) if isinstance(repeats, Tensor) else np.asarray(repeats)
    if len(counts) != input._shape[dim]:
        raise RuntimeError("repeats must have the same size as input along dim, but got "
                           f"repeats.size(0) = {len(counts)} and input.size({dim}) = "
                           f"{input._shape[dim]}")  # fmt: skip
    return index_select(input, dim, known(_repeated(counts)))


def _repeated(counts: np.ndarray) -> np.ndarray:
    """0, 1, ... each as often as it is said."""
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return np.repeat(np.arange(len(counts)), counts)


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
    return index_add_(base, 0, input, src)


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    if input._dtype.kind != "float":
        raise NotImplementedError(
            f"\"histogram_cpu\" not implemented for '{input._dtype.scalar_name}'"
        )
    values = look(input).reshape(-1)
    if min == max and values.size:
        min, max = float(values.min()), float(values.max())
    counts, _ = np.histogram(values, bins, (min, max))
    return known(counts.astype(input._dtype.np))


FUNCTIONS: dict[str, Callable] = by_name(
    unique, unique_consecutive, repeat_interleave, bincount, histc
)
METHODS: dict[str, Callable] = FUNCTIONS
