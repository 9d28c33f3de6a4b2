"""Sums of many bfloat16 and float16 values are rounded once, at the end."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F

HALVES = [torch.bfloat16, torch.float16]
N = 8192


def grad_of(function, x):
    x.requires_grad_()
    function(x).sum().backward()
    return x.grad


SUMS = {
    "nansum": lambda d: torch.ones(N, dtype=d).nansum(),
    "scatter_add": lambda d: torch.zeros(1, dtype=d).scatter_add(
        0, torch.zeros(N, dtype=torch.long), torch.ones(N, dtype=d)
    ),
    "einsum": lambda d: torch.einsum("i,i->", torch.ones(N, dtype=d), torch.ones(N, dtype=d)),
    "conv1d": lambda d: F.conv1d(torch.ones(1, 1, N, dtype=d), torch.ones(1, 1, N, dtype=d)),
    "conv weight grad": lambda d: grad_of(
        lambda w: F.conv1d(torch.ones(1, 1, N, dtype=d), w), torch.zeros(1, 1, 1, dtype=d)
    ),
    "linear bias grad": lambda d: grad_of(
        lambda b: F.linear(torch.ones(N, 1, dtype=d), torch.ones(1, 1, dtype=d), b),
        torch.zeros(1, dtype=d),
    ),
    "layer_norm bias grad": lambda d: grad_of(
        lambda b: F.layer_norm(torch.ones(N, 1, dtype=d), (1,), bias=b), torch.zeros(1, dtype=d)
    ),
    "broadcast mul grad": lambda d: grad_of(
        lambda s: torch.ones(N, dtype=d) * s, torch.zeros((), dtype=d)
    ),
    "expand grad": lambda d: grad_of(lambda s: s.expand(N), torch.zeros(1, dtype=d)),
    "index grad": lambda d: grad_of(
        lambda w: w[torch.zeros(N, dtype=torch.long)], torch.zeros(1, dtype=d)
    ),
    "baddbmm": lambda d: torch.baddbmm(
        torch.zeros(1, 1, 1, dtype=d), torch.ones(1, 1, N, dtype=d), torch.ones(1, N, 1, dtype=d)
    ),
    "trapezoid": lambda d: torch.trapezoid(torch.ones(N + 1, dtype=d)),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_ones_counts_them(name, dtype):
    found = SUMS[name](dtype)
    assert found.dtype == dtype and found.float().reshape(-1).tolist() == [N]


@pytest.mark.parametrize("dtype", HALVES)
def test_statistics_do_not_overflow_or_cancel_on_the_way(dtype):
    x = torch.tensor([1000.0, 1001.0, 999.0, 1000.0] * 256).to(dtype)
    expected = np.array(x.float().tolist())
    assert abs(x.var().float().item() - expected.var(ddof=1)) <= 2**-7 * expected.var()
    large = torch.full((300,), 30000.0).to(dtype)
    assert large.mean().float().item() == large[0].float().item()
    assert F.avg_pool1d(large[None], 300).float().item() == large[0].float().item()
    assert np.isfinite(large.norm().float().item()) or dtype == torch.float16
    assert np.isfinite(F.cosine_similarity(large, large, dim=0).float().item())
    assert abs(F.cosine_similarity(large, large, dim=0).float().item() - 1) < 0.01
    assert abs(large.logsumexp(0).float().item() - 30000) < 128


@pytest.mark.parametrize("dtype", HALVES)
def test_cross_entropy_over_many_classes(dtype):
    logits = torch.zeros(2, 50_000, dtype=dtype)
    loss = F.cross_entropy(logits, torch.tensor([0, 1]))
    assert abs(loss.float().item() - np.log(50_000)) < 0.05
