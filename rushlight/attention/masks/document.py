"""A query sees the keys of its own document.

`ids[i]` is the number of the document at position i.

Rows are queries, columns keys:

    1 1 . .
    1 1 . .
    . . 1 1
    . . 1 1     documents [0, 0, 1, 1]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def document(ids: Any) -> Callable:
    """The mask_mod."""
    return lambda b, h, q_idx, kv_idx: ids[q_idx] == ids[kv_idx]
