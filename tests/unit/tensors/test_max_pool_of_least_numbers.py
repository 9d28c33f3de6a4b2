"""Max pools of windows that hold nothing but the least number: the padding never wins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F

# kernel, stride, padding, dilation, ceil_mode
SETTINGS = [
    (3, 1, 1, 1, False), (3, 2, 1, 1, True), (2, 1, 1, 2, False), (3, 2, 1, 2, True),
    (2, 2, 0, 1, False), (5, 3, 2, 3, False),
]  # fmt: skip


def first_largest(x: np.ndarray, size: int, setting: tuple) -> np.ndarray:
    """Flat places in a square image, element by element."""
    kernel, stride, padding, dilation, _ = setting
    found = np.full((size, size), -1)
    for i, j in itertools.product(range(size), repeat=2):
        best = None
        for a, b in itertools.product(range(kernel), repeat=2):
            row, column = (n * stride - padding + t * dilation for n, t in ((i, a), (j, b)))
            inside = 0 <= row < x.shape[0] and 0 <= column < x.shape[1]
            if inside and (best is None or x[row, column] > best):
                best, found[i, j] = x[row, column], row * x.shape[1] + column
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("share", [1.0, 0.8])
def test_places_and_gradients_of_minus_infinity(setting, dtype, share):
    torch.manual_seed(1)
    x = torch.randn(1, 1, 17, 17).masked_fill(torch.rand(1, 1, 17, 17) < share, float("-inf"))
    x = x.to(dtype).requires_grad_(True)
    values, places = F.max_pool2d(x, *setting, return_indices=True)
    want = first_largest(x.detach().float()[0, 0].clone().numpy(), values.shape[-1], setting)
    assert places[0, 0].tolist() == want.tolist()
    for pooled in (values, F.max_pool2d(x, *setting)):
        (slope,) = torch.autograd.grad(pooled.sum(), x)
        counts = np.bincount(want.reshape(-1), minlength=17 * 17)
        assert slope.float().flatten().tolist() == counts.tolist()
