"""Which convolutions use fewer multiplications, decided when they are called.

Windows of 3 elements side by side are 4 outputs at a time from 6 products instead of 12
(`dot_sliding`); the gradient of the weight is the same with the roles of outputs and taps changed.
Another order of sums gives other bits, so the choice is made of shapes that are numbers, never of
the batch, and is recorded: a program for sizes that vary computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.base.dtypes import DType, float32
from rushlight.ops.rules import is_static

OUTPUTS, TAPS = 4, 3
# Fewer rows, or a shorter sum for each, do not pay for the transforms.
LEAST_ROWS = 16
LEAST_SUM = 48


def slides(
    dtype: DType, width: Any, weight: Sequence[Any], stride: Sequence[Any], padding: Sequence[Any],
    dilation: Sequence[Any], groups: int,
) -> bool:  # fmt: skip
    """For results `width` wide of a weight[O, C/G, *kernel]."""
    if dtype is not float32 or not all(map(is_static, (width, *weight))):
        return False
    is_plain = all(n == 1 for n in (*stride, *dilation)) and weight[-1] == TAPS
    is_within = all(p < k for p, k in zip(padding, weight[2:], strict=True))
    rows, steps = weight[0] // groups, math.prod(weight[1:-1])
    is_worth = rows >= LEAST_ROWS and steps >= LEAST_SUM
    return is_plain and is_within and is_worth and width > 0 and width % OUTPUTS == 0
