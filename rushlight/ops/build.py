"""Small graph builders shared by rules and decompositions. They work on Nodes and on Tensors.

Everything here is written with records only, so it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.dtypes import DType, int64
from rushlight.ir.node import Node, const_node, with_dtype
from rushlight.ops.late import late
from rushlight.ops.rules import is_static, keepdim_shape


def full(shape: Sequence[Any], value: Any, dtype: DType) -> Node:
    """A constant of any shape."""
    return late.expand(const_node(value, dtype), tuple(shape))


def zeros(shape: Sequence[Any], dtype: DType) -> Node:
    return full(shape, 0, dtype)


def like(value: Any, dtype: DType) -> Any:
    """A value (number, leaf, node or tensor) in a dtype: what decompositions do with `Value`s."""
    if isinstance(value, Node) and value.leaf in ("const", "scalar"):
        return with_dtype(value, dtype)
    if not hasattr(value, "dtype"):
        return const_node(value, dtype)
    return to_dtype(value, dtype)


def to_dtype(x: Any, dtype: DType) -> Any:
    """x itself, or its cast."""
    return x if x.dtype is dtype else late.cast(x, dtype)


def conj_of(x: Any) -> Any:
    """The conjugate; a real value is its own."""
    return late.conj(x) if x.dtype.is_complex else x


def real_of(x: Any) -> Any:
    """The real part; a real value is its own."""
    return late.real(x) if x.dtype.is_complex else x


def squared_size(x: Any) -> Any:
    """x * x; of a complex value re * re + im * im."""
    if not x.dtype.is_complex:
        return x * x
    re, im = late.real(x), late.imag(x)
    return re * re + im * im


def sum_to_shape(g: Any, have: Sequence[Any], want: Sequence[Any]) -> Any:
    """Sum a value of shape `have`, the broadcast of `want`, down to `want`."""
    have, want = tuple(have), tuple(want)
    if have == want:
        return g
    lead = len(have) - len(want)
    dims = tuple(i for i in range(len(have)) if i < lead or (want[i - lead] == 1 != have[i]))
    if dims:
        g = late.reduce_sum(g, dims)
    return reshape_to(g, tuple(s for i, s in enumerate(have) if i not in dims), want)


def reshape_to(x: Any, have: Sequence[Any], want: Sequence[Any]) -> Any:
    """reshape, or x itself when the shape is right."""
    return x if tuple(have) == tuple(want) else late.reshape(x, tuple(want))


def expand_to(x: Any, have: Sequence[Any], want: Sequence[Any]) -> Any:
    return x if tuple(have) == tuple(want) else late.expand(x, tuple(want))


def unreduce(x: Any, shape: Sequence[Any], dims: Sequence[int], keepdim: bool = False) -> Any:
    """The result of a reduction of `shape` over dims, repeated to `shape`."""
    kept = keepdim_shape(tuple(shape), dims)
    return expand_to(x if keepdim else late.reshape(x, kept), kept, shape)


def keep(x: Any, shape: Sequence[Any], dims: Sequence[int]) -> Any:
    """The result of a reduction of `shape` over dims, with those dims back as 1."""
    return late.reshape(x, keepdim_shape(tuple(shape), dims)) if dims else x


def pad_dim(x: Any, ndim: int, dim: int, low: Any, high: Any, fill: Any, dtype: DType) -> Any:
    """pad along one dimension."""
    if low == 0 and high == 0:
        return x
    lows = tuple(low if i == dim else 0 for i in range(ndim))
    highs = tuple(high if i == dim else 0 for i in range(ndim))
    return late.pad(x, const_node(fill, dtype), lows, highs, (0,) * ndim)


def slice_dim(
    x: Any, shape: Sequence[Any], dim: int, start: Any, length: Any, step: int = 1
) -> Any:
    """slice_ along one dimension."""
    starts = tuple(start if i == dim else 0 for i in range(len(shape)))
    lengths = tuple(length if i == dim else size for i, size in enumerate(shape))
    steps = tuple(step if i == dim else 1 for i in range(len(shape)))
    return late.slice_(x, starts, lengths, steps)


def iota_along(ndim: int, dim: int, length: Any, dtype: DType = int64) -> Node:
    """0, 1, 2, ... along `dim` of a value with ndim dimensions (the others have size 1)."""
    shape = tuple(length if i == dim else 1 for i in range(ndim))
    return late.reshape(late.iota(length, dtype), shape)


def swap_last(x: Any, ndim: int) -> Any:
    """Transpose the last two dimensions."""
    return late.permute(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def size_value(size: Any, dtype: DType = int64) -> Node:
    """A size as a 0-dim operand. A symbolic one is the last element of an iota: an index."""
    if is_static(size):
        return const_node(size, dtype)
    last = late.slice_(late.iota(size + 1, int64), (size,), (1,), (1,))
    return to_dtype(late.reshape(last, ()), dtype)


def count_value(sizes: Sequence[Any], dtype: DType) -> Node:
    """How many elements some dims have together, as a 0-dim operand (ops/sizes.py)."""
    return late.size_product(tuple(sizes), dtype)


def wrap_index(index: Any, size: Node) -> Any:
    """Negative indices count from the end; `size` as a 0-dim operand."""
    return late.where(late.lt(index, 0), late.add(index, size), index)
