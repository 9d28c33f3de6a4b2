"""Attention with linear biases (Press et al. 2022): a score falls with the distance."""

from __future__ import annotations

from collections.abc import Callable

import rushlight as torch


def alibi(slopes: torch.Tensor) -> Callable:
    """The score_mod."""
    return lambda score, b, h, q_idx, kv_idx: score + slopes[h] * (kv_idx - q_idx)


def alibi_slopes(heads: int) -> torch.Tensor:
    """2^(-8 i / heads) for i = 1...heads."""
    return torch.exp2(torch.arange(1, heads + 1) * (-8.0 / heads))
