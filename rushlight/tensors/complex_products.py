"""Products of many complex numbers: one after the other is what a kernel cannot do to pairs.

A product is joined from halves, and running products are joined with what lies 1, 2, 4, ... before
them. Both are made of elementwise products, which also give the gradients, zeros or not.
"""

from __future__ import annotations

from rushlight import ops
from rushlight.ir.arguments import wrap_dim
from rushlight.ir.node import const_node
from rushlight.tensors.apply import apply
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import reshape, squeeze
from rushlight.tensors.tensor import Tensor


def product(x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """The product over one dim, or over all."""
    if dim is None:
        whole = product(reshape(x, (-1,)), 0, False)
        return reshape(whole, (1,) * x.dim()) if keepdim else whole
    at = wrap_dim(dim, x.dim())
    if not x.dim():
        return apply(ops.reshape, (x, ()))
    size = x._shape[at]
    if size == 1:  # a value of its own, not a view
        x = apply(ops.reshape, (x, x._shape))
    count = 1 << max(size - 1, 0).bit_length()
    x = _padded(x, at, 0, count - size)
    while count > 1:
        count //= 2
        x = apply(ops.mul, (narrow(x, at, 0, count), narrow(x, at, count, count)))
    return x if keepdim else squeeze(x, at)


def running_product(x: Tensor, dim: int) -> Tensor:
    """Products of all elements up to each one along dim."""
    at = wrap_dim(dim, x.dim())
    step, size = 1, x._shape[at] if x.dim() else 1
    while step < size:
        before = _padded(narrow(x, at, 0, size - step), at, step, 0)
        x = apply(ops.mul, (x, before))
        step *= 2
    return x if step > 1 else apply(ops.reshape, (x, x._shape))


def _padded(x: Tensor, dim: int, low: int, high: int) -> Tensor:
    """With ones before and behind."""
    if not low and not high:
        return x
    edges = (tuple(n if i == dim else 0 for i in range(x.dim())) for n in (low, high))
    return apply(ops.pad, (x, const_node(1, x._dtype), *edges, (0,) * x.dim()))
