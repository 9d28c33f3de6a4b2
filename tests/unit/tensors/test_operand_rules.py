"""What a call may be given: where Python numbers stand, which memory, which dtypes and windows."""

import math

import numpy as np
import pytest

import rushlight as torch


@pytest.mark.parametrize("name", ["maximum", "atan2", "logical_and", "fmax", "gcd", "ldexp"])
def test_two_tensors_only(name):
    function, x = getattr(torch, name), torch.tensor([1, 2, 3])
    with pytest.raises(TypeError, match="argument 'other' .position 2. must be Tensor, not int"):
        function(x, 2)
    with pytest.raises(TypeError, match="argument 'input' .position 1. must be Tensor, not int"):
        function(2, x)
    with pytest.raises(TypeError, match="must be Tensor"):
        getattr(x, name)(2)


@pytest.mark.parametrize("name", ["eq", "lt", "fmod", "copysign", "clamp_min"])
def test_the_second_may_be_a_number(name):
    function, x = getattr(torch, name), torch.tensor([1, 2, 3])
    assert function(x, 2).shape == (3,)
    with pytest.raises(TypeError, match="must be Tensor"):
        function(2, x)


@pytest.mark.parametrize("name", ["pow", "remainder", "xlogy", "bitwise_and", "float_power"])
def test_one_of_both_may_be_a_number(name):
    function, x = getattr(torch, name), torch.tensor([1, 2, 3])
    assert function(x, 2).shape == function(2, x).shape == (3,)
    with pytest.raises(TypeError, match="at least one operand must be a Tensor"):
        function(2, 3)


def test_out_may_not_be_what_is_read():
    x, at = torch.arange(4.0), torch.tensor([3, 2, 1, 0])
    for call in (
        lambda: torch.gather(x, 0, at, out=x),
        lambda: torch.index_select(x, 0, at, out=x),
        lambda: torch.take(x, at, out=x),
        lambda: torch.masked_select(x, x > 1, out=x),
        lambda: torch.cat([x, x], out=x),
    ):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            call()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(
        RuntimeError, match="Expected out tensor to have dtype float, but got double"
    ):
        torch.gather(x, 0, at, out=torch.empty(4, dtype=torch.float64))


def test_windows_of_pools():
    x, F = torch.ones(1, 1, 6, 6), torch.nn.functional
    for settings, text in (
        ({"kernel_size": 0}, "kernel_size must be greater than zero"),
        ({"kernel_size": 2, "stride": 0}, "stride must be greater than zero"),
        ({"kernel_size": 2, "padding": -1}, "pad must be non-negative"),
        ({"kernel_size": 2, "padding": 2}, "pad should be at most half"),
    ):
        for pool in (F.max_pool2d, F.avg_pool2d):
            with pytest.raises(RuntimeError, match=text):
                pool(x, **settings)
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        F.avg_pool2d(x, 2, divisor_override=0)
    with pytest.raises(RuntimeError, match="dilation should be greater than zero"):
        F.conv2d(x, torch.ones(1, 1, 2, 2), dilation=-1)


def test_truth_values_and_whole_numbers_keep_their_dtype():
    b = torch.tensor([True, False, True])
    assert torch.diff(b).tolist() == [True, True]
    assert torch.diag_embed(b).dtype is torch.bool
    assert b.masked_fill(~b, 7).tolist() == [True, True, True]
    assert torch.square(b).dtype is torch.int64
    assert b.sum(dtype=torch.bool).item() is True
    whole = torch.tensor([[1, 2], [3, 4]])
    assert torch.addmv(whole[0], whole, whole[1], beta=0.2, alpha=2.9).tolist() == [22, 50]
    pooled = torch.nn.functional.avg_pool1d(torch.tensor([[[-3, 0, 7, 8]]]), 2)
    assert pooled.tolist() == [[[-1, 7]]]
    assert torch.isclose(torch.tensor([10, 100]), torch.tensor([11, 101]), rtol=0.05).tolist() == [
        False, True,
    ]  # fmt: skip


def test_scatters_of_truth_values_join_them():
    x, at = torch.tensor([True, False, False]), torch.tensor([0, 1, 1])
    src = torch.tensor([False, True, False])
    assert torch.scatter_add(x, 0, at, src).tolist() == [True, True, False]
    for how, want in (("amin", [False, False, False]), ("amax", [True, True, False])):
        assert torch.scatter_reduce(x, 0, at, src, how).tolist() == want
    got = torch.scatter_reduce(x, 0, at, src, "amin", include_self=False)
    assert got.tolist() == [False, False, False]


def test_index_fill_counts_equal_indices_once():
    x = torch.zeros(2, 4, requires_grad=True)
    value = torch.tensor(3.0, requires_grad=True)
    out = x.index_fill(1, torch.tensor([2, 0, 2]), value)
    assert out.tolist() == [[3.0, 0.0, 3.0, 0.0]] * 2
    (out * torch.arange(8.0).reshape(2, 4)).sum().backward()
    assert value.grad.item() == 0 + 2 + 4 + 6
    assert x.grad.tolist() == [[0.0, 1.0, 0.0, 3.0], [0.0, 5.0, 0.0, 7.0]]


