"""nn.functional: losses."""

from __future__ import annotations

from typing import Any

from rushlight import ops
from rushlight.base.dtypes import promote_types
from rushlight.ops.class_target import class_dim
from rushlight.tensors.apply import apply, cast
from rushlight.tensors.autocast_rules import follow_all
from rushlight.tensors.functional_norm import pairwise_distance
from rushlight.tensors.functions_math import check_subtract, clamp
from rushlight.tensors.functions_shape import broadcast_tensors
from rushlight.tensors.index_checks import check_index
from rushlight.tensors.inplace import check_can_cast
from rushlight.tensors.numbers import result_type
from rushlight.tensors.operands import need_tensor
from rushlight.tensors.tensor import Tensor


def reduction_of(reduction: str, size_average: Any = None, reduce: Any = None) -> str:
    """The old size_average/reduce pair, and the check of `reduction`."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced_by(each: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return each
    return each.mean() if reduction == "mean" else each.sum()


def broadcast_pair(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both with one shape, a 0-dim tensor too: it counts as much as the other for the dtype."""
    if target.size() != input.size():
        input, target = broadcast_tensors(input, target)
    return input, target


def _pair(name: str) -> Any:
    def function(
        input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
        reduction: str = "mean", weight: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        how = reduction_of(reduction, size_average, reduce)
        input, target = broadcast_pair(input, target)
        if name == "l1_loss":
            check_subtract(input, target)
        if weight is not None:
            each = apply(getattr(ops, name), (input, target, "none")) * weight
            return each if how == "none" else each.sum() / (weight.sum() if how == "mean" else 1)
        return apply(getattr(ops, name), (input, target, how))

    function.__name__ = name
    return function


mse_loss, l1_loss = _pair("mse_loss"), _pair("l1_loss")
soft_margin_loss = _pair("soft_margin_loss")


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    how = reduction_of(reduction, size_average, reduce)
    input, target = broadcast_pair(input, target)
    if beta == 0.0:
        return apply(ops.l1_loss, (input, target, how))
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return apply(ops.smooth_l1_loss, (input, target, float(beta), how))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    dtype = input.dtype  # PyTorch writes the result into a tensor of the input's dtype
    input, target = broadcast_pair(input, target)
    check_can_cast(result_type([input, target]), dtype)
    if weight is not None:
        each = cast(apply(ops.huber_loss, (input, target, float(delta), "none")), dtype) * weight
        return each.sum() / weight.sum() if reduction == "mean" else reduced_by(each, reduction)
    how = reduction_of(reduction)
    return cast(apply(ops.huber_loss, (input, target, float(delta), how)), dtype)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    how = reduction_of(reduction, size_average, reduce)
    if target._dtype.kind == "float" and ignore_index >= 0 and target._shape == input._shape:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if target._dtype.kind == "float" and target._dtype is not input._dtype:
        dtype = promote_types(input._dtype, target._dtype)
        input, target = cast(input, dtype), cast(target, dtype)
        weight = None if weight is None else cast(weight, dtype)
    loss = apply(
        ops.cross_entropy, (input, target, weight, ignore_index, how, float(label_smoothing)),
        label="NllLossBackward0",
    )  # fmt: skip
    _check_range(input, target, ignore_index)
    return loss


def _check_range(input: Tensor, target: Tensor, ignore_index: int) -> None:
    if target._dtype.kind != "float":
        classes = input._shape[class_dim(input.dim())]
        check_index(target, classes, "Target {bad} is out of bounds.", IndexError,
                    ignored=ignore_index)  # fmt: skip


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    how = reduction_of(reduction, size_average, reduce)
    loss = apply(ops.nll_loss, (input, target, weight, ignore_index, how))
    _check_range(input, target, ignore_index)
    return loss


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    if input._shape != target._shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    for other in (target, weight):
        if other is not None and other._dtype is not input._dtype:
            raise RuntimeError(
                f"Found dtype {other._dtype.scalar_name} but expected {input._dtype.scalar_name}"
            )
    how = reduction_of(reduction, size_average, reduce)
    return apply(ops.binary_cross_entropy, (input, target, weight, how))


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    if input._shape != target._shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    how = reduction_of(reduction, size_average, reduce)
    return apply(ops.binary_cross_entropy_with_logits, (input, target, weight, pos_weight, how))


def kl_div(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    for position, (name, value) in enumerate((("input", input), ("target", target)), 1):
        need_tensor("kl_div", name, position, value)
    for kind in ("complex", "integral"):
        if any(getattr(x._dtype, f"is_{kind}") for x in (input, target)):
            raise RuntimeError(f"kl_div: {kind.capitalize()} inputs not supported.")
    if reduction == "batchmean":
        total = apply(ops.kl_div, (input, target, log_target, "sum"))
        return total / input._shape[0] if input.dim() else total
    how = reduction_of(reduction, size_average, reduce)
    return apply(ops.kl_div, (input, target, log_target, how))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: Any = None, eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    each = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (target * 6.283185307179586).log()
        each = each + stirling.masked_fill(target <= 1, 0)
    return reduced_by(each, reduction_of(reduction, size_average, reduce))


def _check_variance(input: Tensor, target: Tensor, var: Tensor) -> None:
    """A variance for each element, for each row, or one for all along one dimension."""
    if not var.dim() or var._shape in (input._shape, input._shape[:-1]):
        return
    both = zip(input._shape, var._shape, strict=False)
    others = [there for here, there in both if here != there]
    if var.dim() != input.dim() or others != [1]:
        raise ValueError("var is of incorrect size")


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    _check_variance(input, target, var)
    var = clamp(var, min=eps)
    each = 0.5 * (var.log() + (input - target) ** 2 / var)
    return reduced_by(each + 0.9189385332046727 if full else each, reduction_of(reduction))


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    far = clamp(margin - input, min=0.0)
    each = far.masked_fill(target == 1, 0.0) + input.masked_fill(target == -1, 0.0)
    return reduced_by(each, reduction_of(reduction, size_average, reduce))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    each = clamp(-target * (input1 - input2) + margin, min=0.0)
    return reduced_by(each, reduction_of(reduction, size_average, reduce))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    sizes = [(x * x).sum(-1) + 1e-12 for x in (input1, input2)]
    cos = (input1 * input2).sum(-1) / apply(ops.sqrt, (sizes[0] * sizes[1],))
    each = apply(ops.where, (target == 1, 1 - cos, 0.0))
    each = each + apply(ops.where, (target == -1, clamp(cos - margin, min=0.0), 0.0))
    return reduced_by(each, reduction_of(reduction, size_average, reduce))


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = apply(ops.minimum, (far, pairwise_distance(positive, negative, p, eps)))
    each = clamp(near - far + margin, min=0.0)
    return reduced_by(each, reduction_of(reduction, size_average, reduce))


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    log_yes = apply(ops.log_sigmoid, (input,))
    log_no = apply(ops.log_sigmoid, (-input,))
    each = -(target * log_yes + (1 - target) * log_no)
    each = each if weight is None else each * weight
    return reduced_by(each.mean(-1), reduction_of(reduction, size_average, reduce))


# Autocast casts their operands.
(
    binary_cross_entropy, binary_cross_entropy_with_logits, mse_loss, l1_loss, smooth_l1_loss,
    huber_loss, kl_div, nll_loss, cross_entropy, poisson_nll_loss, cosine_embedding_loss,
    hinge_embedding_loss, margin_ranking_loss, soft_margin_loss, triplet_margin_loss,
) = follow_all(
    binary_cross_entropy, binary_cross_entropy_with_logits, mse_loss, l1_loss, smooth_l1_loss,
    huber_loss, kl_div, nll_loss, cross_entropy, poisson_nll_loss, cosine_embedding_loss,
    hinge_embedding_loss, margin_ranking_loss, soft_margin_loss, triplet_margin_loss,
)  # fmt: skip
__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "cross_entropy", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div",
    "l1_loss", "margin_ranking_loss", "mse_loss", "multilabel_soft_margin_loss", "nll_loss",
    "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
]  # fmt: skip
