"""Functions that join, repeat and rearrange elements into new memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.ir.arguments import wrap_dim
from rushlight.ops.rules import broadcast_shapes as common_shape
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import arange, zeros
from rushlight.tensors.forms import in_place_form
from rushlight.tensors.functions_diagonal import (
    diag,
    diag_embed,
    diagonal_scatter,
    fill_diagonal_,
    tril,
    tril_indices,
    triu,
    triu_indices,
)
from rushlight.tensors.functions_slices import narrow
from rushlight.tensors.functions_view import expand, reshape, transpose, unsqueeze
from rushlight.tensors.index_checks import check_index, in_range
from rushlight.tensors.indexing import fill
from rushlight.tensors.numbers import result_type
from rushlight.tensors.out import check_apart, finish
from rushlight.tensors.size import Size, parse_size
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, base_of, make_view


def _promoted(tensors: Sequence[Tensor], name: str) -> list[Tensor]:
    items = list(tensors)
    for position, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"expected Tensor as element {position} in argument 0, but got "
                f"{type(item).__name__}"
            )
    if not items:
        if name == "cat":
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    dtype = items[0]._dtype
    for item in items:
        if item._dtype is not dtype:
            dtype = result_type(items)
            return [apply(ops.cast, (t, dtype)) if t._dtype is not dtype else t for t in items]
    return items


def cat(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    if isinstance(tensors, Tensor):
        raise TypeError(
            "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    items = _promoted(tensors, "cat")
    check_apart(out, items)
    for position, item in enumerate(items):
        if not item.dim():
            raise RuntimeError(
                f"zero-dimensional tensor (at position {position}) cannot be concatenated"
            )
    # A 1-d tensor of no elements may stand beside tensors of any shape.
    kept = [t for t in items if t._shape != (0,)]
    items = kept or items[:1]
    return finish(apply(ops.cat, (items, dim)), out)


def stack(tensors: Any, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    items = _promoted(tensors, "stack")
    first = items[0]._shape
    for position, item in enumerate(items):
        if item._shape != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 "
                f"and {list(item._shape)} at entry {position}"
            )
    at = wrap_dim(dim, len(first) + 1)
    return finish(
        apply(ops.cat, ([unsqueeze(t, at) for t in items], at), label="StackBackward0"), out
    )


def _atleast(tensor: Tensor, ndim: int) -> Tensor:
    if ndim >= 1 and not tensor.dim():
        tensor = reshape(tensor, (1,))
    if ndim >= 2 and tensor.dim() == 1:
        tensor = unsqueeze(tensor, 0)
    return unsqueeze(tensor, 2) if ndim >= 3 and tensor.dim() == 2 else tensor


def _atleast_function(ndim: int) -> Callable:
    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return _atleast(tensors[0], ndim)
        items = tensors[0] if len(tensors) == 1 else tensors
        return tuple(_atleast(t, ndim) for t in items)

    function.__name__ = f"atleast_{ndim}d"
    return function


atleast_1d, atleast_2d, atleast_3d = (_atleast_function(n) for n in (1, 2, 3))


def hstack(tensors: Any) -> Tensor:
    items = [_atleast(t, 1) for t in _some(tensors, "hstack")]
    return cat(items, 0 if items[0].dim() == 1 else 1)


def vstack(tensors: Any) -> Tensor:
    return cat([_atleast(t, 2) for t in _some(tensors, "vstack")], 0)


def dstack(tensors: Any) -> Tensor:
    return cat([_atleast(t, 3) for t in _some(tensors, "dstack")], 2)


def _some(tensors: Any, name: str) -> Any:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


def column_stack(tensors: Any) -> Tensor:
    return cat([reshape(t, (-1, 1)) if t.dim() < 2 else t for t in tensors], 1)


def repeat(input: Tensor, *repeats: Any) -> Tensor:
    times = parse_size(repeats)
    lead = len(times) - input.dim()
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    shape = (*(1,) * lead, *input._shape)
    pairs = [n for r, s in zip(times, shape, strict=True) for n in (1, s)]
    wide = [n for r, s in zip(times, shape, strict=True) for n in (r, s)]
    target = tuple(r * s for r, s in zip(times, shape, strict=True))
    spread = expand(reshape(input, pairs), wide)
    return apply(ops.reshape, (spread, target), label="RepeatBackward0")


def tile(input: Tensor, *dims: Any) -> Tensor:
    times = parse_size(dims)
    return repeat(input, (1,) * (input.dim() - len(times)) + times)


def flip(input: Tensor, *args: Any, dims: Any = None) -> Tensor:
    dims = args if dims is None else (dims,)
    return apply(ops.flip, (input, tuple(wrap_dim(d, input.dim()) for d in parse_size(dims))))


def fliplr(input: Tensor) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


def flipud(input: Tensor) -> Tensor:
    if not input.dim():
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


def _ints(given: Any) -> tuple[int, ...]:
    """One number, also in a tensor without dims, or several."""
    return tuple(map(operator.index, given if isinstance(given, (tuple, list)) else (given,)))


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    if dims is None or dims == ():
        return reshape(roll(reshape(input, (-1,)), shifts, 0), input._shape)
    moves, axes = _ints(shifts), _ints(dims)
    if len(moves) != len(axes):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
        )
    for move, axis in zip(moves, axes, strict=True):
        axis = wrap_dim(axis, input.dim())
        size = input._shape[axis]
        if not size or not move % size:
            input = input.clone()
        else:
            at = size - move % size
            parts = [narrow(input, axis, at, size - at), narrow(input, axis, 0, at)]
            input = apply(ops.cat, (parts, axis), label="RollBackward0")
    return input


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    k = operator.index(k)
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.dim() < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.dim()}")
    a, b = (wrap_dim(d, input.dim()) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = {0: lambda x: x.clone(), 1: lambda x: flip(transpose(x, a, b), a),
             2: lambda x: flip(x, (a, b)), 3: lambda x: flip(transpose(x, a, b), b)}  # fmt: skip
    return turns[k % 4](input)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates of flat positions in a shape.

    >>> torch.unravel_index(torch.tensor([4, 5]), (3, 2))
    (tensor([2, 2]), tensor([0, 1]))
    """
    if indices._dtype.kind not in ("int", "uint"):
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices._dtype}")
    sizes = [shape] if isinstance(shape, int) else [int(n) for n in shape]
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    places = []
    for size in reversed(sizes):
        places.append(apply(ops.remainder, (indices, size)))
        indices = apply(ops.floor_divide, (indices, size))
    return tuple(reversed(places))


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    result = input.clone()
    fill(result.select(dim, index), src)
    return result


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    result = input.clone()
    key = (slice(None),) * wrap_dim(dim, input.dim()) + (slice(start, end, step),)
    result[key] = src
    return result


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    items = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    shape = common_shape(*(t._shape for t in items))
    return tuple(expand(t, shape) for t in items)


