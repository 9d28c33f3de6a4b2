"""Distances between vectors: cosine similarity, pairwise distances, cross products."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Attr, Call, Value
from rushlight.ops.binary import maximum, mul, sub
from rushlight.ops.build import conj_of, like
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.movement import reshape
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import (
    Shape,
    broadcast_shapes,
    common_dtype,
    elementwise_shape,
    float_dtype,
    is_static,
    without_dims,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.shape import roll
from rushlight.ops.statistics import norm, norm_reference
from rushlight.ops.unary import sqrt


def _dim(dim: int, ndim: int) -> int:
    return dim % ndim if ndim else 0


def similarity_shape(call: Call) -> Shape:
    shape = broadcast_shapes(call["x1"].shape, call["x2"].shape)
    return without_dims(shape, (_dim(call["dim"], len(shape)),))


def similarity_decompose(x1: Any, x2: Any, dim: int = 1, eps: Any = 1e-8) -> Any:
    """Each norm is not less than eps, as PyTorch."""
    both = mul(x1, x2)
    at = (_dim(dim, both.ndim),)
    floor = like(eps, both.dtype)
    square = floor * floor
    n1 = maximum(reduce_sum(mul(x1, x1) + both * 0.0, at), square)
    n2 = maximum(reduce_sum(mul(x2, x2) + both * 0.0, at), square)
    return reduce_sum(both, at) / sqrt(n1 * n2)


cosine_similarity = composite(
    "cosine_similarity",
    "The cosine of the angle between vectors along dim.",
    (Arg("x1"), Arg("x2"), Attr("dim", 1), Value("eps", 1e-8)),
    similarity_decompose,
    lambda a, b, eps, dim: (
        (a * b).sum(dim)
        / np.maximum(np.sqrt((a * a + 0 * b).sum(dim) * (b * b + 0 * a).sum(dim)), eps * eps)
    ),
    shape=similarity_shape,
    torch=("torch.cosine_similarity", "nn.functional.cosine_similarity"),
    samples=lambda rng: [
        Sample((array(rng, 3, 4), array(rng, 3, 4), 1e-8), {"dim": d}) for d in (1, 0)
    ],
)


def cdist_shape(call: Call) -> Shape:
    a, b = call["x1"].shape, call["x2"].shape
    if len(a) < 2 or len(b) < 2:
        raise RuntimeError("cdist only supports at least 2D tensors")
    if a[-1] != b[-1] and is_static(a[-1]) and is_static(b[-1]):
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {a[-1]} X2: {b[-1]}"
        )
    return (*broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-2])


def _all_pairs(x1: Any, x2: Any) -> Any:
    a = reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1]))
    b = reshape(x2, (*x2.shape[:-2], 1, *x2.shape[-2:]))
    return sub(a, b)


cdist = composite(
    "cdist",
    "The p-norm distance of every row of x1 to every row of x2.",
    (Arg("x1"), Arg("x2"), Attr("p", 2.0)),
    lambda x1, x2, p=2.0: norm(_all_pairs(x1, x2), p, (-1,), False),
    lambda a, b, p: norm_reference(a[..., :, None, :] - b[..., None, :, :], p, -1, False),
    shape=cdist_shape,
    dtype=float_dtype,
    torch=("torch.cdist",),
    samples=lambda rng: [
        Sample((array(rng, 3, 2), array(rng, 4, 2)), {"p": 2.0}),
        Sample((array(rng, 2, 3, 2), array(rng, 4, 2)), {"p": 1.0}),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((2, 4))), {}, RuntimeError, "same number of col"),
    ),
)


def cross_decompose(x: Any, other: Any, dim: int = -1) -> Any:
    """x[i+1] y[i+2] - x[i+2] y[i+1], the indices going round."""
    shape = broadcast_shapes(x.shape, other.shape)
    at = _dim(dim, len(shape))

    def turned(v: Any, by: int) -> Any:
        return roll(v, (by,), (at - (len(shape) - v.ndim),))

    first = mul(turned(x, -1), turned(other, -2))
    return sub(first, mul(turned(x, -2), turned(other, -1)))


def check_cross(call: Call) -> None:
    shape = broadcast_shapes(call["x"].shape, call["other"].shape)
    size = shape[_dim(call["dim"], len(shape))] if shape else 0
    if is_static(size) and size != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {call['dim']} must have length 3. Got {size} and "
            f"{size}"
        )


def cross_grad(g: Any, x: Any, other: Any, dim: int, meta: Meta) -> tuple:
    at = dim if dim < 0 else dim - len(meta.out_shape)
    return cross(conj_of(other), g, at), cross(g, conj_of(x), at)


def cross_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 4, 3), array(rng, 4, 3)), {"dim": -1}),
        Sample((array(rng, 3, 2), array(rng, 3, 2)), {"dim": 0}),
    ]


cross = composite(
    "cross",
    "The cross product of 3-vectors along dim.",
    (Arg("x"), Arg("other"), Attr("dim", -1)),
    cross_decompose,
    lambda x, other, dim: np.cross(x, other, axis=dim),
    cross_grad,
    shape=elementwise_shape,
    dtype=common_dtype,
    compute_f32=False,
    unify=True,
    torch=("torch.linalg.cross",),
    check=check_cross,
    samples=cross_samples,
    error_samples=(ErrorSample((np.ones(2), np.ones(2)), {}, RuntimeError, "length 3"),),
)
