"""Causal with every `step`-th key.

Rows are queries, columns keys:

    1 . . .
    . 1 . .
    1 . 1 .
    . 1 . 1     step 2
"""

from __future__ import annotations

from collections.abc import Callable


def dilated(step: int) -> Callable:
    """The mask_mod."""
    return lambda b, h, q_idx, kv_idx: (q_idx >= kv_idx) & ((q_idx - kv_idx) % step == 0)
