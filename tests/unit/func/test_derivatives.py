"""torch.func, torch.autograd.functional and forward_ad against known derivatives."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import forward_ad
from rushlight.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

AF = torch.autograd.functional
A = torch.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
X = torch.tensor([0.3, -0.7, 1.1])


def f(x):
    return (A @ x).tanh()


def known(x):
    return (1 - f(x) ** 2)[:, None] * A


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("jacobian", [
    jacrev(f), jacfwd(f), jacrev(f, chunk_size=1), jacfwd(f, chunk_size=2),
    lambda x: AF.jacobian(f, x), lambda x: AF.jacobian(f, x, vectorize=True),
    lambda x: AF.jacobian(f, x, vectorize=True, strategy="forward-mode"),
])  # fmt: skip
def test_jacobians(jacobian):
    close(jacobian(X), known(X))


def test_products_with_vectors():
    t, v = torch.tensor([1.0, 0.5, -2.0]), torch.tensor([2.0, -1.0])
    out, tangent = jvp(f, (X,), (t,))
    close(out, f(X)), close(tangent, known(X) @ t)
    out, pull = vjp(f, X)
    close(pull(v)[0], v @ known(X))
    close(AF.jvp(f, X, t)[1], known(X) @ t)
    close(AF.vjp(f, X, v)[1], v @ known(X))


def test_hessians():
    g = lambda x: (x**3).sum() + x[0] * x[1]  # noqa: E731
    wanted = torch.diag(6 * X)
    wanted[0, 1] = wanted[1, 0] = 1
    for found in (hessian(g)(X), jacrev(jacfwd(g))(X), jacfwd(jacfwd(g))(X), AF.hessian(g, X)):
        close(found, wanted)
    close(AF.hvp(g, X, X)[1], wanted @ X)
    close(AF.vhp(g, X, X)[1], wanted @ X)


def test_trees_of_inputs_and_outputs():
    def g(p, x):
        return {"a": p["w"] * x, "b": (x.sum() * p["w"].sum(),)}

    p = {"w": torch.tensor([2.0, 3.0])}
    x = torch.tensor([1.0, -1.0])
    for made in (jacrev(g), jacfwd(g)):
        found = made(p, x)
        close(found["a"]["w"], torch.diag(x))
        close(found["b"][0]["w"], x.sum().expand(2))
    both = jacfwd(lambda a, b: a * b, argnums=(0, 1))(p["w"], x)
    close(both[0], torch.diag(x)), close(both[1], torch.diag(p["w"]))


def test_aux_values():
    found, aux = jacfwd(lambda x: (f(x), x * 2), has_aux=True)(X)
    close(found, known(X))
    found, aux = jacrev(lambda x: (f(x), x * 2), has_aux=True)(X)
    close(aux, X * 2)


def test_dual_numbers():
    t = torch.tensor([1.0, 0.5, -2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, t)
        out = f(dual)
        found = forward_ad.unpack_dual(out)
        close(found.primal, f(X)), close(found.tangent, known(X) @ t)
        assert forward_ad.unpack_dual(X).tangent is None
        close(forward_ad.unpack_dual(dual).tangent, t)
    assert forward_ad.unpack_dual(out).tangent is None


def test_dual_parameters_of_a_module():
    layer = torch.nn.Linear(3, 2)
    direction = {n: torch.ones_like(p) for n, p in layer.named_parameters()}
    names = list(direction)
    with forward_ad.dual_level():
        duals = {n: forward_ad.make_dual(p, direction[n]) for n, p in layer.named_parameters()}
        out = torch.func.functional_call(layer, duals, (X,))
        close(forward_ad.unpack_dual(out).tangent, (X.sum() + 1).expand(2))
    assert names == ["weight", "bias"]


@pytest.mark.parametrize("make, words", [
    (lambda: forward_ad.make_dual(X, X), "no level exists"),
    (lambda: _inside(lambda: forward_ad.make_dual(X, X[:2])), "Expected tangent"),
    (lambda: _inside(forward_ad.enter_dual_level), "Nested"),
    (lambda: forward_ad.exit_dual_level(), "exit"),
])  # fmt: skip
def test_refusals(make, words):
    with pytest.raises(RuntimeError, match=words):
        make()


def _inside(make):
    with forward_ad.dual_level():
        make()


def test_the_function_runs_a_fixed_number_of_times():
    calls = []

    def counted(x):
        calls.append(1)
        return f(x)

    jacrev(counted)(X), jacfwd(counted)(X)
    assert len(calls) == 2


def test_batches_of_derivatives():
    xs = torch.stack([X, X + 1])
    close(vmap(jacfwd(f))(xs), torch.stack([known(x) for x in xs]))
    close(vmap(grad(lambda x: f(x).sum()))(xs), torch.stack([known(x).sum(0) for x in xs]))
    close(vmap(hessian(lambda x: f(x).sum()))(xs)[1], hessian(lambda x: f(x).sum())(xs[1]))


def test_captured_tensors_keep_their_gradients():
    """A step of an inner training, differentiated by what its loss captures."""
    scale = torch.tensor(2.0, requires_grad=True)
    inner = grad(lambda w: (scale * w**2).sum())
    inner(X).sum().backward()
    close(scale.grad, (2 * X).sum())
    scale.grad = None
    jvp(lambda x: scale * x**2, (X,), (torch.ones(3),))[1].sum().backward()
    close(scale.grad, (2 * X).sum())
    assert not grad(lambda w: (w**2).sum())(X).requires_grad


PRODUCTS = [
    lambda x: x.prod(1),
    lambda x: x.prod(),
    lambda x: x.cumprod(1),
    lambda x: x.cumprod(0),
    lambda x: torch.cumprod(x.flip(1), -1),
]


@pytest.mark.parametrize("zeros", range(4))
@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_second_derivatives_of_products_with_zeros(number, zeros):
    product = PRODUCTS[number]
    rng = np.random.default_rng(3)
    values = rng.uniform(0.5, 1.5, (2, 4))
    values[1, :zeros] = 0
    x = torch.tensor(values, requires_grad=True)
    seed = torch.tensor(rng.standard_normal(tuple(product(x).shape)))
    v = torch.tensor(rng.standard_normal(x.shape))

    def gradient(x):
        return torch.autograd.grad(product(x), x, seed, create_graph=True)[0]

    (second,) = torch.autograd.grad(gradient(x), x, v)
    step = 1e-5 * v
    near = [gradient((x + sign * step).detach().requires_grad_()).detach() for sign in (1, -1)]
    np.testing.assert_allclose(second, (near[0] - near[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_forward_mode_is_linear_where_gradients_take_logarithms():
    x = torch.linspace(-2.0, 2.0, 15, dtype=torch.float64).reshape(3, 5)
    v = torch.func.jvp(lambda x: x.logcumsumexp(1), (x,), (torch.ones_like(x),))[1]
    np.testing.assert_allclose(v, np.ones((3, 5)))


def by_numpy(values):
    return torch.from_numpy(np.asarray(values))


def seen_by_numpy(values):
    made = torch.tensor(values)
    made.numpy()
    return made


@pytest.mark.parametrize("make", [by_numpy, seen_by_numpy, lambda v: by_numpy([v])[0]])
def test_tensors_in_memory_that_numpy_sees(make):
    """Captured by a vmapped function or given to it, their gradients are those of other tensors."""
    x, values = make(np.float32([0.3, -0.7, 1.1])), torch.tensor([0.3, -0.7, 1.1])
    close(AF.hessian(lambda z: (z**3).sum(), x), torch.diag(6 * values))
    close(hessian(lambda z: (z**3).sum())(x), torch.diag(6 * values))
    leaf = make(np.float32([0.3, -0.7, 1.1])).requires_grad_()
    for used in (lambda: leaf, lambda: leaf.view(3, 1).squeeze(1), lambda: leaf * 1):
        held = used()
        vmap(lambda row, held=held: (held * row).sum())(torch.ones(2, 3)).sum().backward()
        close(leaf.grad, torch.full((3,), 2.0))
        leaf.grad = None
    vmap(lambda row: (leaf[1:] * leaf.view(3, 1)[1:, 0] * row).sum())(
        torch.ones(2, 2)
    ).sum().backward()
    close(leaf.grad, 4 * values * torch.tensor([0.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    ("x", "src"),
    [
        ([0.0, 2.0, 3.0], [0.0, 0.0, 5.0, 0.0, 4.0]),  # a 0 of each, two of src, one of src
        ([0.0, 0.0, 3.0], [2.0, 0.0, 5.0, 0.0, 0.0]),
        ([1.0, 2.0, 3.0], [2.0, -1.0, 5.0, 0.5, 4.0]),
    ],
)
def test_products_at_indices_have_second_derivatives_at_zeros(x, src):
    index = torch.tensor([1, 1, 1, 0, 2])
    pair = tuple(torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, src))

    def joined(a, b):
        return a.scatter_reduce(0, index, b, "prod")

    assert torch.autograd.gradcheck(joined, pair)
    assert torch.autograd.gradgradcheck(joined, pair)


def test_normal_quantile_has_second_derivatives():
    p = torch.tensor([0.03, 0.24, 0.5, 0.76, 0.97], dtype=torch.float64)
    y, root = torch.special.ndtri(p), np.sqrt(2 * np.pi)
    slope = root * np.exp(y.numpy() ** 2 / 2)
    p.requires_grad_()
    (first,) = torch.autograd.grad(torch.special.ndtri(p).sum(), p, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), p)
    np.testing.assert_allclose(first.detach().numpy(), slope, rtol=1e-7)
    np.testing.assert_allclose(second.numpy(), y.numpy() * slope**2, rtol=1e-7, atol=1e-7)
