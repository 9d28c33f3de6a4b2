"""A query sees itself and the `window - 1` keys before it.

Rows are queries, columns keys:

    1 . . .
    1 1 . .
    . 1 1 .
    . . 1 1     window 2
"""

from __future__ import annotations

from collections.abc import Callable


def sliding_window(window: int) -> Callable:
    """The mask_mod."""
    return lambda b, h, q_idx, kv_idx: (q_idx >= kv_idx) & (q_idx - kv_idx < window)
