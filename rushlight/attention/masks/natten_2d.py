"""Neighborhood attention on an image: a pixel sees the `kernel` x `kernel` pixels around it.

At the edges the neighborhood is moved inside. Pixels are numbered row by row; `kernel` is odd. A
4 x 4 image with kernel 3; what the pixel in the upper left corner sees:

    1 1 1 .
    1 1 1 .
    1 1 1 .
    . . . .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def natten_2d(height: int, width: int, kernel: int) -> Callable:
    """The mask_mod."""

    def near(q: Any, kv: Any, length: int) -> Any:
        middle = q.clamp(kernel // 2, length - 1 - kernel // 2)
        return (middle - kv).abs() <= kernel // 2

    return lambda b, h, q_idx, kv_idx: (
        near(q_idx // width, kv_idx // width, height) & near(q_idx % width, kv_idx % width, width)
    )
