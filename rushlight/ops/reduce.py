"""Reduction and scan primitives. Reduced dims are removed; public forms are in reductions.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.ir.opdef import Arg, Call, Dim, Dims, NotDifferentiable, OpDef, op
from rushlight.ops import complex_pairs as pairs
from rushlight.ops import samples
from rushlight.ops.binary import div, eq, mul
from rushlight.ops.build import keep, unreduce, zeros
from rushlight.ops.late import late
from rushlight.ops.meta import Meta
from rushlight.ops.movement import flip
from rushlight.ops.rules import (
    bool_dtype,
    int64_dtype,
    is_static,
    operand_dtype,
    operand_shape,
    without_dims,
)
from rushlight.ops.select import cast

POSITION = NotDifferentiable("the output is a position")


def check_dims(call: Call) -> None:
    if not call["dims"]:
        raise RuntimeError(f"{call.op.name}: dims must name at least one dimension")


def check_not_empty(call: Call) -> None:
    check_dims(call)
    for d in call["dims"]:
        if is_static(call["x"].shape[d]) and call["x"].shape[d] == 0:
            raise IndexError(f"{call.op.name}: Expected reduction dim {d} to have non-zero size.")


def _reduce(name: str, doc: str, reference: Callable, grad: Any, **fields: Any) -> OpDef:
    fields.setdefault("dtype", operand_dtype)
    fields.setdefault("samples", samples.reduction)
    fields.setdefault("check", check_dims)
    return op(
        name=name, doc=doc, inputs=(Arg("x"), Dims("dims")), kind="reduce", grad=grad,
        shape=lambda call: without_dims(call["x"].shape, call["dims"]), reference=reference,
        **fields,
    )  # fmt: skip


def prod_grad(g: Any, x: Any, dims: tuple, meta: Meta) -> tuple:
    return (mul(unreduce(g, meta.shape("x"), dims), late.others(x, dims)),)


def extreme_grad(g: Any, x: Any, out: Any, dims: tuple, meta: Meta) -> tuple:
    """Equal shares to all elements that are the extreme (PyTorch's amax and amin)."""
    shape, dtype = meta.shape("x"), meta.dtype("x")
    same = cast(eq(x, keep(out, shape, dims)), dtype)
    count = reduce_sum(same, dims)
    return (mul(same, unreduce(div(g, count), shape, dims)),)


def _flat_position(find: Callable) -> Callable:
    """argmax over several dims: the position in the flattened reduced dims."""

    def apply(x: np.ndarray, dims: tuple) -> np.ndarray:
        kept = [i for i in range(x.ndim) if i not in dims]
        moved = np.transpose(x, (*kept, *dims))
        count = math.prod(x.shape[d] for d in dims)
        return find(moved.reshape(*moved.shape[: len(kept)], count), axis=-1)

    return apply


def _sum_reference(x: np.ndarray, dims: tuple) -> np.ndarray:
    return np.sum(x, axis=dims, dtype=x.dtype)


# fmt: off
reduce_sum = _reduce("reduce_sum", "The sum over dims, in the operand's dtype.", _sum_reference,
                     lambda g, dims, meta: (unreduce(g, meta.shape("x"), dims),),
                     pair=pairs.by_parts(lambda x, dims: reduce_sum(x, dims)))
reduce_prod = _reduce("reduce_prod", "The product over dims, in the operand's dtype.",
                      lambda x, dims: np.prod(x, axis=dims, dtype=x.dtype), prod_grad)
reduce_max = _reduce("reduce_max", "The largest over dims; NaN if there is one.",
                     lambda x, dims: np.max(x, axis=dims), extreme_grad, check=check_not_empty)
reduce_min = _reduce("reduce_min", "The smallest over dims; NaN if there is one.",
                     lambda x, dims: np.min(x, axis=dims), extreme_grad, check=check_not_empty)
reduce_any = _reduce("reduce_any", "True where any element over dims is true (bool only).",
                     lambda x, dims: np.any(x, axis=dims),
                     NotDifferentiable("the output is a truth value"), dtype=bool_dtype,
                     samples=samples.reduction_bool)
reduce_all = _reduce("reduce_all", "True where all elements over dims are true (bool only).",
                     lambda x, dims: np.all(x, axis=dims),
                     NotDifferentiable("the output is a truth value"), dtype=bool_dtype,
                     samples=samples.reduction_bool)
argmax_ = _reduce("argmax_", "The first position of the largest in the flattened dims; NaN wins.",
                  _flat_position(np.argmax), POSITION, dtype=int64_dtype, check=check_not_empty)
argmin_ = _reduce("argmin_", "The first position of the smallest in the flattened dims; NaN wins.",
                  _flat_position(np.argmin), POSITION, dtype=int64_dtype, check=check_not_empty)
# fmt: on


def _scan(name: str, doc: str, reference: Callable, grad: Any, **fields: Any) -> OpDef:
    fields.setdefault("dtype", operand_dtype)
    return op(
        name=name, doc=doc, inputs=(Arg("x"), Dim("dim")), kind="scan", grad=grad,
        shape=operand_shape, reference=reference, samples=samples.over_dim(), **fields,
    )  # fmt: skip


# Elements of a running sum that are added to one chain.
SUM_CHUNK = 512


def running_sums(x: np.ndarray, dim: int) -> np.ndarray:
    """Each chunk a left fold, to which the fold of all chunks before it is added."""
    moved = np.moveaxis(x, dim, -1)
    result, before = np.empty(moved.shape, x.dtype), None
    for start in range(0, moved.shape[-1], SUM_CHUNK):
        inner = np.cumsum(moved[..., start : start + SUM_CHUNK], axis=-1, dtype=x.dtype)
        last = inner[..., -1:]
        result[..., start : start + SUM_CHUNK] = inner if before is None else inner + before
        before = last if before is None else before + last
    return np.moveaxis(result, -1, dim)


def reverse_sum(x: Any, dim: int) -> Any:
    """Sums from each element to the end."""
    return flip(scan_sum(flip(x, (dim,)), dim), (dim,))


def scan_prod_grad(g: Any, x: Any, dim: int) -> tuple:
    return (late.running_products_pull(g, x, dim),)


def scan_extreme_grad(position: str) -> Callable[..., tuple]:
    """The gradient goes to the element that was the extreme so far (the latest among equals)."""

    def grad(g: Any, x: Any, dim: int, meta: Meta) -> tuple:
        at = getattr(late, position)(x, dim)
        return (late.scatter_add(zeros(meta.shape("x"), meta.dtype("x")), dim, at, g),)

    return grad


def _scan_position(better: Callable) -> Callable:
    """The latest position of the running extreme; NaN wins."""

    def apply(x: np.ndarray, dim: int) -> np.ndarray:
        moved = np.moveaxis(x, dim, 0)
        result = np.zeros(moved.shape, np.int64)
        best = moved[0].copy() if len(moved) else moved
        for i in range(1, len(moved)):
            now = moved[i]
            wins = (better(now, best) | (now != now)) & ~((best != best) & (now == now))
            best = np.where(wins, now, best)
            result[i] = np.where(wins, i, result[i - 1])
        return np.moveaxis(result, 0, dim)

    return apply


# fmt: off
scan_sum = _scan("scan_sum", "Running sums along dim.",
                 lambda x, dim: np.cumsum(x, axis=dim, dtype=x.dtype),
                 lambda g, dim: (reverse_sum(g, dim),),
                 pair=pairs.by_parts(lambda x, dim: scan_sum(x, dim)))
scan_running_sum = _scan("scan_running_sum", "Running sums of floats along dim, chunk by chunk.",
                         running_sums,
                         lambda g, dim: (flip(scan_running_sum(flip(g, (dim,)), dim), (dim,)),),
                         pair=pairs.by_parts(lambda x, dim: scan_running_sum(x, dim)))
scan_prod = _scan("scan_prod", "Running products along dim.",
                  lambda x, dim: np.cumprod(x, axis=dim, dtype=x.dtype), scan_prod_grad)
scan_max = _scan("scan_max", "The largest so far along dim.",
                 lambda x, dim: np.maximum.accumulate(x, axis=dim),
                 scan_extreme_grad("scan_argmax"))
scan_min = _scan("scan_min", "The smallest so far along dim.",
                 lambda x, dim: np.minimum.accumulate(x, axis=dim),
                 scan_extreme_grad("scan_argmin"))
scan_argmax = _scan("scan_argmax", "The latest position of the largest so far along dim.",
                    _scan_position(np.greater_equal), POSITION, dtype=int64_dtype)
scan_argmin = _scan("scan_argmin", "The latest position of the smallest so far along dim.",
                    _scan_position(np.less_equal), POSITION, dtype=int64_dtype)
# fmt: on
