"""What LAPACK cannot factor is said in PyTorch's words; repeated values have gradients."""

import numpy as np
import pytest

import rushlight as torch

L = torch.linalg
SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])


def test_errors_name_the_matrix_and_the_pivot():
    both = torch.stack([torch.eye(2), SINGULAR])
    with pytest.raises(L.LinAlgError, match="linalg.inv: The diagonal element 2 is zero"):
        L.inv(SINGULAR).tolist()
    with pytest.raises(RuntimeError, match=r"\(Batch element 1\): The diagonal element 2"):
        L.inv(both).tolist()
    with pytest.raises(L.LinAlgError, match="minor of order 2 is not positive-definite"):
        L.cholesky(both).tolist()
    with pytest.raises(L.LinAlgError, match="the input matrix is singular"):
        L.solve(SINGULAR, torch.ones(2, 1)).tolist()


def test_the_ex_functions_tell_instead():
    both = torch.stack([torch.eye(2), SINGULAR])
    low, info = L.cholesky_ex(both)
    assert info.tolist() == [0, 2] and low[0].tolist() == torch.eye(2).tolist()
    assert L.inv_ex(both)[1].tolist() == [0, 2] and np.isnan(L.inv_ex(both)[0][1].tolist()).all()
    assert L.lu_factor_ex(both)[2].tolist() == [0, 2]
    with pytest.raises(L.LinAlgError):
        L.inv_ex(SINGULAR, check_errors=True)[0].tolist()


def test_ldl_solves_what_is_not_positive():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 6, 6))
    a = a + np.swapaxes(a, -1, -2)
    a[0, 0, 0] = 0.0
    b = rng.standard_normal((5, 6, 2))
    packed, pivots, info = L.ldl_factor_ex(torch.from_numpy(a))
    assert not info.any() and (pivots < 0).any()  # some blocks have two rows
    x = L.ldl_solve(packed, pivots, torch.from_numpy(b))
    np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-9)
    assert L.ldl_factor_ex(torch.zeros(2, 2))[2].item() == 1


@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [2.0, 2.0, 5.0], [0.0, 0.0, 3.0]])
def test_a_function_of_a_matrix_has_its_gradient_at_repeated_values(values):
    rng = np.random.default_rng(1)
    q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    weight = rng.standard_normal((3, 3))
    x = torch.tensor((q * values) @ q.T, requires_grad=True)
    w, v = L.eigh(x)
    ((v * w.exp()) @ v.mT * torch.from_numpy(weight)).sum().backward()

    def f(a):
        w, v = np.linalg.eigh((a + a.T) / 2)
        return ((v * np.exp(w)) @ v.T * weight).sum()

    want = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[i, j] = 1e-5
        want[i, j] = (f(x.detach().numpy() + step) - f(x.detach().numpy() - step)) / 2e-5
    got = x.grad.numpy()
    np.testing.assert_allclose((got + got.T) / 2, want, rtol=2e-5, atol=2e-4)


def test_a_product_of_its_singular_factors_has_gradient_one():
    a = np.zeros((4, 3))
    a[:2, :2] = 3 * np.eye(2)  # a repeated value and a zero
    x = torch.tensor(a, requires_grad=True)
    u, s, vh = L.svd(x, full_matrices=False)
    ((u * s) @ vh).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.ones((4, 3)), atol=1e-6)


def test_values_without_gradient_are_exact():
    x = torch.diag(torch.tensor([2.0, 2.0, 5.0], dtype=torch.float64))
    assert L.eigh(x)[0].tolist() == [2.0, 2.0, 5.0]
    assert L.svd(x)[1].tolist() == [5.0, 2.0, 2.0]
