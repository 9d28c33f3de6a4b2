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


class SparseGather(torch.autograd.Function):
    """`gather` whose gradient has the elements that were read only, each as often as it was."""

    @staticmethod
    def forward(ctx: Any, input: Any, dim: int, index: Any) -> Any:
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, input.shape
        return torch.gather(input, dim, index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        (index,) = ctx.saved_tensors
        where = [torch.arange(size, device=index.device) for size in index.shape]
        grids = list(torch.meshgrid(*where, indexing="ij"))
        grids[ctx.dim] = index
        places = torch.stack([grid.reshape(-1) for grid in grids])
        return make("coo", (places,), grad.reshape(-1), ctx.shape), None, None


def sparse_gather(input: Any, dim: int, index: Any) -> Any:
    """`torch.gather(input, dim, index)` with a sparse gradient."""
    return SparseGather.apply(input, dim, index)


__all__ = ["sparse_embedding", "sparse_gather"]
