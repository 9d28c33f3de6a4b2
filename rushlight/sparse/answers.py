"""What public functions do with sparse tensors: `OPS`, by the function's name.

Functions of one element that keep zero work on the values; products with dense tensors gather and
add; the rest is refused by name (see `tensor.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.sparse.convert import (
    coalesce,
    flat_index,
    in_layout,
    sparse_mask,
    to_coo,
    to_dense,
    to_sparse,
    to_sparse_bsc,
    to_sparse_bsr,
    to_sparse_csc,
    to_sparse_csr,
    unflattened,
)
from rushlight.sparse.joins import cat, stack, unsqueeze
from rushlight.sparse.printing import text
from rushlight.sparse.products import addmm, bmm, matmul
from rushlight.sparse.tensor import OPS, SparseTensor, make
from rushlight.sparse.turns import permute, t, transpose

# f(0) == 0, so only the values change.
KEEP_ZERO = """abs absolute neg negative sqrt square sin sinh tan tanh asin asinh atan atanh arcsin
arctan ceil floor round trunc frac expm1 log1p relu sign sgn erf erfinv deg2rad rad2deg positive
nan_to_num isnan isinf""".split()
# What changes the values, not the pattern, and is no function of one element.
OF_VALUES = "to float double half bfloat16 int long cpu cuda detach clone contiguous type".split()


def is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor)


def of_values(name: str) -> Callable[..., Any]:
    """The method `name` of the values, in the same pattern."""

    def call(x: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        kwargs.pop("memory_format", None)
        found = coalesce(x) if name in KEEP_ZERO and x.kind == "coo" else x
        return found.like(getattr(found.vals, name)(*args, **kwargs))

    return call


def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """sparse + sparse is sparse, dense + sparse is dense."""
    if not is_sparse(a):
        return a + alpha * to_dense(b)
    if not is_sparse(b):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if a._shape != b._shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {tuple(a._shape)} != "
            f"{tuple(b._shape)}"
        )
    x, y = to_coo(a), to_coo(b)
    where = torch.cat([x.index[0], y.index[0]], 1)
    values = torch.cat([x.vals, y.vals * alpha])
    found = make("coo", (where,), values, a._shape)
    return in_layout(coalesce(found) if x.sorted_once and y.sorted_once else found, a)


def sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    return add(a, b, alpha=-alpha)


def mul(a: Any, b: Any) -> SparseTensor:
    """Element by element: the pattern of the sparse one, or of both."""
    if not is_sparse(a):
        a, b = b, a
    if not isinstance(b, torch.Tensor) or (not is_sparse(b) and b.dim() == 0):
        return a.like(a.vals * b)
    x = coalesce(to_coo(a))
    if not is_sparse(b):
        return in_layout(sparse_mask(torch.broadcast_to(b, x._shape), x).like(
            x.vals * torch.broadcast_to(b, x._shape)[tuple(x.index[0].unbind(0))]), a)  # fmt: skip
    y = coalesce(to_coo(b))
    kept = torch.isin(flat_index(x), flat_index(y)).nonzero().flatten()
    other = to_dense(y)[tuple(x.index[0].unbind(0))]
    where, values = x.index[0][:, kept], (x.vals * other)[kept]
    return in_layout(make("coo", (where,), values, x._shape, True), a)


def div(a: SparseTensor, b: Any, *, rounding_mode: Any = None) -> SparseTensor:
    """By a number."""
    if not is_sparse(a) or (isinstance(b, torch.Tensor) and (is_sparse(b) or b.dim())):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor")
    return a.like(torch.div(a.vals, b, rounding_mode=rounding_mode))


def power(a: SparseTensor, exponent: Any) -> SparseTensor:
    if not isinstance(exponent, int | float) or exponent <= 0:
        raise RuntimeError("pow of a sparse tensor needs a positive number as exponent")
    found = coalesce(a) if a.kind == "coo" else a
    return found.like(found.vals**exponent)


def total(x: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """torch.sparse.sum: a number, or sparse where sparse dimensions are left."""
    x = x if dtype is None else x.like(x.vals.to(dtype))
    if dim is None or dim == ():
        return x.vals.sum()
    gone = {d % x.dim() for d in ([dim] if isinstance(dim, int) else dim)}
    x = to_coo(x)
    count = x.sparse_dim()
    dense = [d - count + 1 for d in gone if d >= count]
    values = x.vals.sum(dense) if dense else x.vals
    left = [d for d in range(count) if d not in gone]
    size = tuple(s for d, s in enumerate(x._shape) if d not in gone)
    if not left:
        return values.sum(0)
    found = make("coo", (x.index[0][left],), values, size)
    return coalesce(found)


def softmax(x: SparseTensor, dim: int, *, dtype: Any = None, log: bool = False) -> SparseTensor:
    """Over the values that are there: absent ones count as minus infinity."""
    found = coalesce(to_coo(x if dtype is None else x.like(x.vals.to(dtype))))
    dim = dim % found.dim()
    if dim >= found.sparse_dim():
        values = found.vals.log_softmax(dim - found.sparse_dim() + 1)
        return found.like(values if log else values.exp())
    others = [d for d in range(found.sparse_dim()) if d != dim]
    groups = make("coo", (found.index[0][others],), found.vals, [found._shape[d] for d in others])
    _, group = torch.unique(flat_index(groups), return_inverse=True)
    count = int(group.max()) + 1 if group.shape[0] else 0
    shape = (count, *found.vals.shape[1:])
    at = group.reshape(-1, *[1] * found.dense_dim()).expand(found.vals.shape)
    lowest = torch.full(shape, float("-inf"), dtype=found.dtype, device=found.device)
    top = lowest.scatter_reduce(0, at, found.vals.detach(), "amax")
    shifted = found.vals - top[group]
    zero = torch.zeros(shape, dtype=found.dtype, device=found.device)
    sums = zero.index_add(0, group, shifted.exp())
    values = shifted - sums[group].log()
    return found.like(values if log else values.exp())


def index_select(x: SparseTensor, dim: int, index: Any) -> SparseTensor:
    """Rows by number, in that order."""
    found = coalesce(to_coo(x))
    dim = dim % x.dim()
    if dim >= found.sparse_dim():
        values = found.vals.index_select(dim - found.sparse_dim() + 1, index)
        size = list(found._shape)
        size[dim] = index.shape[0]
        return make("coo", found.index, values, size, True)
    pairs = (found.index[0][dim].unsqueeze(0) == index.unsqueeze(1)).nonzero()
    where = found.index[0][:, pairs[:, 1]].clone()
    where[dim] = pairs[:, 0]
    size = list(found._shape)
    size[dim] = index.shape[0]
    return make("coo", (where,), found.vals[pairs[:, 1]], size)


def select(x: SparseTensor, dim: int, index: int) -> Any:
    """One row, a tensor of one dimension less."""
    row = index_select(x, dim, torch.tensor([index % x._shape[dim]]))
    return total(row, dim) if to_coo(x).sparse_dim() > 1 else row.vals.sum(0)


def getitem(x: SparseTensor, index: Any) -> Any:
    """By whole numbers only."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(part, int) for part in parts):
        raise NotImplementedError(
            "indexing of a sparse tensor takes whole numbers only: use .to_dense() first"
        )
    for part in parts:
        x = select(x, 0, part)
    return x


