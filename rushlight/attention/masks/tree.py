"""A query sees itself and its ancestors (speculative decoding).

`ancestors[q, kv]` is True where kv is an ancestor of q.

Rows are queries, columns keys:

    1 . . .
    1 1 . .
    1 . 1 .
    1 1 . 1     0 is the root, 1 and 2 are its children, 3 is a child of 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def tree(ancestors: Any) -> Callable:
    """The mask_mod."""
    return lambda b, h, q_idx, kv_idx: ancestors[q_idx, kv_idx] | (q_idx == kv_idx)
