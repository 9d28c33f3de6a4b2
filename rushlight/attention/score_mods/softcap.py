"""Scores bent into (-cap, cap) by tanh (Gemma 2)."""

from __future__ import annotations

from collections.abc import Callable

import rushlight as torch


def softcap(cap: float) -> Callable:
    """The score_mod."""
    return lambda score, b, h, q_idx, kv_idx: cap * torch.tanh(score / cap)
