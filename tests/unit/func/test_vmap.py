"""vmap against a loop: every rule, gradients, nesting, randomness, refusals."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight.func import functional_call, grad, jacrev, stack_module_state, vmap
from rushlight.overrides.dispatch import turn_on

F = torch.nn.functional


def data(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def looped(f, in_dims, *args):
    size = next(a.shape[d] for a, d in zip(args, in_dims, strict=True) if d is not None)
    return torch.stack([
        f(*(a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=True)))
        for i in range(size)
    ])  # fmt: skip


def spd(x):
    return x @ x.mT + 3 * torch.eye(x.shape[-2])


W, V = data(4, 5, seed=8), data(3, 4, 4, seed=9)
ROWS = torch.tensor([2, 0, 1])
ONE = [  # functions of one matrix of 3 x 4
    lambda x: x.sin() + 1,
    lambda x: x.sum(),
    lambda x: x.sum(0),
    lambda x: x.mean(-1, keepdim=True),
    lambda x: x.softmax(1),
    lambda x: x.log_softmax(0),
    lambda x: x.reshape(2, 6),
    lambda x: x.T,
    lambda x: x[1],
    lambda x: x[:, 1:3],
    lambda x: x[::2, -1],
    lambda x: x[[2, 0]],
    lambda x: x[ROWS, ROWS],
    lambda x: x.flip(0),
    lambda x: F.pad(x, (1, 2)),
    lambda x: torch.cat([x, W.T[:2]]),
    lambda x: torch.stack([x, x], 1),
    lambda x: x @ W,
    lambda x: x @ x.T,
    lambda x: x.argmax(),
    lambda x: x.argmax(1),
    lambda x: x.max(0)[0],
    lambda x: x.sort(1)[0],
    lambda x: x.cumsum(0),
    lambda x: x.cummax(1)[0],
    lambda x: x.var(1),
    lambda x: x.norm(),
    lambda x: x.unfold(1, 2, 1),
    lambda x: x.tril(),
    lambda x: x.expand(2, 3, 4),
    lambda x: x.unsqueeze(0).repeat(2, 1, 1),
    lambda x: torch.where(x > 0, x, 0.5),
    lambda x: x.clamp(-1, 0.5),
    lambda x: x.gather(1, (x[:, :2] > 0).long()),
    lambda x: torch.zeros(3, 4).scatter(1, ROWS[:, None], x),
    lambda x: x.index_select(0, ROWS),
    lambda x: F.layer_norm(x, (4,)),
    lambda x: F.gelu(x),
    lambda x: F.linear(x, W.T),
    lambda x: x.diagonal(),
    lambda x: torch.linalg.inv(spd(x)),
    lambda x: torch.linalg.cholesky(spd(x)),
    lambda x: torch.linalg.det(spd(x)),
    lambda x: torch.linalg.solve(spd(x), x),
    lambda x: torch.linalg.eigvalsh(spd(x)),
    lambda x: torch.fft.rfft(x, dim=0).abs(),
    lambda x: torch.einsum("ij,kj->ik", x, x),
    lambda x: F.conv1d(x[None], data(2, 3, 2)),
    lambda x: F.max_pool2d(x[None, None], 2),
    lambda x: F.interpolate(x[None, None], scale_factor=2.0),
    lambda x: x.roll(1, 0),
    lambda x: x.prod(1),
    lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    lambda x: torch.outer(x[0], x[1]),
    lambda x: F.cross_entropy(x, ROWS),
    lambda x: x.logsumexp(0),
    lambda x: x.std(),
    lambda x: x.bool().any(1),
    lambda x: F.one_hot((x > 0).long(), 2),
    lambda x: x.half().float(),
    lambda x: x.new_zeros(2) + x[0, 0],
    lambda x: (x + 1j * x).abs(),
    lambda x: x.median(0)[0],
    lambda x: torch.searchsorted(ROWS.float().sort()[0], x),
    lambda x: x[0, 0] + x[0, 1],
    lambda x: x[0, 0].sum(),
    lambda x: F.cosine_similarity(x, W.T[:3], dim=1),
    lambda x: x.masked_fill(x > 0, -1.0),
    lambda x: F.embedding(ROWS, x),
    lambda x: torch.cdist(x, x + 1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ONE)))
def test_as_a_loop(number):
    f, x = ONE[number], data(5, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(f)(x)
    wanted = looped(f, (0,), x)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-4, atol=2e-5)


TWO = [  # functions of a 3 x 4 and a 4 x 3
    lambda x, y: x @ y,
    lambda x, y: x + y.T,
    lambda x, y: torch.cat([x, y.T]),
    lambda x, y: x * y[0, 0],
    lambda x, y: x[(y[:2, 0] > 0).long()],
    lambda x, y: F.linear(x, y.T),
    lambda x, y: x.index_add(0, ROWS, y.T),
    lambda x, y: F.layer_norm(x, (4,), y[:, 0], y[:, 1]),
    lambda x, y: F.conv1d(x[None], y.reshape(1, 3, 4)),
    lambda x, y: torch.where(y.T > 0, x, 0),
    lambda x, y: x.scatter_add(1, (y.T > 0).long(), y.T),
    lambda x, y: torch.dot(x[0], y[:, 0]),
    lambda x, y: torch.linalg.solve(spd(x), y.T),
    lambda x, y: F.pad(x, (0, 1), value=2.0) + y[0, 0],
    lambda x, y: F.mse_loss(x, y.T),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TWO)))
@pytest.mark.parametrize("in_dims", [(0, 0), (1, 2), (0, None), (None, -1)])
def test_two_arguments_and_where_the_batch_is(number, in_dims):
    f = TWO[number]
    args = [data(3, 4), data(4, 3, seed=1)]
    args = [a if d is None else torch.stack([a, a + 1], d)
            for a, d in zip(args, in_dims, strict=True)]  # fmt: skip
    found, wanted = vmap(f, in_dims)(*args), looped(f, in_dims, *args)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("number", range(len(ONE)))
def test_gradients_through(number):
    """Of the argument and of a captured tensor, once and twice."""
    f, x = ONE[number], data(2, 3, 4)
    scale = torch.tensor(1.3, requires_grad=True)
    found = []
    for run in (lambda g, v: vmap(g)(v), lambda g, v: looped(g, (0,), v)):
        leaf = x.clone().requires_grad_()
        out = run(lambda v: f(v * scale), leaf)
        if not out.requires_grad:
            return
        first = torch.autograd.grad((out * out).sum(), [leaf, scale], create_graph=True)
        second = torch.autograd.grad(first[0].square().sum(), [leaf, scale], allow_unused=True)
        found.append([*first, *(torch.zeros(1) if s is None else s for s in second)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=3e-3, atol=3e-4)


def test_nothing_is_called_for_each_example():
    calls = []

    def f(x):
        calls.append(x.shape)
        return x.sin()

    vmap(f)(data(100, 3))
    assert calls == [(3,)]


def test_per_sample_gradients_and_nesting():
    x, w = data(5, 4), data(4)
    loss = lambda w, x: (x @ w).tanh()  # noqa: E731
    found = vmap(grad(loss), (None, 0))(w, x)
    wanted = torch.stack([grad(loss)(w, row) for row in x])
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)
    pairs = vmap(vmap(torch.dot, (None, 0)), (0, None))(x, x)
    np.testing.assert_allclose(pairs.numpy(), (x @ x.T).numpy(), rtol=1e-4, atol=1e-5)
    hessians = vmap(jacrev(jacrev(lambda v: (v**3).sum())))(x)
    np.testing.assert_allclose(hessians.numpy(), torch.diag_embed(6 * x).numpy(), rtol=1e-5)


def test_what_a_function_keeps_out_of_the_gradient_stays_out():
    leaf = data(3, 2).requires_grad_()
    vmap(lambda v: (v.detach() * v).sum())(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), leaf.detach().numpy())


def test_own_gradient_functions_are_used():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 2

    leaf = torch.ones(3, requires_grad=True)
    vmap(Twice.apply)(leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


def test_models_as_one():
    models = [torch.nn.Linear(3, 2) for _ in range(4)]
    params, buffers = stack_module_state(models)
    x = data(5, 3)
    found = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(params, buffers)
    wanted = torch.stack([m(x) for m in models])
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-5)


def test_out_dims_and_trees():
    x = data(5, 3)
    f = lambda d: {"a": d["x"] * 2, "b": (d["x"].sum(),)}  # noqa: E731
    out = vmap(f, out_dims={"a": 1, "b": (0,)})({"x": x})
    assert out["a"].shape == (3, 5) and out["b"][0].shape == (5,)


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_chunks(chunk):
    x = data(5, 3)
    assert torch.equal(vmap(torch.sin, chunk_size=chunk)(x), x.sin())


def test_randomness():
    x = torch.zeros(4, 3)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda v: v + torch.rand(3))(x)
    torch.manual_seed(0)
    same = vmap(lambda v: v + torch.rand(3), randomness="same")(x)
    assert all(torch.equal(row, same[0]) for row in same)
    different = vmap(lambda v: F.dropout(v + 1, 0.5), randomness="different")(torch.zeros(40, 30))
    assert len({tuple(row.tolist()) for row in different}) > 30
    leaf = torch.ones(40, 30, requires_grad=True)
    out = vmap(lambda v: F.dropout(v, 0.5), randomness="different")(leaf)
    out.sum().backward()
    assert torch.equal(leaf.grad, out.detach())  # the same numbers are drawn again


def test_memory_of_numpy_can_be_used():
    shared = torch.from_numpy(np.arange(3, dtype=np.float32))
    assert torch.equal(vmap(lambda v: v + shared)(torch.zeros(2, 3)), shared.expand(2, 3))


@pytest.mark.parametrize("call, error, words", [
    (lambda: vmap(lambda x: x.item())(data(3)), RuntimeError, "item"),
    (lambda: vmap(lambda x: x if x > 0 else -x)(data(3)), RuntimeError, "vmap"),
    (lambda: vmap(torch.sin, 2)(data(3, 2)), ValueError, "in_dim=2"),
    (lambda: vmap(torch.dot)(data(3, 2), data(4, 2)), ValueError, "same size"),
    (lambda: vmap(torch.dot, (0,))(data(3, 2), data(3, 2)), ValueError, "2 inputs"),
    (lambda: vmap(lambda x: 3)(data(3)), ValueError, "only return Tensors"),
    (lambda: vmap(lambda x: x)(3), ValueError, "non-Tensor"),
    (lambda: vmap(torch.sin, randomness="no")(data(3)), RuntimeError, "randomness"),
])  # fmt: skip
def test_refusals(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_looks_are_refused_where_functions_can_be_taken_over():
    turn_on()
    with pytest.raises(RuntimeError, match="item"):
        vmap(lambda x: x.item())(data(3))
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(lambda x: x if x > 0 else -x)(data(3))


def test_what_is_kept_of_an_example_harms_nobody():
    kept, x = [], data(3, 2)
    vmap(lambda v: (kept.append(v * 2), v.sin())[1])(x)
    assert torch.equal(x + 0, x)
    with pytest.raises(RuntimeError, match="one example"):
        kept[0].tolist()
    shift = data(2)
    cached = []
    vmap(lambda v: (cached.append(shift * 2), v + cached[0])[1])(x)
    assert torch.equal(cached[0], shift * 2)  # it does not depend on the example


def test_after_an_error_everything_works():
    x = data(3, 2)
    try:
        vmap(lambda v: (v * 2) @ torch.ones(5))(x)
    except RuntimeError as error:
        kept = error  # with all its frames
    assert torch.equal(x + 0, x) and kept is not None


def test_a_recurrent_loop_is_done_example_by_example():
    net, x = torch.nn.LSTM(3, 4), data(2, 5, 3)
    with pytest.warns(UserWarning, match="no batching rule for time_loop"):
        found = vmap(lambda v: net(v)[0])(x)
    wanted = torch.stack([net(v)[0] for v in x])
    np.testing.assert_allclose(found.detach(), wanted.detach(), rtol=1e-4, atol=1e-5)


def test_a_look_is_refused_wherever_the_function_lies():
    place = f"{Path(torch.__file__).parent}_of_others/program.py"  # not the package's own
    names: dict = {}
    exec(compile("def look(x):\n    return x * x.item()", place, "exec"), names)
    with pytest.raises(RuntimeError, match=r"\.item\(\)"):
        torch.vmap(names["look"])(torch.arange(3.0))
