"""Sparse tensors side by side: cat, stack, and a new dimension for them."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.sparse.convert import to_coo
from rushlight.sparse.tensor import SparseTensor, make


def place_of(dim: int, count: int) -> int:
    """A dimension counted from the front."""
    if not -count <= dim < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got "
            f"{dim})"
        )
    return dim % count


def cat(tensors: Any, dim: int = 0) -> SparseTensor:
    """Along one dimension, sparse or dense."""
    found = [to_coo(t) for t in tensors]
    dim = dim % found[0].dim()
    if dim >= found[0].sparse_dim():
        return _cat_dense(found, dim)
    shifted, start = [], 0
    for t in found:
        offset = torch.zeros(t.sparse_dim(), 1, dtype=torch.int64, device=t.device)
        offset[dim] = start
        shifted.append(t.index[0] + offset)
        start += t._shape[dim]
    size = list(found[0]._shape)
    size[dim] = start
    values = torch.cat([t.vals for t in found])
    return make("coo", (torch.cat(shifted, 1),), values, size)


def _cat_dense(found: list[SparseTensor], dim: int) -> SparseTensor:
    """Each one's values with zeros where the others have theirs."""
    at = dim - found[0].sparse_dim() + 1
    size = list(found[0]._shape)
    size[dim] = 0
    lengths = [t._shape[dim] for t in found]
    values = []
    for number, t in enumerate(found):
        parts = []
        for other, length in enumerate(lengths):
            shape = list(t.vals.shape)
            shape[at] = length
            parts.append(t.vals if other == number else t.vals.new_zeros(shape))
        values.append(torch.cat(parts, at))
    size[dim] = sum(lengths)
    where = torch.cat([t.index[0] for t in found], 1)
    return make("coo", (where,), torch.cat(values), size)


def stack(tensors: Any, dim: int = 0) -> SparseTensor:
    """Along a new dimension."""
    first = tensors[0]._shape
    wrong = [tuple(t._shape) for t in tensors if t._shape != first]
    if wrong:
        raise RuntimeError(
            f"stack expects each tensor to be equal size, but got {list(first)} and "
            f"{list(wrong[0])}"
        )
    dim = place_of(dim, len(first) + 1)
    return cat([unsqueeze(t, dim) for t in tensors], dim)


def unsqueeze(x: SparseTensor, dim: int) -> SparseTensor:
    x = to_coo(x)
    dim = dim % (x.dim() + 1)
    if dim > x.sparse_dim():
        values = x.vals.unsqueeze(dim - x.sparse_dim() + 1)
        return make("coo", x.index, values, (*x._shape[:dim], 1, *x._shape[dim:]), x.sorted_once)
    zero = torch.zeros(1, x._nnz(), dtype=torch.int64, device=x.device)
    where = torch.cat([x.index[0][:dim], zero, x.index[0][dim:]])
    return make("coo", (where,), x.vals, (*x._shape[:dim], 1, *x._shape[dim:]), x.sorted_once)
