"""Sparse tensors with their dimensions in another order."""

from __future__ import annotations

from typing import Any

from rushlight.sparse.convert import to_coo
from rushlight.sparse.joins import place_of
from rushlight.sparse.tensor import SparseTensor, make

# The layout of a transposed matrix.
TURNED = {"csr": "csc", "csc": "csr", "bsr": "bsc", "bsc": "bsr"}


def transpose(x: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    dim0, dim1 = place_of(dim0, x.dim()), place_of(dim1, x.dim())
    if x.kind != "coo" and dim0 == dim1:
        return x
    if x.kind != "coo":
        values = x.vals.transpose(1, 2) if x.kind in ("bsr", "bsc") else x.vals
        return make(TURNED[x.kind], x.index, values, x._shape[::-1], True)
    order = list(range(x.dim()))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(x, order)


def t(x: SparseTensor) -> SparseTensor:
    """Of a matrix."""
    if x.sparse_dim() > 2 or x.dense_dim():
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{x.sparse_dim()} sparse and {x.dense_dim()} dense dimensions"
        )
    return transpose(x, 0, 1) if x.dim() == 2 else x


def permute(x: SparseTensor, *dims: Any) -> SparseTensor:
    """Of sparse dimensions among themselves, and of dense ones."""
    order = [d % x.dim() for d in (dims[0] if isinstance(dims[0], list | tuple) else dims)]
    x = to_coo(x)
    count = x.sparse_dim()
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError("permute: sparse and dense dimensions cannot be exchanged")
    where = x.index[0][order[:count]]
    values = x.vals.permute(0, *(d - count + 1 for d in order[count:]))
    return make("coo", (where,), values, tuple(x._shape[d] for d in order))
