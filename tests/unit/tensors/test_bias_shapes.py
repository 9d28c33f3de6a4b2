"""Biases of a wrong shape are refused where the layer is called; broadcast ones have gradients."""

from __future__ import annotations

import pytest

import rushlight as torch

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3,), (1,), (), (1, 4), (3, 2, 4)], ids=str)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_convolutions(spatial: int, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.ones(1, 3, *[6] * spatial, dtype=dtype)
    weight, bias = torch.ones(4, 3, *[2] * spatial, dtype=dtype), torch.ones(shape, dtype=dtype)
    text = "1-dimensional with 4 elements, but got bias of size"
    with pytest.raises(RuntimeError, match=text):
        getattr(F, f"conv{spatial}d")(x, weight, bias)
    with pytest.raises(RuntimeError, match=text):
        getattr(F, f"conv_transpose{spatial}d")(x, weight.transpose(0, 1), bias)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(3,), (3, 2, 4), (1, 2, 4), (3, 4)], ids=str)
def test_products(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a, b, bias = (torch.ones(s, dtype=dtype) for s in ((2, 3), (3, 4), shape))
    for call in (
        lambda: F.linear(a, b.t(), bias),
        lambda: torch.addmm(bias, a, b),
        lambda: torch.addbmm(bias, a[None], b[None]),
        lambda: torch.addr(bias, a[:, 0], b[0]),
    ):
        with pytest.raises(RuntimeError, match="expanded size of the tensor"):
            call()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(4,), (1,), (), (2, 1), (1, 4), (2, 4)], ids=str)
def test_broadcast_biases_have_gradients_of_their_shape(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    a, b = torch.ones(2, 3, dtype=dtype), torch.ones(4, 3, dtype=dtype)
    bias = torch.ones(shape, dtype=dtype, requires_grad=True)
    F.linear(a, b, bias).sum().backward()
    assert bias.grad is not None and bias.grad.shape == shape
    assert torch.equal(bias.grad, torch.full(shape, 8 / bias.numel(), dtype=dtype))


def test_bilinear() -> None:
    a, weight = torch.ones(2, 3), torch.ones(4, 3, 3)
    with pytest.raises(RuntimeError, match="bias size does not match"):
        F.bilinear(a, a, weight, torch.ones(1))


def test_products_of_bools_are_refused_at_the_call() -> None:
    x = torch.ones(2, 2, dtype=torch.bool)
    for call in (
        lambda: x @ x,
        lambda: torch.mv(x, x[0]),
        lambda: torch.dot(x[0], x[0]),
        lambda: F.linear(x, x),
        lambda: torch.einsum("ij,jk->ik", x, x),
        lambda: F.conv1d(x[None], x[None]),
        lambda: F.conv_transpose1d(x[None], x[:, None]),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            call()


def test_addbmm_keeps_the_dtype_and_rounds_once() -> None:
    a = torch.arange(12).reshape(2, 2, 3)
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64):
        found = torch.addbmm(torch.ones(2, 2, dtype=dtype), a.to(dtype), a.mT.to(dtype))
        assert found.dtype is dtype
        assert torch.equal(found.to(torch.int64), ((a @ a.mT).sum(0) + 1).to(dtype).to(torch.int64))
    x = torch.randn(8, 16, 32).to(torch.bfloat16)
    exact = torch.addbmm(torch.ones(16, 16), x.float(), x.mT.float()).to(torch.bfloat16)
    assert torch.equal(torch.addbmm(torch.ones(16, 16, dtype=torch.bfloat16), x, x.mT), exact)


def test_complex_factors_of_real_sums_are_refused() -> None:
    x = torch.ones(2, 2)
    for name in ("beta", "alpha"):
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.addmm(x, x, x, **{name: 1j})
