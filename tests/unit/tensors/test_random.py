"""Generators: the same numbers from the same state, and the right distributions."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_seed_repeats_and_ops_take_new_numbers():
    torch.manual_seed(3)
    a, b = torch.rand(4), torch.rand(4)
    torch.manual_seed(3)
    assert torch.rand(4).tolist() == a.tolist() != b.tolist()
    assert torch.initial_seed() == 3


def test_state_is_saved_and_restored():
    g = torch.Generator().manual_seed(5)
    torch.rand(2, generator=g)
    state = g.get_state()
    first = torch.randn(3, generator=g).tolist()
    assert state.dtype is torch.uint8
    assert torch.randn(3, generator=g.set_state(state)).tolist() == first
    with pytest.raises(TypeError, match="ByteTensor"):
        torch.set_rng_state(torch.zeros(16))


def test_distributions():
    torch.manual_seed(0)
    n = 20_000
    u = torch.rand(n)
    assert 0 <= u.min().item() and u.max().item() < 1 and abs(u.mean().item() - 0.5) < 0.01
    x = torch.randn(n, dtype=torch.float64)
    assert abs(x.mean().item()) < 0.03 and abs(x.std().item() - 1) < 0.03
    i = torch.randint(-2, 3, (n,))
    assert i.unique().tolist() == [-2, -1, 0, 1, 2]
    assert abs(torch.bernoulli(torch.full((n,), 0.3)).mean().item() - 0.3) < 0.02
    assert abs(torch.empty(n).exponential_(2.0).mean().item() - 0.5) < 0.02
    assert abs(torch.empty(n).normal_(3, 2).mean().item() - 3) < 0.06
    big = torch.randint(0, 2**40, (n,)).double()
    assert abs(big.mean().item() / 2**39 - 1) < 0.05


def test_permutation_and_multinomial():
    assert torch.randperm(100).sort()[0].tolist() == list(range(100))
    drawn = torch.multinomial(torch.tensor([0.0, 1.0, 3.0]), 2)
    assert sorted(drawn.tolist()) == [1, 2]
    many = torch.multinomial(torch.tensor([1.0, 3.0]), 8000, replacement=True)
    assert abs(many.float().mean().item() - 0.75) < 0.03


def test_dropout_scales_what_it_keeps():
    y = torch.nn.functional.dropout(torch.ones(10_000), 0.25)
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert abs(y.mean().item() - 1) < 0.03
