"""The loss of one chunk of tokens at one position, and its gradient by the logits.

With p = softmax(z), lse = logsumexp(z), e = smoothing, w = class weights, t = target, v = 1 for
tokens that are not ignored:

    classes        l = v ((1-e) w_t (lse - z_t) + (e/C) sum_c w_c (lse - z_c))
    probabilities  l = sum_c w_c q'_c (lse - z_c),   q' = (1-e) q + e/C
    z-loss         + coef v lse^2

The mean divides the first by the sum of v w_t, the second by the number of tokens and positions,
the third by the sum of v. A sum over nothing gives NaN, and gradients of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rushlight as torch


@dataclass(frozen=True)
class Parts:
    """Per token: the weight of lse (`mass`), and what z is multiplied by to be subtracted.

    own: weight of the target's logit, spread: weight of each logit (C,) or (rows, C) or None.
    """

    valid: Any
    safe_target: Any  # None for probabilities
    own: Any
    spread: Any
    mass: Any


def parts_of(target: Any, weight: Any, classes: int, smoothing: float, ignored: int, working: Any):
    """The coefficients of a chunk; target is (rows,) classes or (rows, C) probabilities."""
    if target.is_floating_point():
        soft = target.to(working) * (1.0 - smoothing) + smoothing / classes
        soft = soft if weight is None else soft * weight.to(working)
        ones = torch.ones(target.shape[:1], dtype=working)
        return Parts(ones, None, None, soft, soft.sum(-1))
    target = target.to(torch.int64)
    keep = target != ignored
    safe = torch.where(keep, target, 0)
    valid = keep.to(working)
    own = valid if weight is None else valid * weight.to(working)[safe]
    own = own * (1.0 - smoothing)
    if smoothing == 0.0:
        return Parts(valid, safe, own, None, own)
    each = torch.ones(classes, dtype=working) if weight is None else weight.to(working)
    each = each * (smoothing / classes)
    return Parts(valid, safe, own, each, own + valid * each.sum())


def token_losses(z: Any, lse: Any, parts: Parts) -> Any:
    """l without the z-loss: (rows,)."""
    loss = parts.mass * lse
    if parts.safe_target is not None:
        picked = torch.gather(z, -1, parts.safe_target.unsqueeze(-1)).squeeze(-1)
        loss = loss - parts.own * picked
    if parts.spread is not None:
        loss = loss - (z * parts.spread).sum(-1) * parts.valid
    return torch.where(parts.valid == 0, 0.0, loss)


def logit_gradient(z: Any, lse: Any, parts: Parts, row_scale: Any, z_scale: Any) -> Any:
    """d(sum row_scale l + z_scale lse^2) / dz: (rows, C)."""
    p_weight = parts.mass * row_scale
    if z_scale is not None:
        p_weight = p_weight + 2.0 * z_scale * parts.valid * lse
    grad = torch.exp(z - lse.unsqueeze(-1)) * p_weight.unsqueeze(-1)
    if parts.spread is not None:
        grad = grad - parts.spread * (parts.valid * row_scale).unsqueeze(-1)
    if parts.safe_target is not None:
        columns = torch.arange(z.shape[-1])
        is_target = columns == parts.safe_target.unsqueeze(-1)
        grad = grad - torch.where(is_target, (parts.own * row_scale).unsqueeze(-1), 0.0)
    return torch.where(parts.valid.unsqueeze(-1) == 0, 0.0, grad)
