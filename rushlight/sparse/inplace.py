"""Functions that change a tensor in place, of which one is sparse. A sparse tensor that is changed
gets other indices and values; who holds the old ones keeps them."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.sparse.answers import add, div, is_sparse, mul
from rushlight.sparse.convert import to_coo
from rushlight.sparse.tensor import OPS, SparseTensor, make


def become(x: SparseTensor, found: SparseTensor) -> SparseTensor:
    """Let `x` be `found` from now on."""
    x._storage, x._counter, x._shape = found._storage, found._counter, found._shape
    x.kind, x.index, x.vals, x.sorted_once = found.kind, found.index, found.vals, found.sorted_once
    return x


def add_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """a += alpha * b: into the elements of a dense tensor, or sparse to sparse."""
    if is_sparse(a):
        return become(a, add(a, b, alpha=alpha))
    found = to_coo(b)
    values = found.vals.to(a.dtype) * alpha
    return a.index_put_(tuple(found.index[0].unbind(0)), values, accumulate=True)


def sub_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return add_(a, b, alpha=-alpha)


def zero_(x: SparseTensor) -> SparseTensor:
    """No element is left."""
    found = to_coo(x)
    empty = torch.zeros(found.sparse_dim(), 0, dtype=torch.int64, device=x.device)
    return become(x, make("coo", (empty,), found.vals[:0], found._shape, True))


def copy_(a: Any, b: Any, non_blocking: bool = False) -> Any:
    """Take over the elements of `b`, which has the same shape."""
    if not (is_sparse(a) and is_sparse(b)) or a._shape != b._shape:
        raise RuntimeError("copy_: a sparse tensor is copied to a sparse one of the same shape")
    return become(a, b.like(b.vals.to(a.dtype).clone()))


OPS.update(
    add_=add_, __iadd__=add_, sub_=sub_, __isub__=sub_, zero_=zero_, copy_=copy_,
    mul_=lambda x, value: become(x, mul(x, value)),
    __imul__=lambda x, value: become(x, mul(x, value)),
    div_=lambda x, value: become(x, div(x, value)),
    __itruediv__=lambda x, value: become(x, div(x, value)),
)  # fmt: skip
__all__ = ["add_", "copy_", "sub_", "zero_"]
