"""The same loss with full logits, of ordinary differentiable operations.

It defines what the fused form computes, and gives the gradients that the fused form does not:
second order, and those of soft targets and class weights.
"""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.losses.terms import parts_of, token_losses


def plain_loss(
    x_NF: Any,
    w_CDF: Any,
    b_CD: Any,
    target: Any,
    weight: Any,
    settings: Any,  # noqa: N803
) -> Any:
    """The loss from logits (N, C, D); (N, D) for reduction 'none'."""
    working = torch.float64 if x_NF.dtype is torch.float64 else torch.float32
    classes, depth, width = w_CDF.shape
    losses, squares, weights, counts = [], [], [], []
    for d in range(depth):
        z = x_NF.to(working) @ w_CDF[:, d].to(working).transpose(0, 1)
        z = z if b_CD is None else z + b_CD[:, d].to(working)
        if settings.softcap is not None:
            z = settings.softcap * torch.tanh(z / settings.softcap)
        parts = parts_of(
            target[..., d], weight, classes, settings.smoothing, settings.ignored, working
        )
        lse = torch.logsumexp(z, -1)
        losses.append(token_losses(z, lse, parts))
        squares.append(lse * lse * parts.valid)
        counts.append(parts.valid)
        weights.append(class_weight(target[..., d], weight, parts))
    loss, square, counts_, weights_ = (
        torch.stack(t, -1) if t else torch.zeros((x_NF.shape[0], 0), dtype=working)
        for t in (losses, squares, counts, weights)
    )
    return reduced(loss, square, weights_, counts_, settings).to(x_NF.dtype)


def class_weight(target: Any, weight: Any, parts: Any) -> Any:
    """What a token counts in the divisor of the mean."""
    if weight is None or parts.safe_target is None:
        return parts.valid
    return parts.valid * weight.to(parts.valid.dtype)[parts.safe_target]


def reduced(loss: Any, square: Any, weights: Any, counts: Any, settings: Any) -> Any:
    """Losses (N, D) and squares of logsumexp to the result in the working dtype."""
    coefficient = settings.z_loss
    if settings.reduction == "mean":
        mean = loss.sum() / weights.sum()
        return mean + coefficient * square.sum() / counts.sum() if coefficient else mean
    total = loss + coefficient * square if coefficient else loss
    return total.sum() if settings.reduction == "sum" else total
