"""Functions whose result shares memory with their input: view, permute, slice, expand, ...

Each makes the view's steps (movement records), and the size, stride and offset that PyTorch shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import ops
from rushlight.base.dtypes import DType
from rushlight.ir.opdef import wrap_dim
from rushlight.tensors.apply import apply
from rushlight.tensors.size import Size, infer_size, parse_size, row_major, view_strides
from rushlight.tensors.tables import by_name
from rushlight.tensors.tensor import Tensor, make_view


def reshape_step(shape: tuple) -> tuple:
    return (ops.reshape, (shape,), shape, None)


def _reshaped(t: Tensor, shape: tuple, strides: tuple, offset: int, label: str) -> Tensor:
    steps = (reshape_step(shape),) if shape != t._shape else ()
    return make_view(t, steps, shape, strides, offset, label)


def view(input: Tensor, *shape: Any) -> Tensor:
    """The same memory under another shape (or, with a dtype, read as other numbers)."""
    if len(shape) == 1 and isinstance(shape[0], DType):
        return _view_dtype(input, shape[0])
    wanted = infer_size(parse_size(shape), input.numel())
    strides = view_strides(input._shape, input.stride(), wanted)
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
    raise NotImplementedError(
        f"view: reading {t._dtype.name} as {dtype.name} changes the element size"
    )


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """A view where the strides allow it, otherwise a copy."""
    wanted = infer_size(parse_size(shape), input.numel())
    strides = view_strides(input._shape, input.stride(), wanted)
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
    shape = tuple([t._shape[d] for d in order])
    strides = t.stride()
    steps = ((ops.permute, (order,), shape, None),) if order != tuple(range(len(order))) else ()
    moved = tuple([strides[d] for d in order])
    return make_view(t, steps, shape, moved, t.storage_offset(), label)


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
    ndim = input.dim()
    src = [wrap_dim(d, ndim) for d in ([source] if isinstance(source, int) else source)]
    dst = [
        wrap_dim(d, ndim) for d in ([destination] if isinstance(destination, int) else destination)
    ]
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({src} dims) should contain the "
            f"same number of dims as destination ({dst} dims)"
        )
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
            f"expand({NAMES.get(input._dtype.name)}Type{list(shape)}, size={wanted}): the number "
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


NAMES = {"float32": "torch.FloatTensor{}"}


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    return expand(input, other._shape)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    return expand(input, size)


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
    start, size = int(start), input._shape[dim]
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
    ndim, shape, strides = input.dim(), input._shape, input.stride()
    length = _along(ndim, dim, 1, shape)
    kept = (*shape[:dim], *shape[dim + 1 :])
    steps: tuple = ()
    if length != shape:
        start = _along(ndim, dim, index, 0)
        steps = ((ops.slice_, (start, length, (1,) * ndim), length, None),)
    steps = (*steps, reshape_step(kept))
    return make_view(
        input, steps, kept, (*strides[:dim], *strides[dim + 1 :]),
        input.storage_offset() + index * strides[dim], "SelectBackward0",
    )  # fmt: skip


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    if input.dim() == 0:
        raise RuntimeError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap_dim(dim, input.dim())
    return tuple(select_at(input, dim, i) for i in range(input._shape[dim]))


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim = wrap_dim(dim, tensor.dim())
    if tensor.dim() == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    size = tensor._shape[dim]
    if isinstance(split_size_or_sections, int):
        each = split_size_or_sections
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
    return _sections(tensor, sections, dim, "SplitBackward0")


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
    return reshape(input, (-1,))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Tensor.unfold: windows of `size` elements every `step`."""
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
    ndim = input.dim()
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


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself when its memory is row-major, otherwise a copy."""
    if input.is_contiguous():
        return input
    return apply(ops.reshape, (input, input._shape), label="CloneBackward0")


def size_of(input: Tensor) -> Size:
    return input.shape


def default_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return row_major(shape)


def atleast(input: Tensor, ndim: int) -> Tensor:
    """torch.atleast_1d, 2d and 3d."""
    while input.dim() < ndim:
        input = unsqueeze(input, -1 if ndim == 3 and input.dim() == 2 else 0)
    return input


FUNCTIONS = {
    **by_name(
        reshape, permute, transpose, t, movedim, unsqueeze, squeeze, broadcast_to, narrow, select,
        unbind, split, split_with_sizes, chunk, tensor_split, flatten, unflatten, ravel, diagonal,
    ),
    "swapaxes": transpose,
    "swapdims": transpose,
    "moveaxis": movedim,
}  # fmt: skip
METHODS = {
    **FUNCTIONS,
    **by_name(
        view, view_as, reshape_as, expand, expand_as, unfold, contiguous,
    ),
}  # fmt: skip
