"""Gradients by Rushlight and by PyTorch: first and second order, in-place, views, hooks."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402

SETUP = """
F = torch.nn.functional
def arr(*shape, seed=0, low=-2.0, high=2.0, grad=True):
    rng = np.random.default_rng(seed)
    t = torch.tensor(rng.uniform(low, high, shape), dtype=torch.float64)
    return t.requires_grad_() if grad else t
x = arr(3, 4)
y = arr(3, 4, seed=1)
v = arr(4, seed=2)
p = arr(3, 4, low=0.2, high=2.0, seed=3)
b3 = arr(2, 3, 4, seed=4)
img = arr(1, 2, 5, 5, seed=5)
ker = arr(3, 2, 3, 3, seed=6)
z = arr(seed=7)
ix = torch.tensor([2, 0, 2])
m = x.detach() > 0
"""

VALUES = """
x + y
x - v
x * y
x * 2.5
x / p
1 / p
x ** 3
p ** y
2.0 ** x
x.exp() * y.sin()
p.log() + p.sqrt()
x.tanh() * x.sigmoid()
x.relu()
x.abs()
x.square()
p.rsqrt() + p.reciprocal()
x.clamp(-1, 1)
torch.maximum(x, y)
torch.where(m, x, y)
torch.where(m, x, 0.0)
x.lerp(y, 0.3)
torch.addcmul(x, y, p, value=0.7)
torch.addcdiv(x, y, p)
torch.atan2(x, y)
x.erf() + p.lgamma()
x.expm1() + p.log1p()
x @ v
x @ y.T
b3 @ b3.mT
b3 @ v
v @ v
v @ x.T
x.sum(0)
x.mean(1, keepdim=True)
x.prod(1)
x.var(1)
x.std(0)
x.norm()
x.norm(dim=1)
x.norm(3)
x.amax(1)
x.max(1).values
x.max()
x.min(0)[0]
x.median(1)[0]
x.logsumexp(1)
x.softmax(1)
x.log_softmax(0)
x.cumsum(1)
p.cumprod(1)
x.sort(1)[0]
x.topk(2)[0]
x.t()
x.view(4, 3) * 2
x.reshape(-1)[2:7]
x[1]
x[:, ::2]
x[ix]
x[m]
x[ix, [0, 1, 1]]
x[None, :, 1]
x.expand(2, 3, 4)
x.unsqueeze(1) * y
x.diagonal()
x.unfold(1, 2, 1)
x.split(2)[1]
x.unbind(1)[2]
b3.permute(2, 0, 1)
torch.cat([x, y], 1)
torch.stack([x, y])
x.repeat(2, 2)
x.flip(0)
x.roll(1, 0)
x.tril()
x.gather(1, m.long())
x.scatter(1, m.long()[:, :1], y[:, :1])
x.scatter_add(1, m.long(), y)
x.index_select(0, ix)
x.index_add(0, ix, y)
x.masked_fill(m, 0)
x.masked_select(m)
torch.einsum('ij,kj->ik', x, y)
torch.outer(v, v)
torch.diag(v)
x.to(torch.float32)
F.gelu(x)
F.gelu(x, approximate='tanh')
F.silu(x) + F.mish(x)
F.elu(x) + F.softplus(x)
F.leaky_relu(x) + F.hardtanh(x)
F.logsigmoid(x)
F.glu(x)
F.linear(x, y, v[:3])
F.layer_norm(x, (4,), v, v)
F.rms_norm(x, (4,), v)
F.group_norm(b3.mT, 2, v, v)
F.batch_norm(x, None, None, v, v, training=True)
F.cross_entropy(x, torch.tensor([0, 3, 1]))
F.cross_entropy(x, torch.tensor([0, 3, 1]), label_smoothing=0.1, reduction='none')
F.cross_entropy(x, y.softmax(1))
F.nll_loss(x.log_softmax(1), torch.tensor([0, 3, 1]))
F.mse_loss(x, y)
F.l1_loss(x, y)
F.smooth_l1_loss(x, y)
F.huber_loss(x, y)
F.binary_cross_entropy(x.sigmoid(), y.sigmoid())
F.binary_cross_entropy_with_logits(x, y.sigmoid())
F.kl_div(x.log_softmax(1), y.softmax(1), reduction='sum')
F.cosine_similarity(x, y)
F.normalize(x)
F.pad(x, (1, 1))
F.pad(x, (1, 1), mode='reflect')
F.embedding(ix, x)
F.embedding(ix, x, padding_idx=0)
F.conv2d(img, ker, v[:3], stride=2, padding=1)
F.conv1d(b3, arr(2, 3, 2, seed=9))
F.conv_transpose2d(img, arr(2, 2, 2, 2, seed=9), stride=2)
F.max_pool2d(img, 2)
F.avg_pool2d(img, 2)
F.adaptive_avg_pool2d(img, 2)
F.interpolate(img, scale_factor=2)
F.scaled_dot_product_attention(b3, b3, b3, is_causal=True)
a = x * 1; a += y; a
a = x * 1; a.mul_(y).add_(1); a
a = x * 1; a[0] = v; a
a = x * 1; a[:, 1] *= 2; a
a = x * 1; a[m] = 0; a
a = x * 1; a[ix[:2]] = y[:2]; a
a = x * 1; b = a[0]; b.mul_(v); a * b
a = x * 1; b = a.view(-1); a.mul_(2); b ** 2
a = x * 1; a.exp_(); a * 2
a = x * 1; a.zero_(); a + y
a = x * 1; a.t()[0].add_(v[:3]); a ** 2
a = torch.zeros(3, 4, dtype=torch.float64); a[1] = v; a * y
a = torch.zeros(3, 4, dtype=torch.float64); a.copy_(x); a * y
a = x * 1; a.diagonal().mul_(3); a
a = x.detach(); a * y
(x * y).detach() * x
x * z
x + x + x
""".strip().splitlines()
# PyTorch gives zero tensors here that numpy cannot read.
FIRST_ORDER = ("x.abs()", "F.l1_loss(x, y)")
LEAVES = ("x", "y", "v", "p", "b3", "img", "ker", "z")


def evaluate(module, text):
    space = {"torch": module, "np": np}
    exec(SETUP, space)
    *statements, last = [part.strip() for part in text.split(";")]
    for statement in statements:
        exec(statement, space)
    out = eval(last, space)
    weights = module.tensor(np.random.default_rng(8).uniform(0.5, 1.5, tuple(out.shape)))
    return space, (out.double() * weights).sum()


def grads(module, text, order):
    space, loss = evaluate(module, text)
    leaves = [space[name] for name in LEAVES]
    if order == 1:
        loss.backward()
        return [t.grad for t in leaves]
    first = module.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    total = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
    if isinstance(total, int):
        return [None] * len(leaves)
    return module.autograd.grad(total, leaves, allow_unused=True)


def check(text, order, tolerance):
    ours, theirs = grads(rushlight, text, order), grads(torch, text, order)
    for name, a, b in zip(LEAVES, ours, theirs, strict=True):
        if b is None or a is None:
            # PyTorch may give None or zeros where nothing depends.
            rest = a if b is None else b
            assert rest is None or not np.any(rest.detach().numpy()), name
            continue
        assert tuple(a.shape) == tuple(b.shape) and repr(a.dtype) == repr(b.dtype)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), tolerance, tolerance)


@pytest.mark.parametrize("text", VALUES)
def test_gradient_is_pytorchs(text):
    check(text, 1, 1e-5 if "float32" in text else 1e-9)


@pytest.mark.parametrize("text", [t for t in VALUES if t not in FIRST_ORDER and "float32" not in t])
def test_second_gradient_is_pytorchs(text):
    check(text, 2, 1e-7)


PROGRAMS = """
a = (x * 2); l = a.sum(); l.grad_fn.name()
a = x * y; [n[0].name() for n in a.grad_fn.next_functions]
a = x * 2; [n[0] is None for n in a.grad_fn.next_functions]
a = x.view(-1); (a.grad_fn.name(), a._is_view(), a._base is x)
x.t().grad_fn.name()
x[0].grad_fn.name()
x.sum(0).grad_fn.name()
x.mean().grad_fn.name()
x.exp().grad_fn.name()
(x @ y.T).grad_fn.name()
x.unsqueeze(0).grad_fn.name()
x.expand(2, 3, 4).grad_fn.name()
x.clone().grad_fn.name()
seen = []; h = x.register_hook(lambda g: seen.append(g.sum().item())); (x * 2).sum().backward(); seen
h = x.register_hook(lambda g: g * 3); (x * 2).sum().backward(); x.grad.tolist()
a = x * 2; h = a.register_hook(lambda g: g * 5); h.remove(); a.sum().backward(); x.grad.tolist()
a = x * 2; a.retain_grad(); (a * y).sum().backward(); a.grad.tolist()
seen = []; x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.shape)); x.sum().backward(); seen
x.sum().backward(); x.sum().backward(); x.grad.tolist()
x.sum().backward(); g = x.grad; (x * 2).sum().backward(); g.tolist()
torch.autograd.grad(x.sum(), [x, y], allow_unused=True)[1]
torch.autograd.grad(x.sum(), [x, y], materialize_grads=True)[1].tolist()
(x * y).sum().backward(inputs=[x]); (x.grad is None, y.grad is None)
l = (x * y).sum(); l.backward(retain_graph=True); l.backward(); x.grad.tolist()
x.backward(torch.ones_like(x)); x.grad.tolist()
a = x.detach(); (a.requires_grad, a.is_leaf)
a = x * 1; b = a.view(-1); n0 = a._version; b[0] = 1; (n0, a._version, b._version)
a = x * 1; a[0] = 1; (a.grad_fn.name(), a.requires_grad)
a = torch.zeros(3, 4); a[0] = x[0].float(); (a.requires_grad, a.is_leaf)
with_no = torch.no_grad(); with_no.__enter__(); a = x * 2; with_no.__exit__(None, None, None); a.requires_grad
torch.no_grad()(lambda: (x * 2).requires_grad)()
torch.inference_mode()(lambda: (x * 2).is_inference())()
torch.set_grad_enabled(False); a = (x * 2).requires_grad; torch.set_grad_enabled(True); a
x.is_leaf, (x * 2).is_leaf, x.requires_grad
(x > 0).requires_grad
x.argmax().requires_grad
torch.autograd.gradcheck(lambda a, b: (a * b.exp()).sum(0), (x, y))
torch.autograd.gradgradcheck(lambda a: (a ** 3).sum(1), (x,))
F.dropout(x, 1.0).sum().backward(); x.grad.tolist()
""".strip().splitlines()  # noqa: E501  (one program a line)


def program(module, text):
    space = {"torch": module, "np": np}
    exec(SETUP, space)
    *statements, last = [part.strip() for part in text.split(";")]
    for statement in statements:
        exec(statement, space)
    return eval(last, space)


@pytest.mark.parametrize("text", PROGRAMS)
def test_program_gives_what_pytorch_gives(text):
    ours, theirs = program(rushlight, text), program(torch, text)
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], list | float):
        np.testing.assert_allclose(ours, theirs, 1e-6)
    else:
        assert ours == theirs


def functions(module):
    class Cube(module.autograd.Function):
        @staticmethod
        def forward(ctx, a, scale):
            ctx.save_for_backward(a)
            ctx.scale = scale
            return a**3 * scale

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return g * 3 * a**2 * ctx.scale, None

    class Split(module.autograd.Function):
        @staticmethod
        def forward(a):
            return a * 2, a.argmax()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, unused):
            return g * 2

    class Double_(module.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = module.tensor([1.0, -2.0, 3.0], dtype=module.float64, requires_grad=True)
    first = Cube.apply(x, 0.5)
    (g,) = module.autograd.grad(first.sum(), x, create_graph=True)
    (g2,) = module.autograd.grad((g * g).sum(), x)
    a, place = Split.apply(x)
    a.sum().backward()
    b = x * 1
    c = Double_.apply(b)
    c.sum().backward()
    return [
        first.grad_fn.name(),
        g.tolist(),
        g2.tolist(),
        place.requires_grad,
        x.grad.tolist(),
        b.tolist(),
    ]


def test_custom_functions():
    ours, theirs = functions(rushlight), functions(torch)
    for a, b in zip(ours, theirs, strict=True):
        assert a == (pytest.approx(b) if isinstance(b, list) else b)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant):
    def train(module):
        checkpoint = __import__(f"{module.__name__}.utils.checkpoint", fromlist=["checkpoint"])
        w = module.tensor([1.0, 2.0], dtype=module.float64, requires_grad=True)
        x = module.tensor([3.0, -1.0], dtype=module.float64, requires_grad=True)
        runs = []

        def f(a):
            runs.append(1)
            return (a * w).sin() * a.exp()

        out = checkpoint.checkpoint(f, x, use_reentrant=reentrant)
        out.sum().backward()
        return x.grad.tolist(), w.grad.tolist(), len(runs)

    ours, theirs = train(rushlight), train(torch)
    assert ours[0] == pytest.approx(theirs[0]) and ours[1] == pytest.approx(theirs[1])
    assert ours[2] == theirs[2] == 2
