"""The loss of a linear layer's logits, without the logits: arguments and shapes.

In: hidden states (..., features), a weight (classes, d1...dK, features), targets as classes
(..., d1...dK) or probabilities (..., classes, d1...dK). Out: the loss. Here everything is checked
and brought to one form: N tokens, C classes, D positions (the product of d1...dK), F features; what
computes is `fused_linear_cross_entropy.py`.

Example:
    >>> x, w = torch.zeros(2, 3, 4), torch.zeros(5, 4)
    >>> linear_cross_entropy(x, w, torch.zeros(2, 3, dtype=torch.int64))
    tensor(1.6094)
"""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.losses.chunks import Settings
from rushlight.losses.fused_linear_cross_entropy import fused_loss
from rushlight.losses.options import LinearCrossEntropyOptions
from rushlight.losses.plain_linear_cross_entropy import plain_loss
from rushlight.ops.class_target import (
    check_batch,
    check_index_dtype,
    check_logits,
    check_probabilities,
    check_row_target,
)
from rushlight.tensors.index_checks import check_index

IGNORED = -100  # PyTorch's default
AUTO = LinearCrossEntropyOptions()
OUT_OF_BOUNDS = "Target {bad} is out of bounds. It is at position {at} of the target."


def linear_cross_entropy(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    *,
    linear_bias: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
    z_loss_coef: float = 0.0,
    softcap: float | None = None,
    chunked: bool = True,
) -> torch.Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`, in chunks of tokens.

    Beyond PyTorch: inputs of any rank; `z_loss_coef` adds coef * mean(logsumexp^2); `softcap`
    bends logits into (-softcap, softcap); all of it chunked. `chunked=False` makes full logits.
    """
    classes, places = _check_layer(input, linear_weight, linear_bias)
    lead = tuple(input.shape[:-1])
    is_probabilities = tuple(target.shape) == (*lead, classes, *places)
    _check_target(input, target, places, is_probabilities)
    _check_settings(weight, classes, reduction, label_smoothing, softcap)
    if is_probabilities and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = IGNORED if ignore_index is None else ignore_index
    target = target if is_probabilities else _checked(target, classes, ignored)
    rows, width, depth = math.prod(lead), input.shape[-1], math.prod(places)
    w_CDF = linear_weight.reshape(classes, depth, width)
    b_CD = None if linear_bias is None else linear_bias.reshape(classes, depth)
    target = target.reshape((rows, classes, depth) if is_probabilities else (rows, depth))
    settings = Settings(
        reduction=reduction,
        ignored=ignored,
        smoothing=float(label_smoothing),
        z_loss=float(z_loss_coef),
        softcap=None if softcap is None else float(softcap),
        options=AUTO if options is None else options,
    )
    compute = fused_loss if chunked and not _needs_plain(target, weight) else plain_loss
    with input.device:
        loss = compute(input.reshape(rows, width), w_CDF, b_CD, target, weight, settings)
    return loss.reshape((*lead, *places)) if reduction == "none" else loss


def _checked(target: Any, classes: int, ignored: int) -> Any:
    """Classes out of range are an error before anything is computed; in a call that is captured,
    where their values are not known, when they are read from a table."""
    if check_index(target, classes, OUT_OF_BOUNDS, IndexError, ignored=ignored, always=True):
        return target
    index = torch.where(target == ignored, 0, target).to(torch.int64)
    table = torch.zeros(classes, dtype=torch.int64, device=target.device)
    return target + torch.gather(table, 0, index.reshape(-1)).reshape(target.shape)


def _needs_plain(target: Any, weight: Any) -> bool:
    """Gradients of soft targets and class weights come from the plain form."""
    return torch.is_grad_enabled() and (
        target.requires_grad or (weight is not None and weight.requires_grad)
    )


def _check_layer(input: Any, linear_weight: Any, bias: Any) -> tuple[int, tuple[int, ...]]:
    """The number of classes and d1...dK."""
    if input.dim() < 1:
        raise RuntimeError("expected input with at least one dimension, got 0")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    check_logits(input.dtype)
    for name, tensor in (("linear_weight", linear_weight), ("linear_bias", bias)):
        if tensor is not None and tensor.dtype is not input.dtype:
            raise RuntimeError(
                f"expected input and {name} to have the same dtype, got {input.dtype} and "
                f"{tensor.dtype}"
            )
    classes, *places = tuple(linear_weight.shape[:-1])
    if bias is not None and tuple(bias.shape) != (classes, *places):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *places)}, got {tuple(bias.shape)}"
        )
    if places and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {input.shape[-1]}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    return classes, tuple(places)


def _check_target(input: Any, target: Any, places: tuple[int, ...], is_probabilities: bool) -> None:
    if is_probabilities:
        check_probabilities(input, target, None)
        return
    wanted, shape = (*input.shape[:-1], *places), tuple(target.shape)
    if input.dim() == 2:  # the ranks that PyTorch lacks have its other error
        check_batch(tuple(input.shape), shape)
    if len(wanted) <= 1 and not places:
        check_row_target(tuple(input.shape), target)
    elif shape != wanted:
        raise RuntimeError(f"Expected target size {list(wanted)}, got {list(shape)}")
    check_index_dtype(target)


def _check_settings(
    weight: Any, classes: int, reduction: str, smoothing: float, softcap: Any
) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if not 0.0 <= smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    if softcap is not None and softcap <= 0:
        raise ValueError(f"softcap must be positive or None, got {softcap}")
