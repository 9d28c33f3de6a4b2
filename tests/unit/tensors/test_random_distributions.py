"""Every op that draws has the distribution that it names: distances from the exact ones.

A sample of N is off by more than LIMIT in about one of a million streams; the seed is fixed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch

N = 20_000
LIMIT = 2.7 / math.sqrt(N)
F = torch.nn.functional


def normal(x, mean=0.0, std=1.0):
    return 0.5 * (1 + np.vectorize(math.erf)((x - mean) / (std * math.sqrt(2))))


def empty(dtype=torch.float32):
    return torch.empty(N, dtype=dtype)


CONTINUOUS = {
    "rand": (lambda: torch.rand(N), lambda x: x),
    "rand float64": (lambda: torch.rand(N, dtype=torch.float64), lambda x: x),
    "rand_like": (lambda: torch.rand_like(empty()), lambda x: x),
    "uniform_": (lambda: empty().uniform_(-2, 6), lambda x: (x + 2) / 8),
    "randn": (lambda: torch.randn(N), normal),
    "randn_like": (lambda: torch.randn_like(empty(torch.float64)), normal),
    "normal_": (lambda: empty().normal_(3, 2), lambda x: normal(x, 3, 2)),
    "normal of tensors": (
        lambda: torch.normal(torch.full((N,), -1.0), torch.full((N,), 0.5)),
        lambda x: normal(x, -1, 0.5),
    ),
    "normal of a mean": (lambda: torch.normal(torch.full((N,), 2.0), 3.0),
                         lambda x: normal(x, 2, 3)),
    "complex": (lambda: torch.randn(N, dtype=torch.complex64).real,
                lambda x: normal(x, 0, math.sqrt(0.5))),
    "exponential_": (lambda: empty().exponential_(2.0), lambda x: 1 - np.exp(-2 * x)),
    "cauchy_": (lambda: empty(torch.float64).cauchy_(1, 2),
                lambda x: 0.5 + np.arctan((x - 1) / 2) / math.pi),
    "log_normal_": (lambda: empty().log_normal_(0.5, 0.8), lambda x: normal(np.log(x), 0.5, 0.8)),
    "kaiming_uniform_": (
        lambda: torch.nn.init.kaiming_uniform_(torch.empty(N // 8, 8), a=1).reshape(-1),
        lambda x: (x / math.sqrt(3 / 8) + 1) / 2,
    ),
    "trunc_normal_": (
        lambda: torch.nn.init.trunc_normal_(empty(), 0, 1, -1, 2),
        lambda x: (normal(x) - normal(-1)) / (normal(2) - normal(-1)),
    ),
    "rrelu": (lambda: F.rrelu(-torch.ones(N), 0.1, 0.4, training=True),
              lambda x: (x + 0.4) / 0.3),
    "gumbel": (lambda: torch.distributions.Gumbel(0.0, 1.0).sample((N,)),
               lambda x: np.exp(-np.exp(-x))),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name):
    draw, below = CONTINUOUS[name]
    torch.manual_seed(11)
    x = np.sort(draw().double().numpy())
    exact = below(x)
    steps = np.arange(N + 1) / N
    assert max(abs(exact - steps[1:]).max(), abs(exact - steps[:-1]).max()) < LIMIT


def poisson(k, rate):
    return math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))


DISCRETE = {
    "bernoulli": (lambda: torch.bernoulli(torch.full((N,), 0.3)), lambda k: (0.7, 0.3)[k]),
    "bernoulli_": (lambda: empty().bernoulli_(0.8), lambda k: (0.2, 0.8)[k]),
    "bernoulli_ of a tensor": (lambda: empty().bernoulli_(torch.full((N,), 0.1)),
                               lambda k: (0.9, 0.1)[k]),
    "randint": (lambda: torch.randint(-2, 5, (N,)), lambda k: 1 / 7),
    "randint_like": (lambda: torch.randint_like(empty(), 4), lambda k: 1 / 4),
    "random_": (lambda: torch.empty(N, dtype=torch.int64).random_(6), lambda k: 1 / 6),
    "random_ from": (lambda: empty().random_(3, 8), lambda k: 1 / 5),
    "geometric_": (lambda: empty().geometric_(0.4), lambda k: 0.4 * 0.6 ** (k - 1)),
    "poisson": (lambda: torch.poisson(torch.full((N,), 3.5)), lambda k: poisson(k, 3.5)),
    "poisson of a large rate": (lambda: torch.poisson(torch.full((N,), 40.0)),
                                lambda k: poisson(k, 40.0)),
    "binomial": (
        lambda: torch.binomial(torch.full((N,), 6.0), torch.full((N,), 0.3)),
        lambda k: math.comb(6, k) * 0.3**k * 0.7 ** (6 - k),
    ),
    "multinomial": (lambda: torch.multinomial(torch.tensor([1.0, 0.0, 2.0, 5.0]), N, True),
                    lambda k: (1 / 8, 0, 2 / 8, 5 / 8)[k]),
    "first of two without replacement": (
        lambda: torch.multinomial(torch.tensor([[1.0, 2.0, 5.0]]).expand(N, 3), 2)[:, 0],
        lambda k: (1 / 8, 2 / 8, 5 / 8)[k],
    ),
    "second of two without replacement": (
        lambda: torch.multinomial(torch.tensor([[1.0, 2.0, 5.0]]).expand(N, 3), 2)[:, 1],
        lambda k: sum(p / 8 * (1, 2, 5)[k] / (8 - p)
                      for i, p in enumerate((1, 2, 5)) if i != k),
    ),
    "categorical": (
        lambda: torch.distributions.Categorical(torch.tensor([0.2, 0.5, 0.3])).sample((N,)),
        lambda k: (0.2, 0.5, 0.3)[k],
    ),
    "dropout": (lambda: F.dropout(torch.ones(N), 0.25) * 0.75, lambda k: (0.25, 0.75)[k]),
    "gumbel_softmax": (
        lambda: F.gumbel_softmax(torch.tensor([0.2, 0.5, 0.3]).log().expand(N, 3), hard=True
                                 ).argmax(1),
        lambda k: (0.2, 0.5, 0.3)[k],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    draw, chance = DISCRETE[name]
    torch.manual_seed(12)
    values, counts = np.unique(np.rint(draw().double().numpy()).astype(int), return_counts=True)
    have = np.cumsum(counts) / N
    exact = np.cumsum([chance(int(k)) for k in values])
    assert abs(have - exact).max() < LIMIT


def test_permutations_have_no_favourite_place():
    torch.manual_seed(13)
    places = np.stack([torch.randperm(4).numpy() for _ in range(400)])
    for item in range(4):
        counts = np.bincount(np.argwhere(places == item)[:, 1], minlength=4)
        assert abs(counts / 400 - 0.25).max() < 0.1


@pytest.mark.parametrize("drop, shape", [(F.dropout1d, (200, 5, 3)), (F.dropout2d, (200, 5, 2, 2)),
                                         (F.dropout3d, (200, 5, 2, 2, 2))])  # fmt: skip
def test_whole_channels_are_dropped(drop, shape):
    torch.manual_seed(14)
    channels = drop(torch.ones(shape), 0.4).flatten(2).numpy()
    assert (channels == channels[:, :, :1]).all()
    assert abs((channels[:, :, 0] == 0).mean() - 0.4) < 0.08


@pytest.mark.parametrize("drop", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_variance(drop):
    torch.manual_seed(15)
    y = drop(torch.randn(N, 2), 0.3, training=True)
    assert abs(y.mean().item()) < 0.04 and abs(y.var().item() - 1) < 0.08
