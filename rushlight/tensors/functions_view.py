"""Views of all elements: view, permute, expand, squeeze, flatten, ...

Each makes the view's steps (movement records), and the size, stride and offset that PyTorch shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import DType, dtype_argument
from rushlight.ir.arguments import whole_number, wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.size import KEPT, Size, infer_size, parse_size, view_plan
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, make_view
from rushlight.tensors.type_names import expand_name


def reshape_step(shape: tuple) -> tuple:
    return (ops.reshape, (shape,), shape, None)


def _reshaped(t: Tensor, shape: tuple, strides: tuple, offset: int, label: str) -> Tensor:
    steps = (reshape_step(shape),) if shape != t._shape else ()
    return make_view(t, steps, shape, strides, offset, label)


def view(input: Tensor, *shape: Any, size: Any = None, dtype: DType | None = None) -> Tensor:
    """The same memory under another shape (or, with a dtype, read as other numbers)."""
    if not shape:
        shape = (size if dtype is None else dtype,)
    if len(shape) == 1 and isinstance(shape[0], DType | type):
        return _view_dtype(input, dtype_argument(shape[0], "view", "dtype", 1))
    wanted, strides = view_plan(input._shape, input.stride(), parse_size(shape))
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return _reshaped(input, wanted, strides, input.storage_offset(), "ViewBackward0")


def _view_dtype(t: Tensor, dtype: DType) -> Tensor:
    have, want = t._dtype.itemsize, dtype.itemsize
    if have == want:
        steps = ((ops.bitcast, (dtype,), t._shape, dtype),) if dtype is not t._dtype else ()
        return make_view(t, steps, t._shape, t.stride(), t.storage_offset(), "ViewBackward0")
    return _view_size(t, dtype, have, want)


def _view_size(t: Tensor, dtype: DType, have: int, want: int) -> Tensor:
    """Numbers of another size: the last dimension, one after the other in memory, changes."""
    how = f"to view {t._dtype.scalar_name} as {dtype.scalar_name} (different element sizes)"
    if not t.dim():
        raise RuntimeError(f"self.dim() cannot be 0 {how}")
    strides, shape, offset = t.stride(), t._shape, t.storage_offset()
    if strides[-1] != 1 and shape[-1] > 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {how}, but got {strides[-1]}")
    if have > want:
        times = have // want
        record, size = ops.read_narrower, shape[-1] * times
        moved, place = tuple(s * times for s in strides[:-1]), offset * times
    else:
        times = want // have
        if shape[-1] % times:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {times} {how}, but got {shape[-1]}"
            )
        if offset % times or any(s % times for s in strides[:-1]):
            raise RuntimeError(
                f"self.storage_offset() and the strides but the last must be divisible by {times} "
                f"{how}, but got {offset} and {list(strides)}"
            )
        record, size = ops.read_wider, shape[-1] // times
        moved, place = tuple(s // times for s in strides[:-1]), offset // times
    new = (*shape[:-1], size)
    return make_view(t, ((record, (dtype,), new, dtype),), new, (*moved, 1), place, "ViewBackward0")


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """A view where the strides allow it, otherwise a copy."""
    wanted, strides = view_plan(input._shape, input.stride(), parse_size(shape))
    if strides is None:
        return apply(ops.reshape, (input, wanted), label="UnsafeViewBackward0")
    if wanted == input._shape and input._view is not None:
        strides = input.stride()
    return _reshaped(input, wanted, strides, input.storage_offset(), "ViewBackward0")


def view_as(input: Tensor, other: Tensor) -> Tensor:
    return view(input, other._shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    return reshape(input, other._shape)


def alias(input: Tensor) -> Tensor:
    return make_view(input, (), input._shape, input.stride(), input.storage_offset(),
                     "AliasBackward0")  # fmt: skip


def permute(input: Tensor, *dims: Any) -> Tensor:
    order = parse_size(dims)
    if len(order) != input.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {input.dim()} is not "
            f"equal to len(dims) = {len(order)}"
        )
    order = tuple([wrap_dim(d, input.dim()) for d in order])
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return _permuted(input, order, "PermuteBackward0")


def _permuted(t: Tensor, order: tuple, label: str) -> Tensor:
    steps, shape, moved = _permute_plan(t._shape, t.stride(), order)
    return make_view(t, steps, shape, moved, t.storage_offset(), label)


@lru_cache(KEPT)
def _permute_plan(shape: tuple, strides: tuple, order: tuple) -> tuple[tuple, tuple, tuple]:
    """Steps, shape and strides of the dimensions in this order."""
    new = tuple([shape[d] for d in order])
    steps = ((ops.permute, (order,), new, None),) if order != tuple(range(len(order))) else ()
    return steps, new, tuple([strides[d] for d in order])


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    a, b = wrap_dim(dim0, input.dim()), wrap_dim(dim1, input.dim())
    order = list(range(input.dim()))
    if order:
        order[a], order[b] = order[b], order[a]
    return _permuted(input, tuple(order), "TransposeBackward0")


swapaxes = swapdims = transpose


def t(input: Tensor) -> Tensor:
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return _permuted(input, tuple(reversed(range(input.dim()))), "TBackward0")


def matrix_transpose(input: Tensor) -> Tensor:
    """Tensor.mT."""
    if input.dim() < 2:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. "
            f"Got {input.dim()}-D tensor."
        )
    return transpose(input, -2, -1)


def reversed_dims(input: Tensor) -> Tensor:
    """Tensor.T."""
    return _permuted(input, tuple(reversed(range(input.dim()))), "PermuteBackward0")


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    ndim, source, destination = input.dim(), whole_number(source), whole_number(destination)
    src = [wrap_dim(d, ndim) for d in ([source] if isinstance(source, int) else source)]
    dst = [
        wrap_dim(d, ndim) for d in ([destination] if isinstance(destination, int) else destination)
    ]
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({src} dims) should contain the "
            f"same number of dims as destination ({dst} dims)"
        )
    for name, given, found in (("source", source, src), ("destination", destination, dst)):
        if len(set(found)) != len(found):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    order: list[int | None] = [None] * ndim
    for s, d in zip(src, dst, strict=True):
        order[d] = s
    rest = iter(d for d in range(ndim) if d not in src)
    return permute(input, [next(rest) if d is None else d for d in order])


moveaxis = movedim


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    at = wrap_dim(dim, input.dim() + 1)
    shape, strides = input._shape, input.stride()
    step = shape[at] * strides[at] if at < len(shape) else 1
    return _reshaped(
        input, (*shape[:at], 1, *shape[at:]), (*strides[:at], step, *strides[at:]),
        input.storage_offset(), "UnsqueezeBackward0",
    )  # fmt: skip


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    shape, strides = input._shape, input.stride()
    if dim is None:
        drop, label = [i for i, s in enumerate(shape) if s == 1], "SqueezeBackward0"
    else:
        dim = whole_number(dim)
        dims = (dim,) if isinstance(dim, int) else dim
        label = "SqueezeBackward1" if isinstance(dim, int) else "SqueezeBackward2"
        drop = [d for d in (wrap_dim(d, len(shape)) for d in dims) if shape and shape[d] == 1]
    kept = [i for i in range(len(shape)) if i not in drop]
    return _reshaped(
        input, tuple(shape[i] for i in kept), tuple(strides[i] for i in kept),
        input.storage_offset(), label,
    )  # fmt: skip


def expand(input: Tensor, *sizes: Any, implicit: bool = False) -> Tensor:
    wanted = list(parse_size(sizes))
    shape, strides = input._shape, input.stride()
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand({expand_name(input._dtype)}{{{list(shape)}}}, size={wanted}): the number "
            f"of sizes provided ({len(wanted)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(shape)})"
        )
    moved = [0] * len(wanted)
    for i, size in enumerate(wanted):
        if i < lead:
            if size < 0:
                raise RuntimeError(
                    f"The expanded size of the tensor ({size}) isn't allowed in a leading, "
                    f"non-existing dimension {i}"
                )
            continue
        have = shape[i - lead]
        if size == -1:
            wanted[i] = size = have
        if size == have:
            moved[i] = strides[i - lead]
        elif have != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({have}) "
                f"at non-singleton dimension {i}.  Target sizes: {wanted}.  Tensor sizes: "
                f"{list(shape)}"
            )
    target = tuple(wanted)
    for i in range(lead - 1, -1, -1):
        if target[i] == 1:
            moved[i] = target[i + 1] * moved[i + 1] if i + 1 < len(target) else 1
    steps = ((ops.expand, (target,), target, None),) if target != shape else ()
    return make_view(input, steps, target, tuple(moved), input.storage_offset(), "ExpandBackward0")


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    return expand(input, other._shape)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    return expand(input, size)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    ndim = input.dim()
    first, last = wrap_dim(start_dim, ndim), wrap_dim(end_dim, ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if ndim == 0:
        return reshape(input, (1,))
    if first == last:
        return input
    size = 1
    for s in input._shape[first : last + 1]:
        size *= s
    return reshape(input, (*input._shape[:first], size, *input._shape[last + 1 :]))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    dim = wrap_dim(dim, input.dim())
    try:
        inner = infer_size(sizes, input._shape[dim])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({input._shape[dim]}) in the input tensor"
        ) from None
    return view(input, (*input._shape[:dim], *inner, *input._shape[dim + 1 :]))


def ravel(input: Tensor) -> Tensor:
    return reshape(contiguous(input), (-1,))


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself when its memory is row-major, otherwise a copy."""
    if input.is_contiguous():
        return input
    return apply(ops.reshape, (input, input._shape), label="CloneBackward0")


def size_of(input: Tensor) -> Size:
    return input.shape


FUNCTIONS: dict[str, Callable] = {
    **by_name(
        reshape, permute, transpose, t, movedim, unsqueeze, squeeze, broadcast_to, flatten,
        unflatten, ravel,
    ),
    "swapaxes": transpose, "swapdims": transpose, "moveaxis": movedim,
}  # fmt: skip
METHODS: dict[str, Callable] = {
    **FUNCTIONS, **by_name(view, view_as, reshape_as, expand, expand_as, contiguous),
}  # fmt: skip
