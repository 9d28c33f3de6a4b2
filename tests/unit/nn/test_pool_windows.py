"""What stands for a window of a max pool: of equal elements the first, of several NaN the last."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F


def holes(shape, seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, shape).astype(np.float32)
    values[rng.random(shape) < 0.25] = np.nan
    values[rng.random(shape) < 0.1] = -np.inf
    return values


def best(image, rows, columns):
    """As PyTorch's loops find it: the flat place."""
    largest, found = -math.inf, rows[0] * image.shape[1] + columns[0]
    for r, c in product(rows, columns):
        if image[r, c] > largest or math.isnan(image[r, c]):
            largest, found = image[r, c], r * image.shape[1] + c
    return found


def inside(start, size, step, length):
    return [i for i in range(start, start + size * step, step) if 0 <= i < length]


@pytest.mark.parametrize("kernel,stride,padding,dilation", [
    (2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (5, 3, 2, 1),
])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_max_pool(kernel, stride, padding, dilation, dtype):
    values = holes((2, 1, 9, 8), kernel)
    x = torch.from_numpy(values).to(dtype)
    out, at = F.max_pool2d(x, kernel, stride, padding, dilation, return_indices=True)
    for n, r, c in product(*map(range, (2, *at.shape[2:]))):
        rows, columns = (
            inside(i * stride - padding, kernel, dilation, length) for i, length in ((r, 9), (c, 8))
        )
        wanted = best(values[n, 0], rows, columns)
        assert at[n, 0, r, c].item() == wanted
        assert np.array_equal(out[n, 0, r, c].item(), values[n, 0].flat[wanted], equal_nan=True)


@pytest.mark.parametrize("size", [(3, 2), (4, 3), (1, 1), (9, 8)])
def test_adaptive_max_pool(size):
    values = holes((2, 1, 9, 8), 7)
    x = torch.from_numpy(values).requires_grad_()
    out, at = F.adaptive_max_pool2d(x, size, return_indices=True)
    out.nansum().backward()
    counts = np.zeros((2, 72), np.float32)
    for n, r, c in product(range(2), *map(range, size)):
        rows, columns = (
            range(i * length // parts, -(-(i + 1) * length // parts))
            for i, length, parts in ((r, 9, size[0]), (c, 8, size[1]))
        )
        wanted = best(values[n, 0], list(rows), list(columns))
        assert at[n, 0, r, c].item() == wanted
        counts[n, wanted] += not math.isnan(values[n, 0].flat[wanted])
    assert np.array_equal(x.grad.numpy().reshape(2, 72), counts)
