"""Views of a part of the elements: narrow, select, split, chunk, windows, diagonals.

Each makes the view's steps (movement records), and the size, stride and offset that PyTorch shows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rushlight import ops
from rushlight.autograd.mode import STATE
from rushlight.ir.arguments import whole_number, wrap_dim
from rushlight.tensors.functions_view import reshape_step, squeeze, unsqueeze
from rushlight.tensors.size import KEPT
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, make_view


def sliced(input: Tensor, start: tuple, length: tuple, step: tuple, label: str) -> Tensor:
    """A region along every dimension."""
    strides = input.stride()
    offset = input.storage_offset() + sum(s * st for s, st in zip(start, strides, strict=True))
    moved = tuple([a * b for a, b in zip(strides, step, strict=True)])
    whole = length == input._shape
    if 0 in length:  # nothing is read: the start is only what PyTorch shows as offset
        start = (0,) * len(start)
    steps = () if whole else ((ops.slice_, (start, length, step), length, None),)
    return make_view(input, steps, length, moved, offset, label)


def _along(ndim: int, dim: int, value: int, other: Any) -> tuple:
    return tuple([value if i == dim else (other[i] if isinstance(other, tuple) else other)
                  for i in range(ndim)])  # fmt: skip


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    if input.dim() == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    dim = wrap_dim(dim, input.dim())
    if isinstance(start, Tensor) and (start.dim() or start._dtype.kind not in ("int", "uint")):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    start, length, size = int(start), operator.index(length), input._shape[dim]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size}], but got "
            f"{start})"
        )
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    ndim = input.dim()
    return sliced(
        input, _along(ndim, dim, start, 0), _along(ndim, dim, length, input._shape), (1,) * ndim,
        "SliceBackward0",
    )  # fmt: skip


def select(input: Tensor, dim: int, index: int) -> Tensor:
    if input.dim() == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim, size = wrap_dim(dim, input.dim()), input._shape[wrap_dim(dim, input.dim())]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input._shape)} at "
            f"dimension {dim}"
        )
    return select_at(input, dim, index + size if index < 0 else index)


def select_at(input: Tensor, dim: int, index: int) -> Tensor:
    """One index of a dimension, already checked."""
    steps, kept, strides, moved = _select_plan(input._shape, input.stride(), dim, index)
    return make_view(input, steps, kept, strides, input.storage_offset() + moved, "SelectBackward0")


@lru_cache(KEPT)
def _select_plan(shape: tuple, strides: tuple, dim: int, index: int) -> tuple:
    """Steps, shape, strides and change of the offset."""
    ndim = len(shape)
    length = _along(ndim, dim, 1, shape)
    kept = (*shape[:dim], *shape[dim + 1 :])
    steps: tuple = (reshape_step(kept),)
    if length != shape:
        start = _along(ndim, dim, index, 0)
        steps = ((ops.slice_, (start, length, (1,) * ndim), length, None), *steps)
    return steps, kept, (*strides[:dim], *strides[dim + 1 :]), index * strides[dim]


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    if input.dim() == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, input.dim())
    parts = tuple(select_at(input, dim, i) for i in range(input._shape[dim]))
    return _numbered(parts, "Unbind")


def _numbered(parts: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    """Views of one call, which autograd does not let be changed in place."""
    if STATE.grad and parts and parts[0]._dtype.is_inexact:
        for i, part in enumerate(parts):
            if part._view is not None:
                part._view.one_of = f"Output {i} of {name}"
                part._view.label = f"{name}Backward0"
            if part._grad is not None and part._grad.fn is not None:
                part._grad.fn.label = f"{name}Backward0"
    return parts


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim = wrap_dim(dim, tensor.dim())
    if tensor.dim() == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    size, each = tensor._shape[dim], whole_number(split_size_or_sections)
    if isinstance(each, int):
        if each < 0:
            raise RuntimeError(
                f"split expects split_size be non-negative, but got split_size={each}"
            )
        if each == 0 and size != 0:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        count = max((size + each - 1) // each, 1) if each else 1
        sections = [min(each, size - i * each) for i in range(count)] if each else [size]
    else:
        sections = [int(s) for s in split_size_or_sections]
        if sum(sections) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's "
                f"size at dimension {dim}), but got split_sizes={sections}"
            )
    is_even = isinstance(split_size_or_sections, int)
    parts = _sections(tensor, sections, dim, "SplitBackward0")
    return _numbered(parts, "Split" if is_even else "SplitWithSizes")


def _sections(tensor: Tensor, sections: Sequence[int], dim: int, label: str) -> tuple[Tensor, ...]:
    parts, start, ndim = [], 0, tensor.dim()
    for length in sections:
        parts.append(sliced(
            tensor, _along(ndim, dim, start, 0), _along(ndim, dim, length, tensor._shape),
            (1,) * ndim, label,
        ))  # fmt: skip
        start += length
    return tuple(parts)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple:
    return split(input, list(split_sizes), dim)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    chunks = operator.index(chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if input.dim() == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, input.dim())
    size = input._shape[dim]
    each = (size + chunks - 1) // chunks
    if each == 0:
        return _sections(input, [0] * chunks, dim, "SplitBackward0")
    return split(input, each, dim)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim = wrap_dim(dim, input.dim())
    size = input._shape[dim]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        n = indices_or_sections
        sections = [size // n + (1 if i < size % n else 0) for i in range(n)]
    else:
        marks = [slice(0, m).indices(size)[1] for m in indices_or_sections]
        edges = [0, *marks, size]
        sections = [max(b - a, 0) for a, b in zip(edges, edges[1:], strict=False)]
    return _sections(input, sections, dim, "SliceBackward0")


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Tensor.unfold: windows of `size` elements every `step`."""
    size, step = operator.index(size), operator.index(step)
    dim = wrap_dim(dimension, input.dim())
    if not input.dim():
        return squeeze(unfold(unsqueeze(input, 0), 0, size, step), 0)
    length, stride = input._shape[dim], input.stride(dim)
    if size > length:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dim} is {length} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    shape = (*input._shape[:dim], (length - size) // step + 1, *input._shape[dim + 1 :], size)
    moved = input.stride()
    moved = (*moved[:dim], stride * step, *moved[dim + 1 :], stride)
    steps = ((ops.unfold, (dim, size, step, 1), shape, None),)
    return make_view(input, steps, shape, moved, input.storage_offset(), "UnfoldBackward0")


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal as a view: the flattened matrix, every (columns + 1)-th element."""
    offset, ndim = operator.index(offset), input.dim()
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = [d for d in range(ndim) if d not in (a, b)]
    lead = tuple(input._shape[d] for d in rest)
    rows, columns = input._shape[a], input._shape[b]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = max(offset, 0) + max(-offset, 0) * columns if count else 0
    order = (*rest, a, b)
    moved = (*lead, rows, columns)
    flat, out = (*lead, rows * columns), (*lead, count)
    zeros, ones = (0,) * len(lead), (1,) * len(lead)
    steps = (
        (ops.permute, (order,), moved, None),
        reshape_step(flat),
        (ops.slice_, ((*zeros, first), out, (*ones, columns + 1)), out, None),
    )
    st = input.stride()
    place = input.storage_offset()
    if count:
        place += max(offset, 0) * st[b] + max(-offset, 0) * st[a]
    strides = (*[st[d] for d in rest], st[a] + st[b])
    return make_view(input, steps, out, strides, place, "DiagonalBackward0")


FUNCTIONS: dict[str, Callable] = by_name(
    narrow, select, unbind, split, split_with_sizes, chunk, tensor_split, diagonal,
)  # fmt: skip
METHODS: dict[str, Callable] = {**FUNCTIONS, "unfold": unfold}
