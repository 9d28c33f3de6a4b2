"""Copies of views (`unsqueeze_copy` and its like), pieces of tensors, and scatters into views.

In: a tensor and the arguments of the view. Out: values that share no memory with the input.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import PYTHON_TYPES, int64
from rushlight.tensors import functions_slices as slices
from rushlight.tensors import functions_view as views
from rushlight.tensors.apply import apply
from rushlight.tensors.convert import clone, copy_, fill_, resize_, zero_
from rushlight.tensors.creation import empty, full
from rushlight.tensors.forms import linked
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functional_pad import pad
from rushlight.tensors.functions_diagonal import diag_embed
from rushlight.tensors.functions_shape import as_strided, cat, stack
from rushlight.tensors.functions_slices import chunk, split, split_with_sizes, tensor_split
from rushlight.tensors.functions_view import alias, permute, reshape
from rushlight.tensors.out import write_out
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor


def _copying(function: Callable, name: str) -> Callable:
    def copied(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        found = function(input, *args, **kwargs)
        if isinstance(found, tuple):
            parts = tuple(clone(part) for part in found)
            if out is None:
                return parts
            for target, part in zip(out, parts, strict=True):
                write_out(target, part)
            return None
        # A copy is row-major whatever the strides of the view were.
        result = apply(ops.reshape, (found, found._shape))
        return result if out is None else write_out(out, result)

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"{function.__name__} as a copy: the result shares no memory with the input."
    return copied


def _narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    if dim >= input.dim() > 0:  # narrow has an IndexError there
        raise RuntimeError(f"Expected dim < {input.dim()} to be true, but dim is {dim}.")
    return slices.narrow(input, dim, start, length)


_VIEWS: dict[str, Callable] = {
    **by_name(
        views.expand, views.permute, views.squeeze, views.t, views.transpose, views.unsqueeze,
        views.view, slices.diagonal, slices.select, slices.split,
        slices.split_with_sizes, slices.unbind, slices.unfold,
    ),
    "alias": alias, "as_strided": as_strided, "narrow": _narrow,
    "detach": lambda input: input.detach(),
}  # fmt: skip
for _name in ("narrow", "detach"):
    _VIEWS[_name].__name__ = _name
COPIES = {f"{name}_copy": _copying(function, f"{name}_copy") for name, function in _VIEWS.items()}


# Pieces ------------------------------------------------------------------------------------


def _axis_split(name: str, axis: int, least: int) -> Callable:
    def function(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        if input.dim() < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {input.dim()} dimensions!"
            )
        dim = 0 if name == "hsplit" and input.dim() == 1 else axis
        if isinstance(indices_or_sections, int):
            size, parts = input._shape[dim], indices_or_sections
            if parts <= 0 or size % parts:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                    f"dimension {size} is not divisible by the split_size {parts}!"
                )
        return tensor_split(input, indices_or_sections, dim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"tensor_split along dimension {axis}."
    return function


hsplit = _axis_split("hsplit", 1, 1)
vsplit = _axis_split("vsplit", 0, 2)
dsplit = _axis_split("dsplit", 2, 3)


unsafe_split, unsafe_split_with_sizes, unsafe_chunk = split, split_with_sizes, chunk


def chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int, *, out: Any = None) -> Tensor:
    """Each tensor padded, cut into num_chunks along dim and flattened; the chunks side by side."""
    _check_chunk_cat(tensors, dim, num_chunks)
    if dim < 0:
        dim += tensors[0].dim()
    parts = []
    for tensor in tensors:
        size = tensor._shape[dim]
        each = -(-size // num_chunks)
        extra = each * num_chunks - size
        wide = pad(tensor, [0, 0] * (tensor.dim() - dim - 1) + [0, extra]) if extra else tensor
        parts.append(reshape(wide, (*tensor._shape[:dim], num_chunks, -1)))
    result = cat(parts, dim + 1)
    return result if out is None else write_out(out, result)


def _check_chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> None:
    ndims = {tensor.dim() for tensor in tensors}
    for wrong, text in (
        (not tensors, "a non-empty input tensor list"),
        (num_chunks < 1, "positive num_chunks"),
        (dim < 0 and len(ndims) > 1, "non-negative dim when input tensors have different ndims"),
        (any(dim >= n for n in ndims), "dim < ndim for all input tensors"),
        (any(not tensor.numel() for tensor in tensors), "non-empty tensor"),
    ):
        if wrong:
            raise RuntimeError(f"_chunk_cat expects {text}")


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """nn.functional.pad with a constant."""
    return _pad(input, list(pad), "constant", value)


_pad = pad


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channel i of group g to place i * groups + g."""
    n, channels, *rest = input._shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            "Number of channels must be divisible by groups. Got "
            f"{channels} channels and {groups} groups."
        )
    apart = reshape(input, (n, groups, channels // groups, *rest))
    order = (0, 2, 1, *range(3, apart.dim()))
    return reshape(permute(apart, order), input._shape)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with the elements of the input on a diagonal."""
    return diag_embed(reshape(input, (-1,)), offset)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """The r-element subsequences of a vector, one in each row."""
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input._shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return linked(empty(0, dtype=input._dtype), input)
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(pick(range(input.numel()), r))
    if not rows:
        return linked(empty(0, r, dtype=input._dtype), input)
    columns = [input[tensor_of(list(column), int64)] for column in zip(*rows, strict=True)]
    return stack(columns, 1)


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:  # fmt: skip
    """The input with src written to as_strided(size, stride, storage_offset)."""
    result = clone(input)
    copy_(as_strided(result, size, stride, storage_offset), src)
    return result


# Making ------------------------------------------------------------------------------------


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like the input, filled with value."""
    return fill_(clone(input), value)


def zero(input: Tensor) -> Tensor:
    """A tensor like the input, filled with zeros."""
    return zero_(clone(input))


def scalar_tensor(s: Any, **options: Any) -> Tensor:
    """A tensor without dimensions."""
    dtype = options.pop("dtype", None)
    return full((), s, dtype=PYTHON_TYPES.get(dtype, dtype), **options)


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """A tensor whose dimensions lie in memory in the given order."""
    order = [int(d) for d in physical_layout]
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout, or a "
            f"dimension is missing: size={list(size)}, physical_layout={order}"
        )
    made = empty(tuple(size[d] for d in order), **options)
    return permute(made, tuple(order.index(d) for d in range(len(order)))) if order else made


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, **options: Any):
    """empty_strided with this tensor's dtype."""
    length = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    flat = empty(length if all(size) else 0, dtype=dtype or self._dtype, **options)
    return as_strided(flat, size, stride) if all(size) else reshape(flat, tuple(size))


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """resize_ to the shape of another tensor."""
    return resize_(input, the_template._shape)


FUNCTIONS: dict[str, Callable] = {
    **COPIES,
    **by_name(
        hsplit, vsplit, dsplit, constant_pad_nd, channel_shuffle, diagflat, combinations,
        as_strided_scatter, fill, scalar_tensor, empty_permuted, resize_as_,
    ),
    "unsafe_split": split, "unsafe_split_with_sizes": split_with_sizes, "unsafe_chunk": chunk,
    "_chunk_cat": chunk_cat, "zero_": zero_,
}  # fmt: skip
METHODS: dict[str, Callable] = {
    **{
        name: FUNCTIONS[name]
        for name in """hsplit vsplit dsplit unsafe_split unsafe_chunk diagflat as_strided_scatter
        resize_as_ narrow_copy""".split()
    },
    "new_empty_strided": new_empty_strided,
}
