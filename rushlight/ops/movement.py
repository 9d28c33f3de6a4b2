"""Movement primitives: where elements are, never what they are.

Sizes may be symbolic; slice starts are program inputs (Offsets).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, Dim, Dims, Offsets, Sizes, op
from rushlight.ops.build import sum_to_shape, zeros
from rushlight.ops.meta import Meta
from rushlight.ops.rules import Shape, common_dtype, is_static, operand_dtype, replace_dim
from rushlight.ops.samples import ErrorSample, Sample, array


def check_reshape(call: Call) -> None:
    have, want = call["x"].shape, call["shape"]
    if all(map(is_static, have)) and all(map(is_static, want)):
        if math.prod(have) != math.prod(want):
            size = math.prod(have)
            raise RuntimeError(f"shape '{list(want)}' is invalid for input of size {size}")


reshape = op(
    name="reshape",
    doc="The same elements in row-major order under another shape (no -1).",
    inputs=(Arg("x"), Sizes("shape")),
    shape=lambda call: call["shape"],
    dtype=operand_dtype,
    kind="movement",
    reference=lambda x, shape: np.reshape(x, shape),
    grad=lambda g, meta: (reshape(g, meta.shape("x")),),
    cheap=True,
    check=check_reshape,
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"shape": (2, 6)}),
        Sample((array(rng),), {"shape": (1, 1)}),
        Sample((array(rng, 0, 3),), {"shape": (3, 0, 2)}),
    ],
    error_samples=(ErrorSample((np.ones(3),), {"shape": (2,)}, RuntimeError, "invalid for"),),
)


def check_permute(call: Call) -> None:
    ndim = call["x"].ndim
    if len(call["dims"]) != ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {ndim} is not equal "
            f"to len(dims) = {len(call['dims'])}"
        )


def inverse_permutation(dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


permute = op(
    name="permute",
    doc="Dimension i of the result is dimension dims[i].",
    inputs=(Arg("x"), Dims("dims")),
    shape=lambda call: tuple(call["x"].shape[d] for d in call["dims"]),
    dtype=operand_dtype,
    kind="movement",
    reference=lambda x, dims: np.transpose(x, dims),
    grad=lambda g, dims: (permute(g, inverse_permutation(dims)),),
    torch=("torch.permute", "Tensor.permute"),
    cheap=True,
    check=check_permute,
    samples=lambda rng: [
        Sample((array(rng, 2, 3, 4),), {"dims": (2, 0, 1)}),
        Sample((array(rng, 2, 3),), {"dims": (-1, 0)}),
        Sample((array(rng),), {"dims": ()}),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)),), {"dims": (0,)}, RuntimeError, "does not match"),
        ErrorSample((np.ones((2, 3)),), {"dims": (0, 0)}, RuntimeError, "multiple times"),
        ErrorSample((np.ones((2, 3)),), {"dims": (0, 2)}, IndexError, "out of range"),
    ),
)


def check_expand(call: Call) -> None:
    have, want = call["x"].shape, call["shape"]
    if len(want) < len(have):
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(want)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(have)})"
        )
    must_expand(have, want)


def must_expand(have: Shape, want: Shape) -> None:
    """RuntimeError unless a tensor of the one shape can be expanded to the other."""
    lead = len(want) - len(have)
    wrong = [
        (i, old, new)
        for i, (old, new) in enumerate(
            zip(have[max(-lead, 0) :], want[max(lead, 0) :], strict=True)
        )
        if old != 1 and old != new and is_static(old) and is_static(new)
    ]
    if lead < 0 or wrong:
        i, old, new = wrong[0] if wrong else (0, have[0], "none")
        raise RuntimeError(
            f"The expanded size of the tensor ({new}) must match the existing size ({old}) at "
            f"non-singleton dimension {max(lead, 0) + i}.  Target sizes: {list(want)}.  "
            f"Tensor sizes: {list(have)}"
        )


def expand_grad(g: Any, meta: Meta) -> tuple:
    return (sum_to_shape(g, meta.out_shape, meta.shape("x")),)


expand = op(
    name="expand",
    doc="Repeat along dimensions of size 1 and along new ones in front (no -1).",
    inputs=(Arg("x"), Sizes("shape")),
    shape=lambda call: call["shape"],
    dtype=operand_dtype,
    kind="movement",
    reference=lambda x, shape: np.broadcast_to(x, shape),
    grad=expand_grad,
    cheap=True,
    check=check_expand,
    samples=lambda rng: [
        Sample((array(rng, 3, 1),), {"shape": (2, 3, 4)}),
        Sample((array(rng),), {"shape": (2,)}),
        Sample((array(rng, 1),), {"shape": (0,)}),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)),), {"shape": (3,)}, RuntimeError, "number of sizes"),
        ErrorSample((np.ones((2, 3)),), {"shape": (4, 3)}, RuntimeError, "existing size"),
    ),
)


def check_slice(call: Call) -> None:
    shape = call["x"].shape
    start, length, step = call["start"], call["length"], call["step"]
    if not len(start) == len(length) == len(step) == len(shape):
        raise RuntimeError(f"{call.op.name}: one start, length and step for each of {len(shape)}")
    for i, (first, count, stride, size) in enumerate(zip(start, length, step, shape, strict=True)):
        if not (is_static(first) and is_static(count) and is_static(size)) or count == 0:
            continue
        if first < 0 or count < 0 or stride < 1 or first + (count - 1) * stride >= size:
            raise RuntimeError(
                f"{call.op.name}: start {first}, length {count}, step {stride} is out of "
                f"dimension {i} of size {size}"
            )


def slice_index(start: Sequence[int], length: Sequence[int], step: Sequence[int]) -> tuple:
    """numpy's index of a slice_."""
    triples = zip(start, length, step, strict=True)
    return tuple(slice(s, s + (n - 1) * d + 1 if n else s, d) for s, n, d in triples)


