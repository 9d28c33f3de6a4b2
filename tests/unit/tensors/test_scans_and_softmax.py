"""Running sums of any length, softmax of nothing and of rows with nothing to see."""

import numpy as np
import pytest

import rushlight as torch

F = torch.nn.functional
INF = float("inf")


@pytest.mark.parametrize("size", [1, 511, 512, 513, 1024, 20_000])
def test_cumsum_and_its_gradient_keep_their_digits(size: int) -> None:
    values = np.random.default_rng(0).random((2, size)).astype(np.float32)
    x = torch.tensor(values, requires_grad=True)
    y = x.cumsum(1)
    exact = np.cumsum(values.astype(np.float64), 1)
    np.testing.assert_allclose(y.detach().numpy(), exact, rtol=1e-5)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy()[0], np.arange(size, 0, -1.0), rtol=1e-5)


def test_sizes_that_vary_give_the_bits_of_sizes_that_do_not() -> None:
    x = torch.rand(1600)
    long = x.cumsum(0).tolist()
    for size in (700, 800, 900, 1500):
        assert x[:size].clone().cumsum(0).tolist() == long[:size]


def test_logcumsumexp_of_a_prefix_of_nothing_has_a_gradient() -> None:
    x = torch.tensor([-INF, 0.0, 1.0], requires_grad=True)
    x.logcumsumexp(0)[1:].sum().backward()
    e = float(np.e)
    np.testing.assert_allclose(x.grad.numpy(), [0, 1 + 1 / (1 + e), e / (1 + e)], rtol=1e-6)


def test_complex_logcumsumexp_counts_turns_as_pytorch_does() -> None:
    x = torch.tensor([0.5 + 3j, 0.4 + 6j, 0.6 + 9j, -1 + 14j, 3 + 40j, 2.9 + 43j, 0.1 - 7j])
    want = [0.5 + 3j, -1.3029 + 3.8863j, 0.6650 + 9.1290j, 0.7106 + 8.9496j,
            3.0910 + 40.0331j, 1.6440 + 40.6894j, 1.4549 + 40.8280j]  # fmt: skip
    np.testing.assert_allclose(x.logcumsumexp(0).numpy(), want, atol=1e-4)
    both = torch.stack([x, x]).logcumsumexp(1).numpy()
    np.testing.assert_allclose(both[1], want, atol=1e-4)
    wide = torch.tensor([complex(-INF, 1), complex(-INF, 2), 1 + 10j, complex(-INF, 5)])
    np.testing.assert_allclose(wide.logcumsumexp(0).numpy()[2:], [1 + 10j] * 2, atol=1e-6)
    assert torch.zeros(0, dtype=torch.complex64).logcumsumexp(0).shape == (0,)


def test_softmax_over_nothing_is_nothing() -> None:
    for f in (F.softmax, F.log_softmax):
        x = torch.zeros(3, 0, requires_grad=True)
        y = f(x, dim=1)
        y.sum().backward()
        assert y.shape == x.grad.shape == (3, 0)
    assert torch.logsumexp(torch.zeros(2, 0), 1).tolist() == [-INF, -INF]
    assert F.softmax(torch.tensor(2.0), 0).item() == 1


def test_a_row_that_may_see_nothing_gives_zeros_and_no_nan() -> None:
    q = torch.randn(1, 3, 4, requires_grad=True)
    mask = torch.zeros(3, 3)
    mask[1] = -INF
    for attn_mask in (mask, mask == 0):
        q.grad = None
        out = F.scaled_dot_product_attention(q, q, q, attn_mask=attn_mask)
        out.sum().backward()
        assert out[0, 1].tolist() == [0.0] * 4
        assert bool(q.grad.isfinite().all())


def test_an_ignored_row_spoils_nothing() -> None:
    x = torch.tensor([[0.5, 0.5], [INF, float("nan")]], requires_grad=True)
    loss = F.cross_entropy(x, torch.tensor([1, -100]))
    loss.backward()
    assert abs(loss.item() - float(np.log(2))) < 1e-6
    assert x.grad[1].tolist() == [0, 0] and bool(x.grad.isfinite().all())


def test_scatter_reduce_has_gradients() -> None:
    for kind in ("sum", "mean", "prod", "amax", "amin"):
        base = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
        source = torch.tensor([4.0, 0.5, 2.5], dtype=torch.float64, requires_grad=True)
        index = torch.tensor([0, 0, 2])

        def reduce(b: torch.Tensor, s: torch.Tensor, kind: str = kind) -> torch.Tensor:
            return b.scatter_reduce(0, index, s, kind)  # noqa: B023

        assert torch.autograd.gradcheck(reduce, (base, source))


def test_an_indexed_write_keeps_no_value_for_backward() -> None:
    x, s = torch.zeros(3, 2, 3), torch.tensor(7.0, requires_grad=True)
    x[torch.tensor([0, -1]), :, torch.tensor([1, 2])] = s
    x.add_(1)
    x.sum().backward()
    assert s.grad.item() == 4


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("function", ["cumsum", "cumprod"])
def test_scans_of_whole_numbers_have_the_dtype_asked_for(function: str, name: str) -> None:
    """Values wrap as in that dtype."""
    dtype, x = getattr(torch, name), torch.tensor([100, 50, 7, -3])
    got = getattr(torch, function)(x, 0, dtype=dtype)
    with np.errstate(over="ignore"):
        want = getattr(np, function)(x.numpy().astype(name), dtype=name)
    assert got.dtype == dtype and got.tolist() == want.tolist()
    assert getattr(x.float(), function)(0, dtype=dtype).dtype == dtype
    with pytest.raises(NotImplementedError, match=f"{function}_out_cpu.*'Bool'"):
        getattr(torch, function)(x, 0, dtype=torch.bool)
