"""Classification losses: cross_entropy of logits, nll_loss of log-probabilities.

Input [N, C], [C] or [N, C, d1, ...]; the target holds class indices [N, d1, ...], or (for
cross_entropy) probabilities of the input's shape. Rows whose target is ignore_index do not count.
Shapes below: M rows, C classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.ir.opdef import Arg, Attr, Call
from rushlight.ir.symint_math import product
from rushlight.ops import reference as ref
from rushlight.ops.binary import eq, mul, ne
from rushlight.ops.build import (
    expand_to,
    full,
    iota_along,
    keep,
    reshape_to,
    size_value,
    to_dtype,
)
from rushlight.ops.class_target import check_classes, check_probabilities, class_dim, row_shape
from rushlight.ops.composite import composite
from rushlight.ops.indexed import gather_nd
from rushlight.ops.loss import REDUCTION, check_reduction
from rushlight.ops.meta import Meta
from rushlight.ops.movement import permute, reshape
from rushlight.ops.reduce import reduce_max, reduce_sum
from rushlight.ops.rules import Shape, operand_dtype
from rushlight.ops.samples import ErrorSample, Rng, Sample, array, whole
from rushlight.ops.select import where
from rushlight.ops.unary import exp, log


def rows_of(x: Any) -> Any:
    """[N, C, d...] -> [M, C]."""
    dim = class_dim(x.ndim)
    if x.ndim > 2:
        x = permute(x, (*(d for d in range(x.ndim) if d != dim), dim))
    return reshape_to(x, x.shape, (product(x.shape[:-1]), x.shape[-1]))


def rows_back(rows: Any, shape: Shape) -> Any:
    """Undo rows_of."""
    dim = class_dim(len(shape))
    moved = (*(s for d, s in enumerate(shape) if d != dim), shape[dim])
    x = reshape_to(rows, rows.shape, moved)
    if len(shape) <= 2:
        return x
    return permute(x, (0, len(shape) - 1, *range(1, len(shape) - 1)))


def log_partition(rows: Any) -> tuple[Any, Any]:
    """(rows less their largest, log of the sum of exponentials of that), [M, C] and [M, 1]."""
    off = rows - keep(reduce_max(rows, (1,)), rows.shape, (1,))
    return off, log(keep(reduce_sum(exp(off), (1,)), rows.shape, (1,)))


def _is_soft(target: Any) -> bool:
    return target.dtype.is_floating_point


class Targets:
    """What index targets say per row: which class, whether it counts, with what weight."""

    def __init__(self, target: Any, weight: Any, ignore_index: int, dtype: Any) -> None:
        flat = reshape(to_dtype(target, int64), (target.numel(),))
        self.counts = ne(flat, ignore_index)
        self.index = where(self.counts, flat, 0)
        one = full((), 1, dtype)
        each = one if weight is None else gather_nd(weight, [self.index])
        self.weight = where(self.counts, each, 0.0)

    def pick(self, rows: Any) -> Any:
        line = iota_along(1, 0, rows.shape[0])
        return gather_nd(rows, [line, self.index])

    def hot(self, classes: Any) -> Any:
        """True at each row's class, [M, C]."""
        index = reshape(self.index, (*self.index.shape, 1))
        return eq(index, iota_along(2, 1, classes))


def settle(each: Any, divisor: Any, reduction: str, shape: Shape) -> Any:
    """Rows' losses to the asked result; the mean is over the sum of weights."""
    if reduction == "none":
        return reshape_to(each, each.shape, shape)
    total = reduce_sum(each, (0,))
    return total if reduction == "sum" else total / divisor


def row_share(g: Any, divisor: Any, reduction: str, rows: Any) -> Any:
    """The gradient of each row's loss, [M, 1] or a number."""
    if reduction == "none":
        return reshape(g, (rows, 1))
    return g if reduction == "sum" else g / divisor