def slice_grad(g: Any, start: Any, length: Any, step: Any, meta: Meta) -> tuple:
    empty = zeros(meta.shape("x"), meta.dtype("x"))
    return (slice_scatter_(empty, g, start, length, step),)


slice_ = op(
    name="slice_",
    doc="`length` elements from `start` by `step` along every dimension.",
    inputs=(Arg("x"), Offsets("start"), Sizes("length"), Attr("step")),
    shape=lambda call: call["length"],
    dtype=operand_dtype,
    kind="movement",
    reference=lambda x, start, length, step: x[slice_index(start, length, step)],
    grad=slice_grad,
    cheap=True,
    check=check_slice,
    samples=lambda rng: [
        Sample((array(rng, 5, 4),), {"start": (1, 0), "length": (3, 2), "step": (1, 3)}),
        Sample((array(rng, 5),), {"start": (2,), "length": (0,), "step": (1,)}),
        Sample((array(rng),), {"start": (), "length": (), "step": ()}),
    ],
    error_samples=(
        ErrorSample(
            (np.ones(3),), {"start": (2,), "length": (2,), "step": (1,)}, RuntimeError, "is out of"
        ),
    ),
)


def slice_scatter_reference(
    x: np.ndarray, src: np.ndarray, start: tuple, length: tuple, step: tuple
) -> np.ndarray:
    result = np.array(x)
    result[slice_index(start, length, step)] = src
    return result


def slice_scatter_grad(g: Any, start: Any, length: Any, step: Any, meta: Meta) -> tuple:
    hole = zeros(meta.shape("src"), meta.dtype("src"))
    return (
        slice_scatter_(g, hole, start, length, step) if meta.needs("x") else None,
        slice_(g, start, length, step) if meta.needs("src") else None,
    )


slice_scatter_ = op(
    name="slice_scatter_",
    doc="x with the region that slice_ would read replaced by src.",
    inputs=(Arg("x"), Arg("src"), Offsets("start"), Sizes("length"), Attr("step")),
    shape=lambda call: call["x"].shape,
    dtype=common_dtype,
    kind="movement",
    reference=slice_scatter_reference,
    grad=slice_scatter_grad,
    check=check_slice,
    samples=lambda rng: [
        Sample(
            (array(rng, 5, 4), array(rng, 3, 2)),
            {"start": (1, 0), "length": (3, 2), "step": (1, 3)},
        )
    ],
)

flip = op(
    name="flip",
    doc="Turn the order of elements round along dims.",
    inputs=(Arg("x"), Dims("dims")),
    shape=lambda call: call["x"].shape,
    dtype=operand_dtype,
    kind="movement",
    reference=lambda x, dims: np.flip(x, dims),
    grad=lambda g, dims: (flip(g, dims),),
    torch=("torch.flip", "Tensor.flip"),
    cheap=True,
    samples=lambda rng: [
        Sample((array(rng, 3, 4),), {"dims": (1,)}),
        Sample((array(rng, 3, 4),), {"dims": (0, -1)}),
    ],
)


