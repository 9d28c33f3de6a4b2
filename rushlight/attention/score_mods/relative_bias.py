"""A learned bias per head and distance: `table[h, q - kv + S - 1]`, table (H, L + S - 1)."""

from __future__ import annotations

from collections.abc import Callable

import rushlight as torch


def relative_bias(table: torch.Tensor, keys: int) -> Callable:
    """The score_mod."""
    return lambda score, b, h, q_idx, kv_idx: score + table[h, q_idx - kv_idx + keys - 1]
