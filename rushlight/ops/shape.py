"""Composite movement: stack, roll, repeat, diagonals, triangles, one_hot and their like."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.arguments import wrap_dim
from rushlight.ir.opdef import Arg, Attr, Call, Dim, NotDifferentiable, Offset, Offsets, Size, Sizes
from rushlight.ops.binary import add, eq, mul
from rushlight.ops.build import (
    iota_along,
    size_value,
    slice_dim,
    to_dtype,
)
from rushlight.ops.composite import composite
from rushlight.ops.indexed import gather_nd
from rushlight.ops.movement import cat, expand, permute, reshape
from rushlight.ops.rules import Shape, is_static, operand_dtype, operand_shape
from rushlight.ops.samples import ErrorSample, Sample, array, whole


def stack_shape(call: Call) -> Shape:
    tensors = call["tensors"]
    dim = wrap_dim(call["dim"], tensors[0].ndim + 1)
    shape = tensors[0].shape
    for node in tensors:
        if node.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 "
                f"and {list(node.shape)} at entry {tensors.index(node)}"
            )
    return (*shape[:dim], len(tensors), *shape[dim:])


def stack_decompose(tensors: list[Any], dim: int = 0) -> Any:
    shape = tensors[0].shape
    dim = wrap_dim(dim, len(shape) + 1)
    return cat([reshape(t, (*shape[:dim], 1, *shape[dim:])) for t in tensors], dim)


stack = composite(
    "stack",
    "Tensors of one shape along a new dim.",
    (Arg("tensors", variadic=True), Attr("dim", 0)),
    stack_decompose,
    lambda tensors, dim: np.stack(tensors, dim),
    shape=stack_shape,
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.stack",),
    samples=lambda rng: [
        Sample(([array(rng, 2, 3), array(rng, 2, 3)],), {"dim": d}) for d in (0, 1, -1)
    ],
    error_samples=(ErrorSample(([np.ones(2), np.ones(3)],), {}, RuntimeError, "to be equal size"),),
)


def roll_decompose(x: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        at = shift % size if size != 0 else 0
        if at == 0:
            continue
        tail = slice_dim(x, x.shape, dim, size - at, at)
        x = cat([tail, slice_dim(x, x.shape, dim, 0, size - at)], dim)
    return x


roll = composite(
    "roll",
    "Elements moved round along dims (the public function flattens when dims is left out).",
    (Arg("x"), Attr("shifts"), Attr("dims")),
    roll_decompose,
    lambda x, shifts, dims: np.roll(x, shifts, dims),
    lambda g, shifts, dims: (roll(g, tuple(-s for s in shifts), dims),),
    shape=operand_shape,
    dtype=operand_dtype,
    compute_f32=False,
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"shifts": (1, -6), "dims": (0, 1)}),
        Sample((array(rng, 5),), {"shifts": (5,), "dims": (0,)}),
    ],
)


def repeat_shape(call: Call) -> Shape:
    shape, repeats = call["x"].shape, call["repeats"]
    lead = len(repeats) - len(shape)
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    return tuple(r * s for r, s in zip(repeats, (1,) * lead + shape, strict=True))


def repeat_decompose(x: Any, repeats: tuple[Any, ...]) -> Any:
    shape = (1,) * (len(repeats) - x.ndim) + x.shape
    split = tuple(size for s in shape for size in (1, s))
    wide = tuple(size for r, s in zip(repeats, shape, strict=True) for size in (r, s))
    return reshape(
        expand(reshape(x, split), wide), tuple(r * s for r, s in zip(repeats, shape, strict=True))
    )


repeat = composite(
    "repeat",
    "The whole tensor repeated along every dim; new dims in front.",
    (Arg("x"), Sizes("repeats")),
    repeat_decompose,
    lambda x, repeats: np.tile(x, repeats),
    shape=repeat_shape,
    dtype=operand_dtype,
    compute_f32=False,
    torch=("Tensor.repeat",),
    samples=lambda rng: [
        Sample((array(rng, 2, 3),), {"repeats": (2, 1, 3)}),
        Sample((array(rng, 3),), {"repeats": (0,)}),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)),), {"repeats": (2,)}, RuntimeError, "Number of dimensions"),
    ),
)
repeat_interleave = composite(
    "repeat_interleave",
    "Each element along dim repeated.",
    (Arg("x"), Size("repeats"), Dim("dim")),
    lambda x, repeats, dim: reshape(
        expand(
            reshape(x, (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :])),
            (*x.shape[: dim + 1], repeats, *x.shape[dim + 1 :]),
        ),
        (*x.shape[:dim], x.shape[dim] * repeats, *x.shape[dim + 1 :]),
    ),
    lambda x, repeats, dim: np.repeat(x, repeats, dim),
    shape=lambda call: tuple(
        s * call["repeats"] if i == call["dim"] else s for i, s in enumerate(call["x"].shape)
    ),
    dtype=operand_dtype,
    compute_f32=False,
    samples=lambda rng: [Sample((array(rng, 2, 3),), {"repeats": 3, "dim": d}) for d in (0, 1)],
)


one_hot = composite(
    "one_hot",
    "1 at each index along a new last dim of num_classes.",
    (Arg("x"), Size("num_classes")),
    lambda x, num_classes: to_dtype(
        eq(reshape(x, (*x.shape, 1)), iota_along(x.ndim + 1, x.ndim, num_classes)), int64
    ),
    lambda x, num_classes: (x[..., None] == np.arange(num_classes)).astype(np.int64),
    NotDifferentiable("an index has no gradient"),
    shape=lambda call: (*call["x"].shape, call["num_classes"]),
    dtype=lambda call: int64,
    samples=lambda rng: [Sample((whole(rng, 2, 3),), {"num_classes": 6})],
)


def strided_places(size: Any, stride: Any, offset: Any) -> Any:
    """Positions in the flat value of every element of a strided view."""
    at = size_value(offset)
    for i, (length, step) in enumerate(zip(size, stride, strict=True)):
        at = add(at, mul(iota_along(len(size), i, length), size_value(step)))
    return expand(at, tuple(size))


def as_strided_decompose(x: Any, size: Any, stride: Any, storage_offset: Any = 0) -> Any:
    flat = reshape(x, (x.numel(),))
    return gather_nd(flat, [strided_places(size, stride, storage_offset)])


def as_strided_reference(x: np.ndarray, size: Any, stride: Any, storage_offset: int) -> np.ndarray:
    bytes_ = tuple(s * x.itemsize for s in stride)
    flat = np.ascontiguousarray(x).reshape(-1)[storage_offset:]
    return np.lib.stride_tricks.as_strided(flat, size, bytes_).copy()


as_strided = composite(
    "as_strided",
    "Elements of the row-major flat value at storage_offset + sum(index * stride).",
    (Arg("x"), Sizes("size"), Offsets("stride"), Offset("storage_offset", 0)),
    as_strided_decompose,
    as_strided_reference,
    shape=lambda call: call["size"],
    dtype=operand_dtype,
    compute_f32=False,
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"size": (2, 3), "stride": (1, 2), "storage_offset": 1}),
        Sample((array(rng, 6),), {"size": (3, 3), "stride": (1, 1), "storage_offset": 0}),
    ],
)


def check_shuffle(call: Call) -> None:
    shape, factor = call["x"].shape, call["upscale_factor"]
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with "
            f"{len(shape)} dimension(s)"
        )
    if is_static(shape[-3]) and shape[-3] % (factor * factor):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={shape[-3]} is not divisible by "
            f"{factor * factor}"
        )


def _shuffled(shape: Shape, factor: int) -> Shape:
    channels, height, width = shape[-3:]
    return (*shape[:-3], channels // (factor * factor), height * factor, width * factor)


def pixel_shuffle_decompose(x: Any, upscale_factor: int) -> Any:
    lead, (channels, height, width) = x.shape[:-3], x.shape[-3:]
    r, n = upscale_factor, len(x.shape) - 3
    split = reshape(x, (*lead, channels // (r * r), r, r, height, width))
    moved = permute(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(moved, _shuffled(x.shape, r))


def pixel_shuffle_reference(x: np.ndarray, upscale_factor: int) -> np.ndarray:
    r = upscale_factor
    result = np.empty(_shuffled(x.shape, r), x.dtype)
    for i in range(r):
        for j in range(r):
            result[..., i::r, j::r] = x[..., i * r + j :: r * r, :, :]
    return result


pixel_shuffle = composite(
    "pixel_shuffle",
    "Channels turned into finer pixels.",
    (Arg("x"), Attr("upscale_factor")),
    pixel_shuffle_decompose,
    pixel_shuffle_reference,
    shape=lambda call: _shuffled(call["x"].shape, call["upscale_factor"]),
    dtype=operand_dtype,
    compute_f32=False,
    torch=("torch.pixel_shuffle", "nn.functional.pixel_shuffle"),
    check=check_shuffle,
    samples=lambda rng: [Sample((array(rng, 2, 8, 3, 2),), {"upscale_factor": 2})],
    error_samples=(
        ErrorSample((np.ones((3, 2, 2)),), {"upscale_factor": 2}, RuntimeError, "divisible"),
    ),
)