def test_losses_of_shapes_that_broadcast():
    a = torch.tensor([[1.0], [2.0]], requires_grad=True)
    b = torch.tensor([[0.0, 5.0, 1.0]])
    loss = torch.nn.functional.mse_loss(a, b)
    want = ((a.detach().numpy() - b.numpy()) ** 2).mean()
    np.testing.assert_allclose(loss.item(), want)
    loss.backward()
    by_hand = 2 * (a.detach().numpy() - b.numpy()).sum(1, keepdims=True) / 6
    np.testing.assert_allclose(a.grad.numpy(), by_hand, rtol=1e-6)
    with pytest.raises(RuntimeError, match="must match the size"):
        torch.nn.functional.l1_loss(torch.ones(5, 4), torch.ones(5))


def test_coordinates_of_flat_positions():
    rows, columns = torch.unravel_index(torch.tensor([4, 5]), (3, 2))
    assert rows.tolist() == [2, 2] and columns.tolist() == [0, 1]
    with pytest.raises(ValueError, match="integer dtype"):
        torch.unravel_index(torch.ones(2), (3, 2))


def test_powers_of_and_to_nan():
    nan, inf = float("nan"), float("inf")
    base = torch.tensor([0.0, -0.0, inf, -inf, 2.0, nan, 1.0])
    assert [math.isnan(v) for v in (base**nan).tolist()] == [True] * 6 + [False]
    assert (torch.tensor([nan, 1.0]) ** 0).tolist() == [1, 1]
    assert math.isnan((0.0 ** torch.tensor([nan])).item())


def test_small_refusals():
    x = torch.ones(3)
    for wrong in (lambda: x - True, lambda: torch.tensor([True]) - x):
        with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
            wrong()
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        torch.tensor(1).diff()
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        torch.ones(3, requires_grad=True).resize_(2)
    assert torch.tensor(3.0).argsort().item() == 0
    # An integer beside 16-bit floats is not rounded first.
    assert (torch.tensor([-0.0], dtype=torch.float16) * 2**40).tolist() == [0]


@pytest.mark.parametrize("name", ["kthvalue", "median", "mode", "max", "min", "nanmedian"])
@pytest.mark.parametrize("shape", [(0,), (2,)])
def test_out_of_several_results_holds_them(name, shape):
    x = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    args = (x, 2, 1) if name == "kthvalue" else (x, 1)
    wanted = getattr(torch, name)(*args)
    out = torch.empty(shape), torch.empty(shape, dtype=torch.int64)
    given = getattr(torch, name)(*args, out=out)
    assert given[0] is out[0] and given[1] is out[1]
    for target, value in zip(out, wanted, strict=True):
        assert target.tolist() == value.tolist() and target.shape == value.shape
    with pytest.raises((TypeError, RuntimeError)):
        getattr(torch, name)(*args, out=out[:1])


def test_out_of_frexp_and_of_batch_norm_is_written():
    x = torch.tensor([[3.0, 1.0], [6.0, 5.0]])
    for name, args in {
        "frexp": (x,),
        "native_batch_norm": (x, None, None, None, None, True, 0.1, 1e-5),
    }.items():
        wanted = getattr(torch, name)(*args)
        out = tuple(torch.empty(0, dtype=value.dtype) for value in wanted)
        getattr(torch, name)(*args, out=out)
        assert [target.tolist() for target in out] == [value.tolist() for value in wanted]


def test_out_shares_no_memory_with_an_argument():
    x, out = torch.arange(3), torch.empty(0, dtype=torch.int64)
    torch.ceil(x, out=out).add_(5)
    assert x.tolist() == [0, 1, 2] and out.tolist() == [5, 6, 7]


def test_searchsorted_takes_the_order_of_a_sorter():
    row = torch.tensor([[5.0, 1.0, 3.0], [2.0, 9.0, 4.0]])
    values = torch.tensor([[4.5, 0.0], [3.0, 10.0]])
    found = torch.searchsorted(row, values, sorter=row.argsort(-1))
    assert found.tolist() == [[2, 0], [1, 3]]
    for wrong in ({"side": "up"}, {"side": "left", "right": True}, {"sorter": torch.arange(2)}):
        with pytest.raises(RuntimeError, match="searchsorted"):
            torch.searchsorted(row, values, **wrong)


@pytest.mark.parametrize("shape", [(7, 3), (4, 3), (3, 7), (3, 3), (0, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal_is_numpy_s(shape, wrap):
    wanted = np.zeros(shape, np.float32)
    if wanted.size:
        np.fill_diagonal(wanted, 2.0, wrap)
    assert torch.zeros(shape).fill_diagonal_(2.0, wrap).tolist() == wanted.tolist()


def test_fill_diagonal_of_a_cube():
    wanted = np.zeros((3, 3, 3), np.float32)
    np.fill_diagonal(wanted, 2.0)
    assert torch.zeros(3, 3, 3).fill_diagonal_(2.0).tolist() == wanted.tolist()
    with pytest.raises(RuntimeError, match="equal length"):
        torch.zeros(3, 3, 4).fill_diagonal_(2.0)
