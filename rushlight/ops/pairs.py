"""Values of pairs (query, key) that are never stored: the inside of an attention.

`pair_dot`, `pair_index`, `pair_mask` and every elementwise value or view made of them are *pair
values*: shape (..., L, S), computed where a kernel of attention needs them and forgotten. What
leaves the pairs is a sum over keys or queries (`pair_sum`) or a softmax (`ops/attention.py`).
`pair_dot` and `pair_sum` are each other's gradients, so gradients of any order stay in this form.
If something else reads a pair value (a root, a contraction), the compiler makes it an ordinary one.

[tables] A mask may come with int32 tables that say beforehand where kept pairs can be:
  starts (..., R + 1), spans (n, 3)   for block r of PAIR_ROWS queries: spans[starts[r]:starts[r+1]]
  starts, spans                       the same for blocks of PAIR_ROWS keys; gradients need them
A span (first, stop, code) is a range of tiles of PAIR_TILE keys (or queries), ascending, disjoint.
The code has two bits for each PAIR_GROUP of the block's rows and each PAIR_PART of a tile, the
parts of the first group lowest: 0 no pair is kept there, 1 the mask decides, 2 all are kept.
Outside of all spans no pair is kept.
Tables repeat what the mask says, they never change it.

Shape letters: L queries, S keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import bool_, int64, promote_types
from rushlight.ir.opdef import Arg, Attr, Call, NotDifferentiable, Sizes, op
from rushlight.ops.build import expand_to, sum_to_shape, unreduce
from rushlight.ops.composite import in_float32
from rushlight.ops.meta import Meta
from rushlight.ops.rules import Shape, broadcast_shapes, is_static, operand_dtype, operand_shape
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, truth

PAIR_ROWS, PAIR_TILE, PAIR_GROUP, PAIR_PART = 128, 64, 32, 32
MINUS = float("-inf")
FILLS = {"zero": 0.0, "minus": MINUS}


def _check_features(call: Call) -> None:
    a, b = call["a"].shape[-1], call["b"].shape[-1]
    if a != b and is_static(a) and is_static(b):
        raise RuntimeError(f"pair_dot: features differ: {a} and {b}")


def _pair_dot_shape(call: Call) -> Shape:
    a, b = call["a"].shape, call["b"].shape
    return (*broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-2])


def pair_dot_grad(g: Any, a: Any, b: Any, meta: Meta) -> tuple:
    by_a = by_b = None
    if meta.needs("a"):
        by_a = pair_sum(g, b, over="s")
        by_a = sum_to_shape(by_a, by_a.shape, meta.shape("a"))
    if meta.needs("b"):
        by_b = pair_sum(g, a, over="l")
        by_b = sum_to_shape(by_b, by_b.shape, meta.shape("b"))
    return by_a, by_b


pair_dot = op(
    name="pair_dot",
    doc="a @ b^T for pairs of rows of a and of b, summed in at least float32; a pair value.",
    inputs=(Arg("a"), Arg("b")),
    shape=_pair_dot_shape,
    dtype=lambda call: promote_types(call["a"].dtype.compute, call["b"].dtype.compute),
    kind="pairs",
    reference=lambda a, b: np.matmul(a, np.swapaxes(b, -1, -2)),
    grad=pair_dot_grad,
    promote="none",
    cheap=True,
    check=_check_features,
    samples=lambda rng: [
        Sample((array(rng, 2, 3, 4), array(rng, 2, 5, 4))),
        Sample((array(rng, 3, 4), array(rng, 2, 5, 4))),
        Sample((array(rng, 3, 0), array(rng, 5, 0))),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((2, 4))), {}, RuntimeError, "features differ"),
    ),
)


def _pair_index_reference(sizes: tuple, dim: int) -> np.ndarray:
    shape = [1] * len(sizes)
    shape[dim] = sizes[dim]
    return np.broadcast_to(np.arange(sizes[dim], dtype=np.int64).reshape(shape), sizes)


pair_index = op(
    name="pair_index",
    doc="The index along `dim` of every element of this shape; a pair value.",
    inputs=(Sizes("sizes"), Attr("dim")),
    shape=lambda call: call["sizes"],
    dtype=lambda call: int64,
    kind="pairs",
    reference=_pair_index_reference,
    grad=NotDifferentiable("it has no inputs"),
    promote="none",
    cheap=True,
    samples=lambda rng: [Sample((), {"sizes": (2, 3, 4), "dim": 1})],
)


def _check_mask(call: Call) -> None:
    x, keep = call["x"], call["keep"]
    if len(call["tables"]) not in (0, 2, 4):
        raise ValueError(f"pair_mask: tables must be 0, 2 or 4, got {len(call['tables'])}")
    if call["fill"] not in FILLS:
        raise ValueError(f"pair_mask: fill must be one of {tuple(FILLS)}, got {call['fill']!r}")
    if keep is not None and keep.dtype is not bool_:
        raise RuntimeError(f"pair_mask: keep must be bool, got {keep.dtype.name}")
    if keep is not None and broadcast_shapes(keep.shape, x.shape) != x.shape:
        raise RuntimeError(
            f"pair_mask: keep of shape {list(keep.shape)} does not broadcast to {list(x.shape)}"
        )


def _pair_mask_reference(
    x: np.ndarray, keep: Any, tables: list, is_causal: bool, fill: str
) -> np.ndarray:
    kept = np.ones(x.shape[-2:], bool)
    if is_causal:
        kept = np.tri(*x.shape[-2:], dtype=bool)
    return np.where(kept if keep is None else kept & keep, x, np.asarray(FILLS[fill], x.dtype))


def pair_mask_grad(g: Any, keep: Any, tables: Any, is_causal: bool) -> tuple:
    return (pair_mask(g, keep, tables, is_causal=is_causal, fill="zero"),)


pair_mask = op(
    name="pair_mask",
    doc="x where `keep` is true and, if causal, key <= query; 0 or -inf elsewhere. A pair value.",
    inputs=(
        Arg("x"),
        Arg("keep", optional=True),
        Arg("tables", variadic=True),
        Attr("is_causal", False),
        Attr("fill", "zero"),
    ),
    shape=operand_shape,
    dtype=operand_dtype,
    kind="pairs",
    reference=_pair_mask_reference,
    grad=pair_mask_grad,
    promote="none",
    cheap=True,
    check=_check_mask,
    samples=lambda rng: [
        Sample((array(rng, 2, 3, 5), truth(rng, 3, 5), [])),
        Sample((array(rng, 2, 5, 3), None, []), {"is_causal": True}),
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((2, 3)), []), {}, RuntimeError, "must be bool"),
        ErrorSample((np.ones((2, 3)), np.ones((2, 2), bool), []), {}, RuntimeError, "must match"),
    ),
)


def _check_sum(call: Call) -> None:
    weight, other = call["weight"], call["other"]
    if call["over"] not in ("l", "s"):
        raise ValueError(f"pair_sum: over must be 'l' or 's', got {call['over']!r}")
    if other is None:
        return
    summed = weight.shape[-2 if call["over"] == "l" else -1]
    if other.shape[-2] != summed and is_static(summed) and is_static(other.shape[-2]):
        raise RuntimeError(f"pair_sum: lengths differ: {summed} and {other.shape[-2]}")


def _pair_sum_shape(call: Call) -> Shape:
    weight, other = call["weight"].shape, call["other"]
    kept = weight[-1 if call["over"] == "l" else -2]
    if other is None:
        return (*weight[:-2], kept)
    return (*broadcast_shapes(weight[:-2], other.shape[:-2]), kept, other.shape[-1])


def _pair_sum_reference(weight: np.ndarray, other: Any, over: str) -> np.ndarray:
    if other is None:
        return weight.sum(-2 if over == "l" else -1)
    return np.matmul(np.swapaxes(weight, -1, -2) if over == "l" else weight, other)


def pair_sum_grad(g: Any, weight: Any, other: Any, over: str, meta: Meta) -> tuple:
    by_weight = by_other = None
    if meta.needs("weight"):
        shape = meta.shape("weight")
        if meta.has("other"):
            by_weight = pair_dot(other, g) if over == "l" else pair_dot(g, other)
            by_weight = sum_to_shape(by_weight, by_weight.shape, shape)
        else:
            by_weight = unreduce(g, shape, (len(shape) - (2 if over == "l" else 1),))
    if meta.needs("other"):
        by_other = pair_sum(weight, g, over="s" if over == "l" else "l")
        by_other = sum_to_shape(by_other, by_other.shape, meta.shape("other"))
    return by_weight, by_other


def _pair_sum_samples(rng: Rng) -> list[Sample]:
    return [
        Sample((array(rng, 2, 3, 5), array(rng, 2, 5, 4)), {"over": "s"}),
        Sample((array(rng, 2, 3, 5), array(rng, 3, 4)), {"over": "l"}),
        Sample((array(rng, 3, 5), None), {"over": "s"}),
        Sample((array(rng, 2, 3, 5), None), {"over": "l"}),
    ]


pair_sum = op(
    name="pair_sum",
    doc="Sum over the keys (over='s') or the queries ('l') of weight times the rows of `other`.",
    inputs=(Arg("weight"), Arg("other", optional=True), Attr("over", "s")),
    shape=_pair_sum_shape,
    dtype=operand_dtype,
    kind="attention",
    reference=_pair_sum_reference,
    grad=in_float32(pair_sum_grad),
    promote="none",
    check=_check_sum,
    samples=_pair_sum_samples,
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.ones((2, 4))), {}, RuntimeError, "lengths differ"),
    ),
)


def broadcast_lead(x: Any, lead: Shape) -> Any:
    """A value of shape (..., m, n) with these leading dimensions."""
    shape = (*lead, *x.shape[-2:])
    return expand_to(x, x.shape, shape)
