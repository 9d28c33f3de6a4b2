"""-0.0, NaN and inf survive what an optimiser would like to simplify, eager and compiled."""

import numpy as np
import pytest

import rushlight as torch

VALUES = np.array([1.5, -2.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -3e38], np.float32)
ZERO, ONE = np.float32(0), np.float32(1)
SAME = {
    "x*1": (lambda x: x * 1, lambda a: a * ONE),
    "x/1": (lambda x: x / 1, lambda a: a / ONE),
    "x-0": (lambda x: x - 0.0, lambda a: a - ZERO),
    "0+x": (lambda x: 0.0 + x, lambda a: ZERO + a),
    "-(-x)": (lambda x: x.neg().neg(), lambda a: a),
    "abs(-x)": (lambda x: (-x).abs(), np.abs),
    "x**1": (lambda x: x**1, lambda a: a),
    "x**2": (lambda x: x**2, lambda a: a * a),
    "x*x-x*x": (lambda x: x * x - x * x, lambda a: a * a - a * a),
    "x*0+1": (lambda x: x * 0 + 1, lambda a: a * ZERO + ONE),
    "x*2/2": (lambda x: x * 2 / 2, lambda a: a * 2 / 2),
    "(x+1)-1": (lambda x: (x + 1) - 1, lambda a: (a + ONE) - ONE),
    "min(x, nan)": (
        lambda x: torch.minimum(x, torch.tensor(np.nan)),
        lambda a: a * np.float32(np.nan),
    ),
    "max(x,-0)": (lambda x: torch.maximum(x, x), lambda a: a),
    "fmax": (lambda x: torch.fmax(x, torch.tensor(0.5)), lambda a: np.fmax(a, np.float32(0.5))),
    "relu": (lambda x: torch.relu(x), lambda a: np.where(np.isnan(a), a, np.maximum(a, ZERO))),
    "clamp": (lambda x: x.clamp(-1, 1), lambda a: np.clip(a, -ONE, ONE)),
    "sign": (lambda x: torch.signbit(x).float(), lambda a: np.signbit(a).astype(np.float32)),
    "where(x==x)": (lambda x: torch.where(x == x, x, -1.0), lambda a: np.where(a == a, a, -ONE)),
    "trunc": (torch.trunc, np.trunc),
    "round": (torch.round, np.round),
    "floor": (torch.floor, np.floor),
    "sqrt": (torch.sqrt, np.sqrt),
    "1/(1/x)": (lambda x: 1 / (1 / x), lambda a: ONE / (ONE / a)),
}


def bits(array):
    """Bit patterns; every NaN is one."""
    array = np.asarray(array, np.float32)
    return np.where(np.isnan(array), np.int32(-1), array.view(np.int32)).tolist()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_the_bits_of_numpy(name, compiled):
    function, reference = SAME[name]
    run = torch.compile(function) if compiled else function
    with np.errstate(all="ignore"):
        expected = reference(VALUES)
    assert bits(run(torch.tensor(VALUES)).numpy()) == bits(expected)
    assert bits(run(torch.tensor(np.tile(VALUES, 40))).numpy()) == bits(np.tile(expected, 40))


def test_zeros_do_not_hide_what_they_are_multiplied_with():
    nan = torch.tensor([[np.nan, 1.0], [np.inf, 2.0]])
    zeros = torch.zeros(2, 2)
    for product in (
        zeros @ nan,
        torch.einsum("ij,jk->ik", zeros, nan),
        torch.bmm(zeros[None], nan[None])[0],
        torch.nn.functional.linear(zeros, nan.T),
    ):
        found = product.numpy()
        assert np.isnan(found[:, 0]).all() and (found[:, 1] == 0).all()
    convolved = torch.nn.functional.conv1d(
        torch.tensor([[[np.inf, 1.0, 2.0]]]), torch.zeros(1, 1, 2)
    )
    assert np.isnan(convolved.numpy()[0, 0, 0]) and convolved.numpy()[0, 0, 1] == 0


@pytest.mark.parametrize(
    "reduce", ["sum", "mean", "prod", "amax", "amin", "logsumexp", "norm", "std"]
)
def test_reductions_carry_nan(reduce):
    x = torch.tensor([1.0, np.nan, 2.0] * 20)
    value = torch.logsumexp(x, 0) if reduce == "logsumexp" else getattr(x, reduce)()
    assert np.isnan(value.item())


def test_a_sum_of_negative_zeros():
    assert bits((-torch.zeros(5)).amax().numpy()) == bits(np.float32(-0.0))
    assert (-torch.zeros(5)).sum().item() == 0 and (-torch.zeros(3)).prod().item() == 0