def cross_entropy_decompose(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100,  # noqa: A002
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    rows = rows_of(input)
    off, partition = log_partition(rows)
    shape = row_shape(input.shape)
    if _is_soft(target):
        return _soft(off - partition, rows_of(target), weight, reduction, label_smoothing, shape)
    targets = Targets(target, weight, ignore_index, rows.dtype)
    nll = reshape(partition, (rows.shape[0],)) - targets.pick(off)
    # Not weight * nll: an ignored row may hold inf or NaN.
    each = where(targets.counts, targets.weight * nll, 0.0)
    if label_smoothing:
        log_p = off - partition
        spread = reduce_sum(log_p if weight is None else log_p * weight, (1,))
        spread = where(targets.counts, -spread, 0.0) / size_value(rows.shape[1], rows.dtype)
        each = each * (1.0 - label_smoothing) + spread * label_smoothing
    return settle(each, reduce_sum(targets.weight, (0,)), reduction, shape)


def _soft(
    log_p: Any, target: Any, weight: Any, reduction: str, smoothing: float, shape: Shape
) -> Any:
    target = _smoothed(target, smoothing)
    share = log_p * target
    each = -reduce_sum(share if weight is None else share * weight, (1,))
    return settle(each, size_value(log_p.shape[0], log_p.dtype), reduction, shape)


def _smoothed(target: Any, smoothing: float) -> Any:
    if not smoothing:
        return target
    return target * (1.0 - smoothing) + full((), smoothing, target.dtype) / size_value(
        target.shape[1], target.dtype
    )


def cross_entropy_grad(
    g: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str,  # noqa: A002
    label_smoothing: float, meta: Meta,
) -> tuple:  # fmt: skip
    """Softmax less the target, row by row; logits are read again, nothing else is kept."""
    rows = rows_of(input)
    off, partition = log_partition(rows)
    if _is_soft(target):
        return _soft_grad(g, off - partition, rows_of(target), weight, reduction, label_smoothing,
                          meta)  # fmt: skip
    count, classes = rows.shape
    targets = Targets(target, weight, ignore_index, rows.dtype)
    own = reshape_to(targets.weight, targets.weight.shape, (count, 1))
    p = exp(off - partition)
    if label_smoothing:
        many = size_value(classes, rows.dtype)
        each = full((classes,), 1, rows.dtype) if weight is None else weight
        each = each * label_smoothing / many
        valid = reshape(targets.counts, (count, 1))
        each = where(valid, reshape(each, (1, classes)), 0.0)
        own = own * (1.0 - label_smoothing)
        slope = p * (own + keep(reduce_sum(each, (1,)), each.shape, (1,))) - each
        slope = slope - where(targets.hot(classes), own, 0.0)
    else:
        slope = own * (p - to_dtype(targets.hot(classes), rows.dtype))
    share = row_share(g, reduce_sum(targets.weight, (0,)), reduction, count)
    # A row that does not count stays 0 even when nothing counts (0 / 0).
    slope = where(reshape(targets.counts, (count, 1)), share * slope, 0.0)
    return (rows_back(slope, meta.shape("input")),)


def _soft_grad(
    g: Any, log_p: Any, target: Any, weight: Any, reduction: str, smoothing: float, meta: Meta
) -> tuple:
    share = row_share(g, size_value(log_p.shape[0], log_p.dtype), reduction, log_p.shape[0])
    smooth = _smoothed(target, smoothing)
    smooth = smooth if weight is None else smooth * weight
    slope = exp(log_p) * keep(reduce_sum(smooth, (1,)), smooth.shape, (1,)) - smooth
    by_target = None
    if meta.needs("target"):
        each = -log_p if weight is None else -log_p * weight
        by_target = rows_back(share * each * (1.0 - smoothing), meta.shape("target"))
    return rows_back(share * slope, meta.shape("input")), by_target


def loss_shape(call: Call) -> Shape:
    return row_shape(call["input"].shape) if call["reduction"] == "none" else ()


def check_target(call: Call) -> None:
    check_reduction(call)
    x, target = call["input"], call["target"]
    if call.op.name == "cross_entropy" and x.shape == target.shape:
        check_probabilities(x, target, call["weight"])
    else:
        check_classes(x, target, call["weight"])


def _numpy_rows(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, class_dim(x.ndim), -1).reshape(-1, x.shape[class_dim(x.ndim)])


def cross_entropy_reference(
    x: np.ndarray, target: np.ndarray, weight: Any, ignore_index: int, reduction: str,
    label_smoothing: float,
) -> np.ndarray:  # fmt: skip
    log_p = ref.log_softmax(_numpy_rows(x), 1)
    return _numpy_loss(log_p, x, target, weight, ignore_index, reduction, label_smoothing)


def _numpy_loss(
    log_p: np.ndarray, x: np.ndarray, target: np.ndarray, weight: Any, ignore_index: int,
    reduction: str, smoothing: float,
) -> np.ndarray:  # fmt: skip
    classes = log_p.shape[1]
    weight = np.ones(classes, log_p.dtype) if weight is None else weight
    if target.dtype.kind == "f":
        smooth = _numpy_rows(target) * (1 - smoothing) + smoothing / classes
        each, divisor = -(log_p * smooth * weight).sum(1), len(log_p)
    else:
        flat = target.reshape(-1).astype(np.int64)
        valid = flat != ignore_index
        index = np.where(valid, flat, 0)
        own = np.where(valid, weight[index], 0)
        each = -own * log_p[np.arange(len(log_p)), index] * (1 - smoothing)
        each = each - np.where(valid, (log_p * weight).sum(1), 0) * smoothing / classes
        divisor = own.sum()
    if reduction == "none":
        return each.reshape(row_shape(x.shape))
    return each.sum() if reduction == "sum" else each.sum() / divisor


def cross_entropy_samples(rng: Rng) -> list[Sample]:
    found = []
    soft = np.abs(array(rng, 4, 3))
    cases = [
        (array(rng, 4, 3), np.array([0, 2, -1, 1]), None),
        (array(rng, 4, 3), np.array([0, 2, -1, 1]), array(rng, 3, low=0.2)),
        (array(rng, 2, 3, 2), whole(rng, 2, 2, high=3), None),
        (array(rng, 3), np.array(1), None),
        (array(rng, 4, 3), soft, array(rng, 3, low=0.2)),
    ]
    for x, target, weight in cases:
        for reduction in ("none", "mean", "sum"):
            for smoothing in (0.0, 0.1):
                attrs = {"ignore_index": -1, "reduction": reduction, "label_smoothing": smoothing}
                found.append(Sample((x, target, weight), attrs, skip=("weight",)))
    return found


cross_entropy = composite(
    "cross_entropy",
    "Minus the log-probability that softmax gives the target class.",
    (
        Arg("input"),
        Arg("target"),
        Arg("weight", optional=True),
        Attr("ignore_index", -100),
        REDUCTION,
        Attr("label_smoothing", 0.0),
    ),
    cross_entropy_decompose,
    cross_entropy_reference,
    cross_entropy_grad,
    shape=loss_shape,
    dtype=operand_dtype,
    check=check_target,
    samples=cross_entropy_samples,
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.zeros(3, np.int64)), {}, ValueError, "batch_size"),
        ErrorSample(
            (np.ones((2, 3, 2)), np.zeros((2, 3), np.int64)), {}, RuntimeError, "target size"
        ),
        ErrorSample(
            (np.ones((2, 3)), np.zeros(2, np.int64)), {"reduction": "x"}, ValueError, "not a valid"
        ),
    ),
)


