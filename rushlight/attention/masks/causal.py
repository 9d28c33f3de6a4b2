"""A query sees itself and what is before it.

Rows are queries, columns keys:

    1 . . .
    1 1 . .
    1 1 1 .
    1 1 1 1
"""

from __future__ import annotations

from typing import Any


def causal(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """The mask_mod."""
    return q_idx >= kv_idx
