"""A query sees the keys of its own block of `size`.

Rows are queries, columns keys:

    1 1 . .
    1 1 . .
    . . 1 1
    . . 1 1     size 2
"""

from __future__ import annotations

from collections.abc import Callable


def block_diagonal(size: int) -> Callable:
    """The mask_mod."""
    return lambda b, h, q_idx, kv_idx: q_idx // size == kv_idx // size
