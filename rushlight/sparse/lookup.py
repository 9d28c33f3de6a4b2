"""Rows of a table whose gradient is a sparse tensor: only the rows that were read are in it."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.sparse.tensor import make


class SparseEmbedding(torch.autograd.Function):
    """The rows of `weight` at `index`; a row that is read twice comes twice in the gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Any, index: Any, skip: int) -> Any:
        ctx.save_for_backward(index)
        ctx.skip, ctx.shape = skip, weight.shape
        return weight[index]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        (index,) = ctx.saved_tensors
        where = index.reshape(1, -1)
        values = grad.reshape(where.shape[1], *ctx.shape[1:])
        if ctx.skip >= 0:
            kept = (where[0] != ctx.skip).nonzero().flatten()
            where, values = where[:, kept], values[kept]
        return make("coo", (where,), values, ctx.shape), None, None


def sparse_embedding(weight: Any, index: Any, skip: int) -> Any:
    """`torch.embedding(weight, index)` with a sparse gradient; index `skip` has none."""
    return SparseEmbedding.apply(weight, index, skip)


__all__ = ["sparse_embedding"]
