"""Products with a bias in narrow floats: the sum is rounded once, as PyTorch's are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rushlight as torch

F = torch.nn.functional
NARROW = [torch.bfloat16, torch.float16]


def given(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    rng = np.random.RandomState(11)
    return [torch.tensor(rng.standard_normal(s) * 2).to(dtype) for s in shapes]


CASES: dict[str, tuple[Callable, list[tuple[int, ...]]]] = {
    "linear": (F.linear, [(64, 96), (48, 96), (48,)]),
    "linear_3d": (F.linear, [(3, 5, 33), (48, 33), (48,)]),
    "linear_row": (F.linear, [(1, 96), (256, 96), (256,)]),
    "linear_vector": (F.linear, [(96,), (256, 96), (256,)]),
    "addmm": (torch.addmm, [(48,), (64, 96), (96, 48)]),
    "addmm_scaled": (
        lambda *t: torch.addmm(*t, beta=3, alpha=0.75), [(64, 48), (64, 96), (96, 48)]
    ),
    "addmv": (torch.addmv, [(256,), (256, 96), (96,)]),
    "baddbmm": (torch.baddbmm, [(4, 16, 24), (4, 16, 32), (4, 32, 24)]),
    "conv1d": (F.conv1d, [(2, 16, 40), (24, 16, 3), (24,)]),
    "conv2d": (lambda *t: F.conv2d(*t, padding=1), [(2, 16, 12, 12), (24, 16, 3, 3), (24,)]),
    "conv2d_depthwise": (
        lambda *t: F.conv2d(*t, groups=16), [(2, 16, 12, 12), (16, 1, 3, 3), (16,)]
    ),
    "conv_transpose2d": (
        lambda *t: F.conv_transpose2d(*t, stride=2, padding=1),
        [(2, 16, 6, 6), (16, 24, 3, 3), (24,)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_the_sum_with_a_bias_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    """Two roundings give another number than the exact sum's for a quarter of the elements."""
    function, shapes = CASES[name]
    operands = given(dtype, *shapes)
    got = function(*operands)
    want = function(*(x.double() for x in operands)).to(dtype)
    assert got.dtype is dtype
    assert (got != want).double().mean().item() < 0.01


@pytest.mark.parametrize("name", ["linear", "addmm", "baddbmm", "conv2d", "conv_transpose2d"])
def test_gradients_of_narrow_sums_are_those_of_wide_ones(name: str) -> None:
    function, shapes = CASES[name]
    narrow = [x.requires_grad_() for x in given(torch.bfloat16, *shapes)]
    wide = [x.detach().double().requires_grad_() for x in narrow]
    out = function(*narrow)
    (g,) = given(torch.bfloat16, tuple(out.shape))
    out.backward(g)
    function(*wide).backward(g.double())
    for x, y in zip(narrow, wide, strict=True):
        assert x.grad is not None and y.grad is not None and x.grad.dtype is torch.bfloat16
        assert (x.grad != y.grad.to(torch.bfloat16)).double().mean().item() < 0.02


def test_autocast_rounds_addmm_once_too() -> None:
    """The float32 base is cast down first, as all operands are."""
    base, a, b = given(torch.float32, (48,), (64, 96), (96, 48))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = torch.addmm(base, a, b)
    want = torch.addmm(*(x.to(torch.bfloat16).double() for x in (base, a, b)))
    assert got.dtype is torch.bfloat16
    assert (got != want.to(torch.bfloat16)).double().mean().item() < 0.01


def test_beta_zero_leaves_the_base_out() -> None:
    base, a, b = given(torch.bfloat16, (4, 4), (4, 4), (4, 4))
    got = torch.addmm(base * float("nan"), a, b, beta=0)
    assert torch.isfinite(got).all()
    assert got.grad_fn is None and got.dtype is torch.bfloat16
