"""Losses of two tensors of one shape. reduction: "none", "mean" or "sum"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.ir.opdef import FROM_DECOMPOSITION, Arg, Attr, Call, OpDef, Value
from rushlight.ops.binary import eq, gt, lt, maximum, minimum, sub
from rushlight.ops.build import count_value, like, to_dtype
from rushlight.ops.complex import sgn
from rushlight.ops.composite import composite
from rushlight.ops.meta import Meta
from rushlight.ops.pointwise import xlogy
from rushlight.ops.reduce import reduce_sum
from rushlight.ops.rules import (
    Shape,
    broadcast_shapes,
    elementwise_shape,
    float_dtype,
    inexact_dtype,
)
from rushlight.ops.samples import ErrorSample, Rng, Sample, array
from rushlight.ops.select import where
from rushlight.ops.unary import abs_, exp, log, log1p, sigmoid, sign

REDUCTIONS = ("none", "mean", "sum")
REDUCTION = Attr("reduction", "mean")


def check_reduction(call: Call) -> None:
    allowed = (*REDUCTIONS, "batchmean") if call.op.name == "kl_div" else REDUCTIONS
    if call["reduction"] not in allowed:
        raise ValueError(f"{call['reduction']} is not a valid value for reduction")


def loss_shape(call: Call) -> Shape:
    whole = elementwise_shape(call)  # shapes that do not fit are an error of every reduction
    return whole if call["reduction"] == "none" else ()


def reduced(each: Any, reduction: str) -> Any:
    if reduction == "none":
        return each
    total = reduce_sum(each, tuple(range(each.ndim))) if each.ndim else each
    if reduction == "sum":
        return total
    return total / count_value(_counted(each.shape, reduction), each.dtype)


def _counted(shape: Shape, reduction: str) -> Shape:
    return shape[:1] if reduction == "batchmean" else shape


def share(g: Any, shape: Shape, reduction: str) -> Any:
    """The gradient of each element's loss (still broadcast when it is one number)."""
    if reduction in ("none", "sum"):
        return g
    return g / count_value(_counted(shape, reduction), g.dtype)


def full_shape(meta: Meta) -> Shape:
    """The shape of the losses of single elements: operands broadcast."""
    return broadcast_shapes(meta.shape("input"), meta.shape("target"))


def numpy_reduced(each: np.ndarray, reduction: str) -> np.ndarray:
    if reduction == "batchmean":
        return each.sum() / each.shape[0]
    return {"none": lambda: each, "mean": each.mean, "sum": each.sum}[reduction]()


def samples(*values: Any, low: float = -2, high: float = 2, low2: float = -2, high2: float = 2,
            **attrs: Any) -> Callable[[Rng], list[Sample]]:  # fmt: skip
    def build(rng: Rng) -> list[Sample]:
        return [
            Sample(
                (array(rng, 3, 4, low=low, high=high), array(rng, 3, 4, low=low2, high=high2),
                 *values),
                {"reduction": r, **attrs},
            )
            for r in REDUCTIONS
        ]  # fmt: skip

    return build


ERRORS = (ErrorSample((np.ones(2), np.ones(2)), {"reduction": "x"}, ValueError, "not a valid"),)


def _pair_loss(
    name: str, doc: str, each: Callable, reference: Callable, slope: Callable, value: Any = None,
    **fields: Any,
) -> OpDef:  # fmt: skip
    """A loss of input - target: each(difference, value) with its slope."""
    values = () if value is None else (value,)
    fields.setdefault("dtype", float_dtype)

    def decompose(input: Any, target: Any, reduction: str = "mean", **named: Any) -> Any:  # noqa: A002
        extra = [like(v, input.dtype) for v in named.values()]
        return reduced(each(sub(input, target), *extra), reduction)

    def numpy_meaning(input: Any, target: Any, *extra: Any, reduction: str) -> Any:  # noqa: A002
        return numpy_reduced(reference(input - target, *extra), reduction)

    def grads(g: Any, input: Any, target: Any, extra: list, reduction: str, meta: Meta) -> tuple:  # noqa: A002, E501
        each_g = share(g, full_shape(meta), reduction)
        along = slope(sub(input, target), *(like(v, input.dtype) for v in extra))
        by_input = to_dtype(each_g, along.dtype) * along
        return by_input, -by_input if meta.needs("target") else None

    def plain(g: Any, input: Any, target: Any, reduction: str, meta: Meta) -> tuple:  # noqa: A002
        return grads(g, input, target, [], reduction, meta)

    # What a rule reads it says by the names of its parameters, so there is one for each name.
    def beta_rule(g: Any, input: Any, target: Any, beta: Any, reduction: str, meta: Meta) -> tuple:  # noqa: A002, E501
        return grads(g, input, target, [beta], reduction, meta)

    def delta_rule(
        g: Any, input: Any, target: Any, delta: Any, reduction: str, meta: Meta
    ) -> tuple:  # noqa: A002, E501
        return grads(g, input, target, [delta], reduction, meta)

    rule = plain if value is None else {"beta": beta_rule, "delta": delta_rule}[value.name]

    return composite(
        name, doc, (Arg("input"), Arg("target"), *values, REDUCTION), decompose, numpy_meaning,
        rule, shape=loss_shape, torch=(f"nn.functional.{name}",),
        check=check_reduction, samples=samples(*(v.default for v in values)),
        error_samples=() if values else ERRORS, **fields,
    )  # fmt: skip


