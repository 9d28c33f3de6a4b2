"""torch.func, autograd.functional and forward_ad against PyTorch: values, graphs and errors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402

SETUP = """
func, AF, fw = torch.func, torch.autograd.functional, torch.autograd.forward_ad
def arr(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).uniform(0.3, 1.5, shape))
x, y, v = arr(3), arr(2, 3, seed=1), arr(3, seed=2)
xg = arr(3).requires_grad_()
i = torch.tensor([1, 2])
def one(a): return (a ** 3).sum()
def vec(a): return a.exp() * a.flip(0)
def two(a, b): return (b @ a).sin(), (a * b).sum(0)
def sca(a, b): return (b @ a).cos().sum() * a.prod()
def aux(a): return vec(a), a * 2
def tree(d): return {"s": d["p"].sin() * d["q"].sum(), "t": (d["p"] @ d["p"],)}
d = {"p": x, "q": y}
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.BatchNorm1d(4)).double()
with torch.no_grad():
    for n, p in enumerate(net.parameters()): p.copy_(arr(*p.shape, seed=20 + n))
params = {k: p.detach() for k, p in net.named_parameters()}
rows = arr(5, 3, seed=4)
def both(p, b): return func.functional_call(net.eval(), (p, b), (rows,))
def loss(p, r): return func.functional_call(net.eval(), p, (r[None],)).sum()
"""
VALUES = """
func.grad(one)(x)
func.grad(sca, argnums=1)(x, y)
func.grad(sca, argnums=(0, 1))(x, y)
func.grad(sca, argnums=(-1,))(x, y)
func.grad(lambda a: (one(a), a * 2), has_aux=True)(x)
func.grad_and_value(one)(x)
func.grad_and_value(lambda a: (one(a), a * 2), has_aux=True)(x)
func.grad(lambda a: one(a) + x.sum())(x)
func.grad(lambda a: func.grad(one)(a).sum())(x)
func.grad(lambda p: tree(p)["t"][0])(d)
func.vjp(vec, x)[1](v)
func.vjp(two, x, y)[1]((arr(2), v))
func.vjp(aux, x, has_aux=True)[1](v), func.vjp(aux, x, has_aux=True)[2]
func.vjp(tree, d)[1]({"s": v, "t": (torch.tensor(2.0, dtype=torch.float64),)})
func.jvp(vec, (x,), (v,))
func.jvp(two, (x, y), (v, y))
func.jvp(aux, (x,), (v,), has_aux=True)
func.jvp(lambda a: func.jvp(vec, (a,), (v,))[1], (x,), (v,))
func.jvp(lambda a: func.grad(one)(a), (x,), (v,))
func.jvp(lambda a: a * 2 + x, (x,), (v,))
func.jvp(lambda a: x * 2, (x,), (v,))
func.linearize(vec, x)[1](v)
func.linearize(two, x, y)[0]
func.linearize(two, x, y)[1](v, y)
func.linearize(tree, d)[1]({"p": v, "q": y})
func.jacrev(vec)(x)
func.jacrev(two, argnums=(0, 1))(x, y)
func.jacrev(two, argnums=1, chunk_size=1)(x, y)
func.jacrev(aux, has_aux=True)(x)
func.jacrev(tree)(d)
func.jacfwd(vec)(x)
func.jacfwd(two, argnums=(0, 1))(x, y)
func.jacfwd(two, argnums=(1,))(x, y)
func.jacfwd(aux, has_aux=True)(x)
func.jacfwd(tree)(d)
func.hessian(one)(x)
func.hessian(sca, argnums=(0, 1))(x, y)
func.jacfwd(func.jacfwd(vec))(x)
func.jacrev(func.jacrev(func.jacrev(vec)))(x)
func.vmap(func.grad(one))(y)
func.vmap(func.hessian(one))(y)
func.vmap(func.jacrev(vec))(y)
func.vmap(func.jvp, in_dims=(None, 0, 0))(vec, (y,), (y,))
func.vmap(func.grad(loss), in_dims=(None, 0))(params, rows)
func.functional_call(net.eval(), params, (rows,))
func.functional_call(net.train(), (params, dict(net.named_buffers())), (rows,))
func.functional_call(net.eval(), {"0.bias": torch.zeros(4).double()}, (rows,))
func.stack_module_state([net, net])
func.vmap(both)(*func.stack_module_state([net, net]))
AF.vjp(vec, x, v)
AF.vjp(two, (x, y), (arr(2), v))
AF.vjp(one, x)
AF.vjp(vec, xg, v, create_graph=True)
AF.vjp(vec, xg, v)
AF.jvp(vec, x, v)
AF.jvp(two, (x, y), (v, y))
AF.jvp(vec, xg, v, create_graph=True)
AF.jvp(vec, x, v, strict=True)
AF.jacobian(vec, x)
AF.jacobian(two, (x, y))
AF.jacobian(two, (x, y), vectorize=True)
AF.jacobian(two, (x, y), vectorize=True, strategy="forward-mode")
AF.jacobian(vec, xg, create_graph=True)
AF.jacobian(vec, xg, create_graph=True, vectorize=True)
AF.jacobian(vec, x, strict=True)
AF.jacobian(lambda a: y.sum(0), x)
AF.jacobian(lambda a, b: a * 2, (x, y))
AF.hessian(one, x)
AF.hessian(sca, (x, y))
AF.hessian(sca, (x, y), vectorize=True)
AF.hessian(one, xg, create_graph=True)
AF.hessian(lambda a: a.sum(), x)
AF.hvp(one, x, v)
AF.hvp(sca, (x, y), (v, y))
AF.hvp(one, xg, v, create_graph=True)
AF.vhp(one, x, v)
AF.vhp(sca, (x, y), (v, y))
AF.vhp(one, xg, v, create_graph=True)
AF.hvp(one, x, v, strict=True)
""".strip().splitlines()
ERRORS = """
func.grad(vec)(x)
func.grad(lambda a: 3.0)(x)
func.grad(one, argnums=2)(x)
func.grad(lambda a: one(a), has_aux=True)(x)
func.grad(one)(3.0)
func.vjp(vec, 3.0)
func.vjp(lambda a: 3.0, x)
func.vjp(vec, x)[1]((v, v))
func.vjp(vec, x)[1](y)
func.jvp(vec, x, v)
func.jvp(vec, (x,), (v, v))
func.jvp(vec, (x,), v)
func.jvp(vec, (x,), (y,))
func.jvp(lambda a: 3.0, (x,), (v,))
func.jacrev(lambda a: 3.0)(x)
func.jacrev(vec, argnums=2)(x)
func.jacrev(vec, chunk_size=-1)(x)
func.jacfwd(vec, argnums=2)(x)
func.jacfwd(lambda a: 3.0)(x)
func.grad(lambda a: a.sum())(i)
func.functional_call(net, 3, (rows,))
func.stack_module_state([])
AF.vjp(vec, x)
AF.vjp(vec, x, y)
AF.vjp(vec, (x, 3), v)
AF.vjp(lambda a: 3, x)
AF.jvp(vec, x)
AF.jvp(vec, x, y)
AF.jacobian(vec, x, strict=True, vectorize=True)
AF.jacobian(vec, x, vectorize=False, strategy="forward-mode")
AF.jacobian(vec, x, strategy="no")
AF.jacobian(lambda a: a.detach(), x, strict=True)
AF.jacobian(lambda a: 3, x)
AF.jacobian(lambda a, b: a * 2, (x, y), strict=True)
AF.hessian(vec, x)
AF.hessian(lambda a: a.sum(), x, strict=True)
AF.hessian(one, x, vectorize=False, outer_jacobian_strategy="forward-mode")
AF.hvp(vec, x, v)
AF.hvp(one, x)
AF.hvp(one, x, y)
AF.hvp(lambda a: a.sum(), x, v, strict=True)
AF.vhp(vec, x, v)
AF.vhp(lambda a: a.sum(), x, v, strict=True)
AF.vjp(lambda a: y.sum(0), x, v, strict=True)
AF.jvp(lambda a: y.sum(0), x, v, strict=True)
AF.vjp(lambda a, b: a * 2, (x, y), v, strict=True)
fw.make_dual(x, v)
fw.exit_dual_level()
func.vmap(vec, in_dims=(0, 0))(x)
func.vmap(vec, in_dims=3)(y)
func.vmap(vec, out_dims=(0, 0))(y)
func.vmap(vec, out_dims=5)(y)
func.vmap(vec)(torch.tensor(1.0))
func.vmap(lambda a: a.sum().item())(y)
func.vmap(lambda a: torch.rand(2))(y)
func.vmap(vec, randomness="no")(y)
func.vmap(vec, chunk_size=0)(y)
func.vmap(lambda: 1)()
""".strip().splitlines()


def evaluate(module, text):
    space = {"torch": module, "np": np}
    exec(SETUP, space)
    return eval(text, space)


def flat(value):
    """Tensors as (dtype, has a graph, array), in order."""
    if isinstance(value, dict):
        return [part for key in value for part in flat(value[key])]
    if isinstance(value, tuple | list):
        return [part for item in value for part in flat(item)]
    return [(str(value.dtype), value.requires_grad, value.detach().numpy())]


@pytest.mark.parametrize("text", VALUES)
def test_values_are_pytorchs(text):
    ours, theirs = flat(evaluate(rushlight, text)), flat(evaluate(torch, text))
    assert [a[:2] for a in ours] == [b[:2] for b in theirs]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a[2], b[2], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("text", ERRORS)
def test_what_pytorch_refuses_is_refused(text):
    with pytest.raises(Exception) as theirs:
        evaluate(torch, text)
    with pytest.raises(Exception) as ours:
        evaluate(rushlight, text)
    assert type(ours.value).__name__ == type(theirs.value).__name__, (ours.value, theirs.value)
