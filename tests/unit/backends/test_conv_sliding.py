"""Convolutions with fewer multiplications: which they are, and that nothing else changes them."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.base.dtypes import float32, float64
from rushlight.nn import functional as F
from rushlight.ops.conv_sliding import slides

ONE, NONE = (1, 1), (0, 0)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def results(x: np.ndarray, weight: np.ndarray, function=F.conv2d, **settings) -> list[np.ndarray]:
    """The output and both gradients."""
    images, kernel = (torch.tensor(a, requires_grad=True) for a in (x, weight))
    out = function(images, kernel, **settings)
    out.backward(torch.tensor(values(*out.shape, seed=3)).to(out.dtype))
    return [t.numpy() for t in (out.detach(), images.grad, kernel.grad)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"dtype": float64}, False),
        ({"width": 14}, False),
        ({"width": 0}, False),
        ({"weight": (64, 32, 3, 5)}, False),
        ({"weight": (8, 32, 3, 3)}, False),  # few rows
        ({"weight": (64, 3, 3, 3)}, False),  # short sums
        ({"stride": (1, 2)}, False),
        ({"dilation": (1, 2)}, False),
        ({"padding": (0, 3)}, False),
        ({"groups": 8}, False),
        ({"weight": (64, 32, 5, 3)}, True),
    ],
)
def test_which_slide(change, expected):
    case = {
        "dtype": float32, "width": 16, "weight": (64, 32, 3, 3), "stride": ONE, "padding": ONE,
        "dilation": ONE, "groups": 1,
    }  # fmt: skip
    assert slides(**(case | change)) is expected


CASES = {
    "picture": (F.conv2d, (3, 32, 6, 8), (40, 32, 3, 3), {"padding": 1}),
    "no padding": (F.conv2d, (2, 17, 5, 10), (16, 17, 3, 3), {}),
    "groups": (F.conv2d, (2, 64, 4, 4), (48, 32, 3, 3), {"padding": 1, "groups": 2}),
    "line": (F.conv1d, (2, 50, 12), (18, 50, 3), {"padding": 1}),
    "volume": (F.conv3d, (2, 16, 3, 4, 8), (20, 16, 3, 3, 3), {"padding": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_same_in_float64(name):
    function, shape, kernel, settings = CASES[name]
    x, weight = values(*shape), values(*kernel, seed=1)
    exact = results(x.astype(np.float64), weight.astype(np.float64), function, **settings)
    for found, wanted in zip(results(x, weight, function, **settings), exact, strict=True):
        scale = np.sqrt(np.mean(wanted**2))
        assert np.abs(found - wanted).max() < 1e-5 * scale


def test_neighbours_in_the_batch_and_threads_change_no_bit():
    x, weight = values(5, 32, 4, 12), values(24, 32, 3, 3, seed=1)
    whole, threads = results(x, weight, padding=1), torch.get_num_threads()
    one = results(x[2:3], weight, padding=1)[0]
    assert np.array_equal(one[0], whole[0][2])
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for found, before in zip(results(x, weight, padding=1), whole, strict=True):
                assert np.array_equal(found, before)
    finally:
        torch.set_num_threads(threads)


def test_sizes_that_vary_change_no_bit():
    """The first call of a graph is compiled for its sizes, later ones for sizes that vary."""
    shapes = ((2, 32, 4, 8), (3, 48, 7, 12), (1, 20, 5, 4))
    images = {shape: values(*shape) for shape in shapes}
    weights = {shape: values(30, shape[1], 3, 3, seed=2) for shape in images}
    rounds = [[results(images[s], weights[s], padding=1) for s in images] for _ in range(3)]
    for later in rounds[1:]:
        for found, first in zip(later, rounds[0], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(found, first, strict=True))


def test_compiled_equals_eager():
    x, weight = values(2, 32, 4, 8), values(24, 32, 3, 3, seed=1)
    images, kernel = torch.tensor(x), torch.tensor(weight)
    step = torch.compile(lambda a, w: F.conv2d(a, w, padding=1).relu())
    eager = F.conv2d(images, kernel, padding=1).relu()
    for _ in range(3):
        assert torch.equal(step(images, kernel), eager)


@pytest.mark.parametrize("spatial", [1, 2])
def test_the_gradient_of_no_pictures_is_zero(spatial):
    weight = values(16, 48, *(3,) * spatial)
    assert slides(float32, 8, weight.shape, ONE[:spatial], ONE[:spatial], ONE[:spatial], 1)
    function = (F.conv1d, F.conv2d)[spatial - 1]
    out, by_input, by_weight = results(values(0, 48, *(8,) * spatial), weight, function, padding=1)
    assert out.shape[0] == by_input.shape[0] == 0 and not by_weight.any()
