"""Linear algebra, special functions, masked reductions, sampling: against numpy and identities."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch

F = torch.nn.functional
RNG = np.random.RandomState(7)


def given(*shape: int, **options: bool) -> torch.Tensor:
    return torch.tensor(RNG.standard_normal(shape)).requires_grad_(options.get("grad", False))


def near(a: torch.Tensor, b: object, tol: float = 1e-6) -> None:
    want = b.detach().numpy() if isinstance(b, torch.Tensor) else b
    np.testing.assert_allclose(a.detach().numpy(), want, rtol=tol, atol=tol)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_lu_gives_the_matrix_back_and_its_gradient(shape: tuple) -> None:
    x = given(*shape, grad=True)
    p, low, up = torch.linalg.lu(x)
    near(p @ low @ up, x)
    (grad,) = torch.autograd.grad((p @ low @ up).sum(), x)
    near(grad, np.ones(shape))


def test_lu_factor_solves() -> None:
    a, b = given(3, 3), given(3, 2)
    near(a @ torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b), b)
    near(a.T @ torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=True), b)


def test_pinv_of_a_wide_matrix_with_gradient() -> None:
    x = given(2, 4, grad=True)
    near(x @ torch.linalg.pinv(x), np.eye(2))
    (grad,) = torch.autograd.grad((x @ torch.linalg.pinv(x)).sum(), x)
    near(grad, np.zeros((2, 4)))


def test_solve_takes_vectors_and_the_other_side() -> None:
    a, v = given(3, 3), given(3)
    near(a @ torch.linalg.solve(a, v), v)
    near(torch.linalg.solve(a, given(2, 3), left=False) @ a, given(2, 3) * 0, 1e9)
    with pytest.raises(RuntimeError, match="square"):
        torch.linalg.solve(given(2, 3), v)


def test_matrix_exp_and_power() -> None:
    x = given(3, 3)
    near(torch.matrix_exp(x) @ torch.matrix_exp(-x), np.eye(3))
    near(torch.linalg.matrix_power(x, -2) @ x @ x, np.eye(3))


def test_empty_matrices() -> None:
    x = torch.zeros(2, 0, 0, requires_grad=True)
    (grad,) = torch.autograd.grad(torch.linalg.inv(x), x, torch.zeros(2, 0, 0))
    assert grad.numpy().shape == (2, 0, 0)
    assert (torch.zeros(2, 3, 0) @ torch.zeros(2, 0, 4)).numpy().sum() == 0


def test_bessel_functions_by_identities() -> None:
    x = torch.linspace(0.3, 20, 40, dtype=torch.float64)
    s = torch.special
    wronskian = s.bessel_j1(x) * s.bessel_y0(x) - s.bessel_j0(x) * s.bessel_y1(x)
    near(wronskian, 2 / (math.pi * x.numpy()))
    near((s.i0e(x) * s.scaled_modified_bessel_k1(x)
          + s.i1e(x) * s.scaled_modified_bessel_k0(x)) * x, np.ones(40))  # fmt: skip


def test_normal_distribution_functions() -> None:
    p = torch.tensor([1e-30, 1e-8, 0.1, 0.5, 0.9], dtype=torch.float64)
    near(torch.special.log_ndtr(torch.special.ndtri(p)).exp() / p, np.ones(5))
    near(torch.special.ndtri(torch.tensor([0.0, 1.0])), [-np.inf, np.inf])


def test_incomplete_gamma_and_zeta() -> None:
    x = torch.tensor([0.5, 2.0, 30.0], dtype=torch.float64)
    near(torch.igamma(torch.ones_like(x), x), 1 - np.exp(-x.numpy()))
    near(torch.igamma(x, x) + torch.igammac(x, x), np.ones(3))
    near(torch.special.zeta(2.0, torch.ones(1, dtype=torch.float64)), [math.pi**2 / 6])


def test_polynomials_of_tensor_orders() -> None:
    x = torch.tensor([0.3, -0.7, 0.9], dtype=torch.float64)
    n = torch.tensor([3.0, 5.0, -1.0], dtype=torch.float64)
    want = [math.cos(3 * math.acos(0.3)), math.cos(5 * math.acos(-0.7)), 0.0]
    near(torch.special.chebyshev_polynomial_t(x, n), want)


def test_masked_reductions() -> None:
    x, mask = given(4, 5), torch.tensor(RNG.rand(4, 5) > 0.4)
    kept = np.ma.array(x.numpy(), mask=~mask.numpy())
    near(torch.masked.sum(x, 1, mask=mask), kept.sum(1).filled(0))
    near(torch.masked.var(x, 0, False, mask=mask), kept.var(0).filled(np.nan))


def test_quantiles_and_medians_with_nan() -> None:
    x = torch.tensor([[3.0, math.nan, 1.0], [2.0, 5.0, 4.0]])
    near(torch.nanquantile(x, 0.5, 1), [2.0, 4.0])
    near(torch.quantile(x, 0.5, 1), [math.nan, 4.0])
    assert torch.nanmedian(x).item() == 3.0
    assert math.isnan(torch.median(x).item())


def test_windows() -> None:
    windows = torch.signal.windows
    near(windows.hann(5), np.hanning(5))
    near(windows.kaiser(7, beta=5.0), np.kaiser(7, 5.0), 1e-5)
    assert windows.gaussian(1).tolist() == [1.0]


def test_grid_sample_of_the_identity_grid() -> None:
    image = given(1, 2, 4, 5, grad=True)
    theta = torch.tensor([[[1.0, 0, 0], [0, 1.0, 0]]], dtype=torch.float64)
    grid = F.affine_grid(theta, [1, 2, 4, 5], align_corners=True)
    for mode in ("bilinear", "nearest", "bicubic"):
        near(F.grid_sample(image, grid, mode, align_corners=True), image)


def test_max_unpool_puts_values_back() -> None:
    x = given(1, 1, 4, 4)
    values, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(values, places, 2)
    near(F.max_pool2d(back.clamp(min=-9), 2), values.clamp(min=0))


def test_ctc_loss_of_one_path() -> None:
    probs = torch.log(torch.tensor([[0.4, 0.6], [0.3, 0.7]], dtype=torch.float64))
    loss = F.ctc_loss(probs, torch.tensor([1]), [2], [1], reduction="sum")
    near(loss, -math.log(0.6 * 0.7 + 0.6 * 0.3 + 0.4 * 0.7))


def test_embedding_bag_means() -> None:
    weight = given(5, 3)
    rows = torch.tensor([0, 2, 4, 1])
    got = F.embedding_bag(rows, weight, torch.tensor([0, 3]), mode="mean")
    w = weight.numpy()
    near(got, np.stack([w[[0, 2, 4]].mean(0), w[1]]))


def test_numpy_memory_with_gaps_is_shared() -> None:
    base = np.arange(12.0)
    view = torch.from_numpy(base[::3])
    base[3] = 50.0
    assert view.tolist() == [0.0, 50.0, 6.0, 9.0]
    view[2] = -1.0
    assert base[6] == -1.0


def test_copies_share_no_memory() -> None:
    x = torch.zeros(2, 3)
    copy = torch.transpose_copy(x, 0, 1)
    x.fill_(5)
    assert copy.sum().item() == 0


def test_index_add_along_the_last_dim_has_a_gradient() -> None:
    x = given(3, 4, grad=True)
    out = x.index_add(-1, torch.tensor([1, 1]), given(3, 2))
    near(torch.autograd.grad(out.sum(), x)[0], np.ones((3, 4)))


def test_a_size_that_only_bounds_an_index():
    """Rows picked by strided foreign memory, at two sizes: the bound is a size of the kernel."""
    rng = np.random.default_rng(0)

    def strided(shape, strides, count):
        bytes_ = [8 * s for s in strides]
        return torch.from_numpy(
            np.lib.stride_tricks.as_strided(rng.integers(0, 5, count), shape, bytes_)
        )

    weight = torch.from_numpy(rng.standard_normal((10, 5)))
    offsets = torch.tensor([0, 3])
    for index, shape in ((strided((5,), (2,), 9), (5,)), (strided((5, 5), (10, 2), 49), (5, 5))):
        shares = torch.from_numpy(rng.standard_normal(shape))
        got = torch.nn.functional.embedding_bag(
            index, weight, offsets if index.dim() == 1 else None, mode="sum",
            per_sample_weights=shares,
        )  # fmt: skip
        parts = weight.numpy()[index.numpy()] * shares.numpy()[..., None]
        want = parts.sum(1) if index.dim() == 2 else np.stack([parts[:3].sum(0), parts[3:].sum(0)])
        np.testing.assert_allclose(got.numpy(), want)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1)])
def test_products_of_one_complex_number_are_values_of_their_own(shape: tuple) -> None:
    x = torch.ones(shape, dtype=torch.complex64)
    for made in (
        torch.prod(x, -1),
        torch.prod(x, -1, keepdim=True),
        torch.prod(x),
        torch.cumprod(x, -1),
    ):
        made.add_(1)
    near(x, np.ones(shape))


def test_logsumexp_of_one_complex_number_has_the_angle_of_the_others() -> None:
    x = torch.tensor(1000 + 9j, dtype=torch.complex128)
    wrapped = 1000 + (9 - 2 * math.pi) * 1j
    near(torch.logsumexp(x, 0), np.array(wrapped))
    near(torch.logsumexp(x.reshape(1), 0), np.array(wrapped))


def test_logit_of_integers() -> None:
    near(torch.logit(torch.tensor([0, 1])), np.array([-np.inf, np.inf]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_places_of_a_long_image_are_exact_in_narrow_dtypes(dtype: torch.dtype, mode: str) -> None:
    """Both dtypes count to 256 only."""
    image = torch.arange(700).remainder(200).reshape(1, 1, 1, 700)
    got = F.interpolate(image.to(dtype), (1, 1400), mode=mode)
    want = F.interpolate(image.float(), (1, 1400), mode=mode)
    assert got.dtype is dtype
    near(got.float(), want.clamp(0, 255) if dtype is torch.uint8 else want, 0.5)


@pytest.mark.parametrize("name", ["entr", "ndtr", "log_ndtr", "ndtri", "modified_bessel_k0"])
def test_special_functions_round_once_in_bfloat16(name: str) -> None:
    x, function = torch.linspace(0.05, 0.95, 19).to(torch.bfloat16), getattr(torch.special, name)
    got, want = function(x), function(x.double())
    assert got.dtype is torch.bfloat16
    assert ((got.double() - want).abs() <= 2**-8 * want.abs() + 1e-6).all()


def test_polygamma_beside_poles_in_bfloat16() -> None:
    got = torch.polygamma(2, torch.tensor(-8.5, dtype=torch.bfloat16))
    near(got.float(), np.array(-0.0123291), 1e-4)


def test_segments_that_leave_rows_out() -> None:
    x = torch.ones(5)
    near(torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 2]), unsafe=True), [2.0, 2.0])
    near(torch.segment_reduce(x, "mean", offsets=torch.tensor([1, 3])), [1.0])
    near(torch.segment_reduce(x, "sum", offsets=torch.tensor([0, 0, 3, 5])), [0.0, 3.0, 2.0])
    with pytest.raises(RuntimeError, match="Expected all rows of lengths"):
        torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 2]))


def test_diff_of_order_none_is_the_input() -> None:
    x = torch.tensor([1, 2, 4])
    near(torch.diff(x, n=0, prepend=x, append=x), np.array([1, 2, 4]))
    near(torch.diff(x, n=1, prepend=x[:1]), np.array([0, 1, 2]))


def test_int_mm_sums_bytes_in_int32() -> None:
    a, b = (
        torch.tensor(RNG.randint(-128, 128, size), dtype=torch.int8) for size in ((5, 9), (9, 4))
    )
    got = torch._int_mm(a, b)
    assert got.dtype is torch.int32
    assert got.tolist() == (a.numpy().astype(int) @ b.numpy().astype(int)).tolist()
    unsigned = torch._int_mm(a.to(torch.uint8), b)
    want = a.to(torch.uint8).numpy().astype(int) @ b.numpy().astype(int)
    assert unsigned.tolist() == want.tolist()
    with pytest.raises(RuntimeError, match="mat2 dtype to be of type int8 but got int"):
        torch._int_mm(a, b.int())
    with pytest.raises(RuntimeError, match="needs to match mat2.size.0. but got 9 and 3"):
        torch._int_mm(a, b[:3])
    with pytest.raises(RuntimeError, match="Expected self to be of dimension 2 but got 1"):
        torch._int_mm(a[0], b)
