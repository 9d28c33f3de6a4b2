"""ONNX's operators that move, pick and make elements, by Rushlight's functions.

As elementwise.py: tensors and attributes in, tensors out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elementwise import DTYPES

import rushlight as torch

F = torch.nn.functional
JOINS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def ints(value: Any) -> list[int]:
    return [int(v) for v in (value if isinstance(value, list) else value.reshape(-1).tolist())]


def concat(*values: Any, axis: int) -> Any:
    return torch.cat(values, axis)


def split(x: Any, sizes: Any = None, axis: int = 0, num_outputs: int = 0, outputs: int = 1) -> Any:
    if sizes is not None:
        return torch.split(x, ints(sizes), axis)
    count, total = num_outputs or outputs, x.shape[axis]
    each = -(-total // count)
    sizes_ = [each] * (count - 1)
    return torch.split(x, [*sizes_, total - sum(sizes_)], axis)


def slice_(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = ints(starts), ints(ends)
    dims = list(range(len(first))) if axes is None else ints(axes)
    strides = [1] * len(first) if steps is None else ints(steps)
    for dim, start, end, step in zip(dims, first, last, strides, strict=True):
        places = range(x.shape[dim])[start:end:step]
        x = x.index_select(dim, torch.tensor(list(places), dtype=torch.int64))
    return x


def reshape(x: Any, shape: Any, allowzero: int = 0) -> Any:
    sizes = ints(shape)
    if not allowzero:
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def flatten(x: Any, axis: int = 1) -> Any:
    lead = 1
    for size in x.shape[:axis]:
        lead *= size
    return x.reshape(lead, x.numel() // lead if lead else 0)


def squeeze(x: Any, axes: Any = None) -> Any:
    return x.squeeze() if axes is None else x.squeeze(tuple(ints(axes)))


def unsqueeze(x: Any, axes: Any) -> Any:
    ndim = x.dim() + axes.numel()
    for axis in sorted(a % ndim for a in ints(axes)):
        x = x.unsqueeze(axis)
    return x


def expand(x: Any, shape: Any) -> Any:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(ints(shape))))


def positive(index: Any, size: int) -> Any:
    index = index.to(torch.int64)
    return torch.where(index < 0, index + size, index)


def gather(x: Any, index: Any, axis: int = 0) -> Any:
    axis %= x.dim()
    picked = x.index_select(axis, positive(index, x.shape[axis]).reshape(-1))
    return picked.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def gather_elements(x: Any, index: Any, axis: int = 0) -> Any:
    return x.gather(axis, positive(index, x.shape[axis]))


def gather_nd(x: Any, index: Any, batch_dims: int = 0) -> Any:
    lead = [torch.arange(n) for n in index.shape[:batch_dims]]
    inner = index.dim() - 1
    own = [g.reshape([-1 if i == k else 1 for i in range(inner)]) for k, g in enumerate(lead)]
    return x[(*own, *index.unbind(-1))]


def scatter_elements(
    x: Any, index: Any, update: Any, axis: int = 0, reduction: str = "none"
) -> Any:
    places = positive(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, update)
    return x.scatter_reduce(axis, places, update, JOINS[reduction])


def scatter_nd(x: Any, index: Any, update: Any, reduction: str = "none") -> Any:
    count = index.shape[-1]
    sizes, tail = x.shape[:count], x.shape[count:]
    place = torch.zeros(index.shape[:-1], dtype=torch.int64)
    for i, size in enumerate(sizes):
        place = place * size + positive(index[..., i], size)
    rows = x.reshape(-1, *tail)
    flat = place.reshape([-1] + [1] * len(tail)).expand(place.numel(), *tail)
    return scatter_elements(rows, flat, update.reshape(-1, *tail), 0, reduction).reshape(x.shape)


def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, mode: str = "constant") -> Any:
    dims = list(range(x.dim())) if axes is None else [a % x.dim() for a in ints(axes)]
    amounts = ints(pads)
    low, high = [0] * x.dim(), [0] * x.dim()
    for i, dim in enumerate(dims):
        low[dim], high[dim] = amounts[i], amounts[i + len(dims)]
    if mode == "constant":
        pairs = [n for dim in reversed(range(x.dim())) for n in (low[dim], high[dim])]
        return F.pad(x, pairs, value=0 if value is None else value.item())
    for dim, (before, after) in enumerate(zip(low, high, strict=True)):
        size = x.shape[dim]
        place = torch.arange(-before, size + after)
        if mode == "edge":
            place = place.clamp(0, size - 1)
        elif mode == "wrap":
            place = place % size
        else:
            around = place % max(2 * size - 2, 1)
            place = torch.minimum(around, 2 * size - 2 - around)
        x = x.index_select(dim, place)
    return x


def shape(x: Any, start: int = 0, end: int | None = None) -> Any:
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


def constant_of_shape(sizes: Any, value: Any = None) -> Any:
    if value is None:
        return torch.zeros(ints(sizes))
    one = torch.from_numpy(value.copy())
    return one.expand(ints(sizes)) if sizes.numel() else one.reshape(())


def eye_like(x: Any, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    made = torch.arange(columns) - torch.arange(rows).reshape(-1, 1) == k
    return made.to(x.dtype if dtype is None else DTYPES[dtype])


def trilu(x: Any, k: Any = None, upper: int = 1) -> Any:
    at = 0 if k is None else int(k.item())
    return torch.triu(x, at) if upper else torch.tril(x, at)


def one_hot(index: Any, depth: Any, values: Any, axis: int = -1) -> Any:
    count = int(depth.item())
    axis %= index.dim() + 1
    line = torch.arange(count).reshape([-1 if i == axis else 1 for i in range(index.dim() + 1)])
    place = index.to(torch.int64) % count
    inside = (index.to(torch.int64) >= -count) & (index.to(torch.int64) < count)
    hit = (place.unsqueeze(axis) == line) & inside.unsqueeze(axis)
    return torch.where(hit, values[1], values[0])


def top_k(x: Any, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:  # noqa: A002
    values, places = torch.sort(x, dim=axis, descending=bool(largest), stable=True)
    count = int(k.item())
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


def unique(x: Any, axis: int | None = None, sorted: int = 1) -> Any:  # noqa: A002
    rows = x.reshape(-1) if axis is None else x
    dim = 0 if axis is None else axis
    found, back, counts = torch.unique(rows, return_inverse=True, return_counts=True, dim=dim)
    same = back.reshape(-1) == torch.arange(found.shape[dim]).reshape(-1, 1)
    first = same.to(torch.int64).argmax(1)
    if not sorted:
        first, order = torch.sort(first)
        found, counts = found.index_select(dim, order), counts[order]
        back = torch.argsort(order)[back]
    return found, first, back.reshape(-1), counts


def compress(x: Any, condition: Any, axis: int | None = None) -> Any:
    x, dim = (x.reshape(-1), 0) if axis is None else (x, axis)
    return x.index_select(dim, condition.nonzero().reshape(-1))


def depth_to_space(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return F.pixel_shuffle(x, b)
    made = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return made.reshape(n, c // (b * b), h * b, w * b)


def space_to_depth(x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(order).reshape(n, c * b * b, h // b, w // b)


def center_crop_pad(x: Any, sizes: Any, axes: Any = None) -> Any:
    dims = list(range(x.dim())) if axes is None else ints(axes)
    for dim, size in zip(dims, ints(sizes), strict=True):
        have = x.shape[dim]
        if size <= have:
            x = x.narrow(dim, (have - size) // 2, size)
            continue
        low = (size - have) // 2
        amounts = [0, 0] * (x.dim() - 1 - dim % x.dim()) + [low, size - have - low]
        x = F.pad(x, amounts)
    return x


def constant(**values: Any) -> Any:
    ((name, value),) = values.items()
    if name == "value":
        return torch.from_numpy(value.copy())
    kind = torch.float32 if "float" in name else torch.int64
    return torch.tensor(value, dtype=kind)


def reverse_sequence(x: Any, lengths: Any, batch_axis: int = 1, time_axis: int = 0) -> Any:
    x = x.movedim((time_axis, batch_axis), (0, 1))
    time = torch.arange(x.shape[0]).reshape(-1, 1)
    place = torch.where(time < lengths, lengths - 1 - time, time)
    made = x[place, torch.arange(x.shape[1])]
    return made.movedim((0, 1), (time_axis, batch_axis))


TABLE: dict[str, Callable] = {
    "Concat": concat, "Split": split, "Slice": slice_, "Reshape": reshape, "Flatten": flatten,
    "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Expand": expand, "Gather": gather,
    "GatherElements": gather_elements, "GatherND": gather_nd, "Scatter": scatter_elements,
    "ScatterElements": scatter_elements, "ScatterND": scatter_nd, "Pad": pad, "Shape": shape,
    "Size": lambda x: torch.tensor(x.numel()), "ConstantOfShape": constant_of_shape,
    "Constant": constant, "EyeLike": eye_like, "Trilu": trilu, "OneHot": one_hot,
    "Transpose": lambda x, perm=None: x.permute(perm or list(reversed(range(x.dim())))),
    "Tile": lambda x, repeats: x.repeat(ints(repeats)) if x.dim() else x,
    "Range": lambda a, b, step: torch.arange(a.item(), b.item(), step.item(), dtype=a.dtype),
    "NonZero": lambda x: x.nonzero().T, "TopK": top_k, "Unique": unique, "Compress": compress,
    "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth,
    "CenterCropPad": center_crop_pad, "ReverseSequence": reverse_sequence,
}  # fmt: skip
