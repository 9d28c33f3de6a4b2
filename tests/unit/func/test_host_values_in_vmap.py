"""Functions whose way depends on values (segments, pivots, bins, labels) need no loop in vmap."""

import warnings

import numpy as np
import pytest

import rushlight as torch
from rushlight.func import vmap

F = torch.nn.functional


def numbers(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def whole(*rows):
    return torch.tensor(rows)


PACKED, PIVOTS = torch.linalg.lu_factor(numbers(3, 4, 4, seed=5))
CASES = {
    "segment_reduce lengths": (
        lambda x, n: torch.segment_reduce(x, "mean", lengths=n),
        (numbers(3, 5, 2), whole([2, 3], [0, 5], [4, 1])),
    ),
    "segment_reduce offsets": (
        lambda x, n: torch.segment_reduce(x, "max", offsets=n),
        (numbers(3, 5, 2), whole([0, 2, 5], [0, 0, 5], [0, 4, 5])),
    ),
    "geqrf": (lambda x: torch.geqrf(x)[0] + torch.geqrf(x)[1], (numbers(3, 4, 4),)),
    "lu_solve": (
        lambda a, p, b: torch.linalg.lu_solve(a, p, b),
        (PACKED, PIVOTS, numbers(3, 4, 2)),
    ),
    "lu_solve adjoint": (
        lambda a, p, b: torch.linalg.lu_solve(a, p, b, adjoint=True),
        (PACKED, PIVOTS, numbers(3, 4, 2)),
    ),
    "lu_unpack": (lambda a, p: torch.stack(torch.lu_unpack(a, p)), (PACKED, PIVOTS)),
    "qr complete": (lambda x: torch.linalg.qr(x, "complete")[0].abs(), (numbers(3, 4, 2),)),
    "svd full": (lambda x: torch.linalg.svd(x)[0].abs(), (numbers(3, 4, 2),)),
    "hash_tensor": (lambda x: torch.hash_tensor(x, 0), (numbers(3, 5, 2),)),
    "histc": (lambda x: torch.histc(x, 4), (numbers(3, 9),)),
    "linspace": (lambda a, b: torch.linspace(a, b, 5), (numbers(3), numbers(3, seed=1))),
    "nanquantile": (lambda x, q: torch.nanquantile(x, q, 0), (numbers(3, 7), numbers(3).sigmoid())),
    "fractional_max_pool2d": (
        lambda x, u: F.fractional_max_pool2d(x, 2, 3, _random_samples=u),
        (numbers(3, 1, 2, 6, 6), numbers(3, 1, 2, 2).sigmoid()),
    ),
    "fractional_max_pool3d": (
        lambda x, u: F.fractional_max_pool3d(x, 2, 2, _random_samples=u),
        (numbers(3, 1, 2, 4, 4, 4), numbers(3, 1, 2, 3).sigmoid()),
    ),
    "repeat_interleave": (
        lambda x, n: x.repeat_interleave(n, 0),
        (numbers(3, 3), whole([1, 2, 0], [0, 0, 3], [1, 1, 1])),
    ),
    "repeat_interleave by one number": (
        lambda x, n: x.repeat_interleave(n, 0),
        (numbers(3, 3), whole([2], [2], [2])),
    ),
    "legendre_polynomial_p": (
        lambda x, n: torch.special.legendre_polynomial_p(x * 0.5, n),
        (numbers(3, 2), whole([1, 2], [0, 5], [3, 3])),
    ),
    "zeta": (lambda x, q: torch.special.zeta(x, q), (whole(2, 3, 4), numbers(3) - 3)),
    "polygamma": (lambda x: torch.polygamma(2, x), (numbers(3) - 3,)),
    "multilabel_margin_loss": (
        lambda x, t: F.multilabel_margin_loss(x, t),
        (numbers(3, 2, 4), whole(*([[1, 2, -1, 0], [0, -1, 3, 3]],) * 2, [[3, 2, 1, 0], [-1] * 4])),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_is_mapped_without_a_loop(name):
    function, values = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mapped = vmap(function)(*values)
    looped = torch.stack([function(*(v[i] for v in values)) for i in range(3)])
    assert mapped.dtype is looped.dtype
    np.testing.assert_allclose(mapped.numpy(), looped.numpy(), rtol=1e-5, atol=1e-5)


def test_histc_counts_as_pytorch_does():
    x = torch.tensor([1.0, 2.0, 1.0, 5.0, float("nan")])
    assert torch.histc(x, bins=4, min=0, max=3).tolist() == [0, 2, 1, 0]
    assert torch.histc(torch.full((3,), 2.0), bins=2).tolist() == [0, 3]  # one wider on both sides
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(x, min=1, max=0)
    with pytest.raises(RuntimeError, match="is not finite"):
        torch.histc(x)


def test_lengths_of_segments_are_checked():
    with pytest.raises(RuntimeError, match="to sum to"):
        torch.segment_reduce(numbers(5), "sum", lengths=torch.tensor([2, 2]))
    found = torch.segment_reduce(numbers(5), "sum", lengths=torch.tensor([2, 2]), unsafe=True)
    np.testing.assert_allclose(found.numpy(), numbers(5)[:4].view(2, 2).sum(1).numpy(), rtol=1e-6)


def test_bound_over_all_examples_is_that_of_the_innermost_call():
    x, n = numbers(2, 3), whole([1, 2, 3], [0, 4, 2])

    def function(x, n):
        return torch.special.hermite_polynomial_h(x, n + 1)

    before = numbers(4) * 2  # still waits when the bound is looked at
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nested = vmap(vmap(function))(x, n)
        by_rows = vmap(function, in_dims=(0, None))(x, n)
    np.testing.assert_allclose(nested.numpy(), function(x, n).numpy(), rtol=1e-5)
    want = torch.stack([function(row, n) for row in x])
    np.testing.assert_allclose(by_rows.numpy(), want.numpy(), rtol=1e-5)
    np.testing.assert_array_equal(before.numpy(), numbers(4).numpy() * 2)


def test_hash_of_nothing_is_zero():
    assert torch.hash_tensor(torch.zeros(0)).item() == 0
    x = torch.tensor([3, 5, 6])
    assert torch.hash_tensor(x).item() == 3 ^ 5 ^ 6
