"""Causal, but everybody sees the first `prefix` keys.

Rows are queries, columns keys:

    1 1 . .
    1 1 . .
    1 1 1 .
    1 1 1 1     prefix 2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def prefix_lm(prefix: Any) -> Callable:
    """The mask_mod."""
    return lambda b, h, q_idx, kv_idx: (kv_idx < prefix) | (q_idx >= kv_idx)