def _smooth(d: Any, beta: Any) -> Any:
    size = abs_(d)
    return where(lt(size, beta), d * d * 0.5 / beta, size - beta * 0.5)


def _huber(d: Any, delta: Any) -> Any:
    size = abs_(d)
    return where(gt(size, delta), delta * (size - delta * 0.5), d * d * 0.5)


mse_loss = _pair_loss("mse_loss", "The squared difference.", lambda d: d * d, np.square,
                      lambda d: d * 2.0)  # fmt: skip
l1_loss = _pair_loss("l1_loss", "The size of the difference.", abs_, np.abs, sgn,
                     dtype=lambda call: inexact_dtype(call).to_real())  # fmt: skip
smooth_l1_loss = _pair_loss(
    "smooth_l1_loss",
    "Square below beta (over 2 beta), linear above.",
    _smooth,
    lambda d, beta: np.where(
        np.abs(d) < beta, 0.5 * d * d / (beta if beta else 1), np.abs(d) - beta / 2
    ),
    lambda d, beta: where(lt(abs_(d), beta), d / beta, sign(d)),
    Value("beta", 1.0),
)
huber_loss = _pair_loss(
    "huber_loss",
    "Half the square up to delta, delta times linear above.",
    _huber,
    lambda d, delta: np.where(np.abs(d) <= delta, 0.5 * d * d, delta * (np.abs(d) - delta / 2)),
    lambda d, delta: maximum(minimum(d, delta), -delta),
    Value("delta", 1.0),
)