def nll_decompose(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100,  # noqa: A002
    reduction: str = "mean",
) -> Any:  # fmt: skip
    rows = rows_of(input)
    targets = Targets(target, weight, ignore_index, rows.dtype)
    each = -(targets.weight * targets.pick(rows))
    divisor = reduce_sum(expand_to(targets.weight, targets.weight.shape, each.shape), (0,))
    return settle(each, divisor, reduction, row_shape(input.shape))


def nll_grad(
    g: Any, target: Any, weight: Any, ignore_index: int, reduction: str, meta: Meta
) -> tuple:
    shape, dtype = meta.shape("input"), meta.dtype("input")
    targets = Targets(target, weight, ignore_index, dtype)
    classes = shape[class_dim(len(shape))]
    count = targets.index.shape[0]
    share = row_share(g, reduce_sum(targets.weight, (0,)), reduction, count)
    own = mul(reshape(targets.weight, (count, 1)), share)
    chosen = eq(reshape(to_dtype(targets.counts, int64), (count, 1)), 1)
    hot = where(chosen, targets.hot(classes), False)
    return (rows_back(where(hot, -own, 0.0), shape),)


nll_loss = composite(
    "nll_loss",
    "Minus the input (a log-probability) at the target class.",
    (
        Arg("input"),
        Arg("target"),
        Arg("weight", optional=True),
        Attr("ignore_index", -100),
        REDUCTION,
    ),
    nll_decompose,
    lambda x, target, weight, ignore_index, reduction: _numpy_loss(
        _numpy_rows(x), x, target, weight, ignore_index, reduction, 0.0
    ),
    nll_grad,
    shape=loss_shape,
    dtype=operand_dtype,
    check=check_target,
    samples=lambda rng: [
        Sample(
            s.args,
            {k: v for k, v in s.attrs.items() if k != "label_smoothing"},
            skip=("weight",),
        )
        for s in cross_entropy_samples(rng)
        if not s.attrs["label_smoothing"] and s.args[1].dtype.kind != "f"
    ],
    error_samples=(
        ErrorSample((np.ones((2, 3)), np.zeros(3, np.int64)), {}, ValueError, "batch_size"),
        ErrorSample((np.ones((2, 3)), np.zeros(2)), {}, RuntimeError, "expected target dtype"),
    ),
    pair='"nll_loss_out_frame"',
)