def reshape(x: SparseTensor, *shape: Any) -> SparseTensor:
    """Of a tensor whose dimensions are all sparse."""
    size = tuple(shape[0] if isinstance(shape[0], list | tuple) else shape)
    x = to_coo(x)
    if -1 in size:
        known = -1
        for s in size:
            known *= s
        size = tuple(x.numel() // max(known, 1) if s == -1 else s for s in size)
    return make("coo", (unflattened(flat_index(x), size),), x.vals, size, x.sorted_once)


def norm(x: SparseTensor, p: Any = "fro", *_: Any, **__: Any) -> Any:
    return coalesce(to_coo(x)).vals.norm(2 if p == "fro" else p)


def to_numpy(x: SparseTensor, *_: Any, **__: Any) -> Any:
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


def plain(name: str) -> Callable[..., Any]:
    """A method of Tensor that asks for nothing but shape and dtype."""
    method = getattr(torch.Tensor, name)
    return getattr(method, "__wrapped__", method)


OPS.update({name: of_values(name) for name in (*KEEP_ZERO, *OF_VALUES)})
OPS.update({name: plain(name) for name in (
    "size dim ndimension numel nelement element_size is_floating_point is_complex is_signed "
    "get_device").split()})  # fmt: skip
OPS.update(
    __repr__=text, __str__=text, add=add, sub=sub, subtract=sub,
    __rsub__=lambda a, b: sub(b, a), mul=mul, multiply=mul, div=div, divide=div, true_divide=div,
    pow=power, matmul=matmul, __rmatmul__=lambda a, b: matmul(b, a), mm=matmul, mv=matmul,
    spmm=matmul, dsmm=matmul, smm=matmul, addmm=addmm, bmm=bmm, t=t, transpose=transpose,
    swapaxes=transpose, swapdims=transpose, stack=stack, permute=permute, sum=total,
    softmax=softmax,
    log_softmax=lambda x, dim, **options: softmax(x, dim, log=True, **options),
    index_select=index_select, select=select, __getitem__=getitem, cat=cat, concat=cat,
    unsqueeze=unsqueeze, reshape=reshape, norm=norm, numpy=to_numpy, __array__=to_numpy,
    coalesce=coalesce, to_dense=to_dense, to_sparse=to_sparse, to_sparse_coo=to_coo,
    to_sparse_csr=to_sparse_csr, to_sparse_csc=to_sparse_csc, to_sparse_bsr=to_sparse_bsr,
    to_sparse_bsc=to_sparse_bsc, sparse_mask=sparse_mask,
    zeros_like=lambda x, **_: x.like(x.vals * 0), is_tensor=lambda x: True,
    __len__=lambda x: x._shape[0], is_nonzero=lambda x: bool(to_dense(x)),
)  # fmt: skip