def bce_decompose(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Any:  # noqa: A002, E501
    """Logarithms are cut at -100."""
    positive = maximum(log(input), -100.0)
    negative = maximum(log1p(-input), -100.0)
    each = (target - 1.0) * negative - target * positive
    return reduced(each if weight is None else each * weight, reduction)


def bce_reference(x: np.ndarray, target: np.ndarray, weight: Any, reduction: str) -> np.ndarray:
    each = -(target * np.maximum(np.log(x), -100) + (1 - target) * np.maximum(np.log1p(-x), -100))
    return numpy_reduced(each if weight is None else each * weight, reduction)


def bce_grad(g: Any, input: Any, target: Any, weight: Any, reduction: str, meta: Meta) -> tuple:  # noqa: A002, E501
    each = share(g, full_shape(meta), reduction)
    each = each if weight is None else each * weight
    by_target = None
    if meta.needs("target"):
        by_target = each * (maximum(log1p(-input), -100.0) - maximum(log(input), -100.0))
    return each * (input - target) / maximum((1.0 - input) * input, 1e-12), by_target


def bce_samples(rng: Rng) -> list[Sample]:
    x, target = array(rng, 3, 4, low=0.02, high=0.98), array(rng, 3, 4, low=0, high=1)
    return [
        Sample((x, target, weight), {"reduction": r}, skip=("weight",))
        for weight in (None, array(rng, 4, low=0.1))
        for r in REDUCTIONS
    ]


binary_cross_entropy = composite(
    "binary_cross_entropy",
    "-(t log p + (1 - t) log(1 - p)) for a probability p.",
    (Arg("input"), Arg("target"), Arg("weight", optional=True), REDUCTION),
    bce_decompose,
    bce_reference,
    bce_grad,
    shape=loss_shape,
    dtype=float_dtype,
    torch=("nn.functional.binary_cross_entropy",),
    check=check_reduction,
    samples=bce_samples,
)


def _softplus_of_minus(x: Any) -> Any:
    """log(1 + exp(-x)) for any x."""
    return maximum(-x, 0.0) + log1p(exp(-abs_(x)))


def logits_decompose(
    input: Any,
    target: Any,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: str = "mean",  # noqa: A002, E501
) -> Any:
    strength = 1.0 if pos_weight is None else (pos_weight - 1.0) * target + 1.0
    each = (1.0 - target) * input + strength * _softplus_of_minus(input)
    return reduced(each if weight is None else each * weight, reduction)


def logits_reference(
    x: np.ndarray, target: np.ndarray, weight: Any, pos_weight: Any, reduction: str
) -> np.ndarray:
    strength = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    each = (1 - target) * x + strength * np.logaddexp(0, -x)
    return numpy_reduced(each if weight is None else each * weight, reduction)


def logits_grad(
    g: Any,
    input: Any,
    target: Any,
    weight: Any,
    pos_weight: Any,
    reduction: str,
    meta: Meta,  # noqa: A002, E501
) -> tuple:
    each = share(g, full_shape(meta), reduction)
    each = each if weight is None else each * weight
    by_target = None
    if pos_weight is None:
        by_input = each * (sigmoid(input) - target)
        by_target = -each * input if meta.needs("target") else None
        return by_input, by_target
    strength = (pos_weight - 1.0) * target + 1.0
    by_input = each * (1.0 - target - strength * sigmoid(-input))
    if meta.needs("target"):
        by_target = each * ((pos_weight - 1.0) * _softplus_of_minus(input) - input)
    return by_input, by_target


binary_cross_entropy_with_logits = composite(
    "binary_cross_entropy_with_logits",
    "binary_cross_entropy of sigmoid(input), without overflow.",
    (
        Arg("input"),
        Arg("target"),
        Arg("weight", optional=True),
        Arg("pos_weight", optional=True),
        REDUCTION,
    ),
    logits_decompose,
    logits_reference,
    logits_grad,
    shape=loss_shape,
    dtype=float_dtype,
    torch=("nn.functional.binary_cross_entropy_with_logits",),
    check=check_reduction,
    samples=lambda rng: [
        Sample((s.args[0] * 4 - 2, s.args[1], s.args[2], p), s.attrs, skip=("weight", "pos_weight"))
        for s in bce_samples(rng)
        for p in (None, array(rng, 4, low=0.5, high=3))
    ],
)


def kl_decompose(
    input: Any,
    target: Any,
    log_target: bool = False,
    reduction: str = "mean",  # noqa: A002
) -> Any:
    if log_target:
        each = exp(target) * (target - input)
    else:
        each = xlogy(target, target) - target * input
    return reduced(each, reduction)


def kl_reference(x: np.ndarray, target: np.ndarray, log_target: bool, reduction: str) -> np.ndarray:
    if log_target:
        return numpy_reduced(np.exp(target) * (target - x), reduction)
    safe = np.where(target > 0, target, 1)
    return numpy_reduced(target * np.log(safe) - target * x, reduction)


def kl_grad(g: Any, input: Any, target: Any, log_target: bool, reduction: str, meta: Meta) -> tuple:  # noqa: A002, E501
    each = share(g, full_shape(meta), reduction)
    if log_target:
        by_target = each * exp(target) * (target - input + 1.0) if meta.needs("target") else None
        return -each * exp(target), by_target
    by_target = None
    if meta.needs("target"):
        zero = eq(target, 0.0)
        by_target = where(zero, 0.0, each * (log(where(zero, 1.0, target)) + 1.0 - input))
    return -each * target, by_target


kl_div = composite(
    "kl_div",
    "target * (log(target) - input): the input holds logarithms (the target too: log_target).",
    (Arg("input"), Arg("target"), Attr("log_target", False), REDUCTION),
    kl_decompose,
    kl_reference,
    kl_grad,
    shape=loss_shape,
    dtype=float_dtype,
    check=check_reduction,
    samples=lambda rng: [
        Sample(
            (array(rng, 3, 4), array(rng, 3, 4, low=0.05, high=1)),
            {"log_target": logs, "reduction": r},
        )
        for logs in (False, True)
        for r in (*REDUCTIONS, "batchmean")
    ],
)
soft_margin_loss = composite(
    "soft_margin_loss",
    "log(1 + exp(-target * input)).",
    (Arg("input"), Arg("target"), REDUCTION),
    lambda input, target, reduction="mean": reduced(_softplus_of_minus(input * target), reduction),
    lambda x, target, reduction: numpy_reduced(np.logaddexp(0, -x * target), reduction),
    FROM_DECOMPOSITION,
    shape=loss_shape,
    dtype=float_dtype,
    torch=("nn.functional.soft_margin_loss",),
    check=check_reduction,
    samples=samples(),
    error_samples=ERRORS,
)