def broadcast_shapes(*shapes: Any) -> Size:
    whole = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    try:
        return Size(common_shape(*whole)) if whole else Size()
    except RuntimeError:
        raise RuntimeError(
            "Shape mismatch: objects cannot be broadcast to a single shape"
        ) from None


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    shape = parse_size(size)
    if not shape:
        return self.sum()
    lead = self.dim() - len(shape)
    dims = [
        i for i in range(self.dim()) if i < lead or (shape[i - lead] == 1 and self._shape[i] != 1)
    ]
    result = self.sum(dims, keepdim=True) if dims else self
    return reshape(result, shape)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    for tensor in tensors:
        if tensor.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(tensor._shape)}")
        if tensor._dtype is not tensors[0]._dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    grids = [reshape(g, (-1,)) for g in _grids(tensors)]
    return stack(grids, 1) if len(grids) > 1 else grids[0]


def _grids(tensors: Sequence[Tensor]) -> list[Tensor]:
    shape = tuple(t.numel() for t in tensors)
    return [expand(reshape(t, [shape[i] if d == i else 1 for d in range(len(shape))]), shape)
            for i, t in enumerate(tensors)]  # fmt: skip


def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view of the memory at any strides."""
    base = base_of(input)
    offset = input.storage_offset() if storage_offset is None else storage_offset
    offset, shape, strides = operator.index(offset), _ints(size), _ints(stride)
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if math.prod(shape) and last >= base.numel():
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {input.element_size()} requiring a storage size of "
            f"{(last + 1) * input.element_size()} are out of bounds for storage of size "
            f"{base.nbytes}"
        )
    flat = (base.numel(),)
    steps = (
        (ops.reshape, (flat,), flat, None),
        (ops.as_strided, (shape, strides, offset), shape, None),
    )
    return make_view(base, steps, shape, strides, offset, "AsStridedBackward0")


def block_diag(*tensors: Tensor) -> Tensor:
    dtype = result_type(tensors)
    items = [_atleast(t, 2).to(dtype) for t in tensors]
    columns = sum(t._shape[1] for t in items)
    rows, at = [], 0
    for t in items:
        left = zeros(t._shape[0], at, dtype=t._dtype)
        right = zeros(t._shape[0], columns - at - t._shape[1], dtype=t._dtype)
        rows.append(cat([left, t, right], 1))
        at += t._shape[1]
    return cat(rows, 0)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    if tensor._dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        num_classes = int(tensor.max().item()) + 1 if tensor.numel() else 0
    seen = check_index(
        tensor, num_classes, "Class values must be smaller than num_classes.", RuntimeError,
        negative="Class values must be non-negative.",
    )  # fmt: skip
    if not seen:
        tensor = reshape(in_range(reshape(tensor, (-1,)), num_classes, False), tensor._shape)
    wide = unsqueeze(tensor, -1)
    return (wide == arange(num_classes)).to(int64)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    return apply(ops.pixel_shuffle, (input, upscale_factor))


def numel(input: Tensor) -> int:
    return math.prod(input._shape)


FUNCTIONS: dict[str, Callable] = by_name(
    cat, stack, hstack, vstack, dstack, column_stack, tile, flip, fliplr, flipud, roll, rot90,
    tril, triu, tril_indices, triu_indices, unravel_index, diag, diag_embed, diagonal_scatter,
    select_scatter, slice_scatter, broadcast_tensors, broadcast_shapes, cartesian_prod, as_strided,
    block_diag, atleast_1d, atleast_2d, atleast_3d, pixel_shuffle, numel,
)  # fmt: skip
FUNCTIONS.update(concat=cat, concatenate=cat, row_stack=vstack)
METHODS: dict[str, Callable] = {
    **{
        name: FUNCTIONS[name]
        for name in """tile flip fliplr flipud roll rot90 tril triu diag diag_embed
        diagonal_scatter select_scatter slice_scatter as_strided""".split()
    },
    "repeat": repeat, "fill_diagonal_": fill_diagonal_, "sum_to_size": sum_to_size,
    "tril_": in_place_form(tril), "triu_": in_place_form(triu),
}  # fmt: skip
