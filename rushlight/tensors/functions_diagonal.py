"""Triangles and diagonals of matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.ir.arguments import wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.from_data import placed, tensor_of
from rushlight.tensors.functions_slices import diagonal
from rushlight.tensors.functions_view import permute
from rushlight.tensors.indexing import fill
from rushlight.tensors.tensor import Tensor


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    return apply(ops.tril, (input, diagonal))


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    return apply(ops.triu, (input, diagonal))


def tril_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    return _triangle_places(np.tri(row, col, offset, bool), options)


def triu_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    return _triangle_places(~np.tri(row, col, offset - 1, bool), options)


def _triangle_places(inside: np.ndarray, options: dict[str, Any]) -> Tensor:
    """The rows, then the columns, of what is inside."""
    places = tensor_of(np.argwhere(inside).T.astype(np.int64)).to(options.get("dtype") or int64)
    return placed(places, options.get("device"))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    if input.dim() == 1:
        return diag_embed(input, diagonal)
    if input.dim() != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.dim()}D")
    return _diagonal(input, diagonal).clone()


_diagonal = diagonal


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    offset, ndim = operator.index(offset), input.dim() + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    result = apply(ops.diag_embed, (input, offset))
    order = [d for d in range(ndim) if d not in (a, b)]
    places = [order.index(d) if d in order else (ndim - 2 if d == a else ndim - 1)
              for d in range(ndim)]  # fmt: skip
    return permute(result, places)


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    result = input.clone()
    fill(diagonal(result, offset, dim1, dim2), src)
    return result


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number at (i, i, ...), in place. wrap: a tall matrix has it again one row below."""
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self._shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    rows, columns = self._shape[:2]
    for start in range(0, rows, columns + 1) if wrap and self.dim() == 2 else (0,):
        line = diagonal(self[start:])
        while line.dim() > 1:
            line = diagonal(line, 0, 0, -1)
        line.fill_(fill_value)
    return self