def pad_shape(call: Call) -> Shape:
    shape = []
    parts = zip(call["x"].shape, call["low"], call["high"], call["interior"], strict=True)
    for size, low, high, inside in parts:
        stretched = size if size == 0 else size + (size - 1) * inside
        shape.append(stretched + low + high)
    return tuple(shape)


def pad_region(shape: Shape, low: Any, interior: Any) -> dict[str, Any]:
    """The slice_ attributes that read the operand back."""
    return {"start": low, "length": shape, "step": tuple(i + 1 for i in interior)}


def pad_reference(
    x: np.ndarray, fill: np.ndarray, low: tuple, high: tuple, interior: tuple
) -> np.ndarray:
    parts = zip(x.shape, low, high, interior, strict=True)
    shape = [a + b + (n + (n - 1) * i if n else 0) for n, a, b, i in parts]
    result = np.full(shape, fill, x.dtype)
    result[slice_index(low, x.shape, tuple(i + 1 for i in interior))] = x
    return result


def pad_grad(g: Any, low: Any, interior: Any, meta: Meta) -> tuple:
    region = pad_region(meta.shape("x"), low, interior)
    inside = slice_(g, **region) if meta.needs("x") else None
    if not meta.needs("fill"):
        return (inside,)
    hole = zeros(meta.shape("x"), meta.dtype("x"))
    around = slice_scatter_(g, hole, **region)
    return inside, sum_to_shape(around, meta.out_shape, ())


pad = op(
    name="pad",
    doc="`low` and `high` fills around, `interior` fills between elements (never negative).",
    inputs=(Arg("x"), Arg("fill"), Sizes("low"), Sizes("high"), Attr("interior")),
    shape=pad_shape,
    dtype=common_dtype,
    kind="movement",
    reference=pad_reference,
    grad=pad_grad,
    cheap=True,
    samples=lambda rng: [
        Sample((array(rng, 3, 2), array(rng)), {"low": (1, 0), "high": (0, 2), "interior": (0, 1)}),
        Sample((array(rng, 0), array(rng)), {"low": (2,), "high": (1,), "interior": (2,)}),
    ],
)


def cat_shape(call: Call) -> Shape:
    tensors, dim = call["tensors"], call["dim"]
    total: Any = 0
    for node in tensors:
        total = total + node.shape[dim]
    return replace_dim(tensors[0].shape, dim, total)


def check_cat(call: Call) -> None:
    tensors, dim = call["tensors"], call["dim"]
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    first = tensors[0]
    for position, node in enumerate(tensors):
        if node.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {node.ndim}"
            )
        for i, (a, b) in enumerate(zip(first.shape, node.shape, strict=True)):
            if i != dim and a != b and is_static(a) and is_static(b):
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size {a} "
                    f"but got size {b} for tensor number {position} in the list."
                )
        if node.dtype is not first.dtype:
            raise RuntimeError(f"cat: one dtype, got {first.dtype.name} and {node.dtype.name}")


def cat_grad(g: Any, dim: int, meta: Meta) -> tuple:
    grads, at = [], 0
    for shape in meta.shape("tensors"):
        start = tuple(at if i == dim else 0 for i in range(len(shape)))
        grads.append(slice_(g, start, shape, (1,) * len(shape)))
        at = at + shape[dim]
    return (grads,)


cat = op(
    name="cat",
    doc="Tensors one after the other along dim.",
    inputs=(Arg("tensors", variadic=True), Dim("dim", 0)),
    shape=cat_shape,
    dtype=operand_dtype,
    kind="movement",
    reference=lambda tensors, dim: np.concatenate(tensors, dim),
    grad=cat_grad,
    torch=("torch.cat", "torch.concat", "torch.concatenate"),
    check=check_cat,
    samples=lambda rng: [
        Sample(([array(rng, 2, 3), array(rng, 4, 3)],), {"dim": 0}),
        Sample(([array(rng, 2, 3), array(rng, 2, 0), array(rng, 2, 1)],), {"dim": -1}),
    ],
    error_samples=(
        ErrorSample(([np.ones((2, 3)), np.ones((3, 2))],), {}, RuntimeError, "must match except"),
        ErrorSample(([np.ones((2, 3)), np.ones(2)],), {}, RuntimeError, "same number of dim"),
    ),
)
