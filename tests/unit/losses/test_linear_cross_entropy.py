"""The fused loss: stored numbers, the plain loss, gradients of both orders, memory, errors."""

import gc
import itertools

import numpy as np
import pytest

import rushlight as torch
from rushlight.losses import by_classes, by_tokens, chunks
from rushlight.losses import fused_linear_cross_entropy as fused
from rushlight.losses.plain_linear_cross_entropy import plain_loss
from rushlight.runtime import buffer

nn, F = torch.nn, torch.nn.functional
loss_of = F.linear_cross_entropy


def wave(function, shape, step):
    return function(
        torch.arange(int(np.prod(shape)), dtype=torch.float64).reshape(shape) * step
    ).requires_grad_()


X, W = wave(torch.sin, (5, 3), 0.37), wave(torch.cos, (7, 3), 0.91)
BIAS = torch.arange(7, dtype=torch.float64) * 0.1 - 0.3
TARGET = torch.tensor([0, 3, -100, 6, 2])
CLASS_WEIGHT = torch.linspace(0.5, 1.5, 7, dtype=torch.float64)
SOFT = torch.softmax(wave(torch.sin, (5, 7), 0.7).detach(), -1)
GOLDEN = [
    ({}, 3.731365879872315),
    ({"reduction": "sum"}, 14.92546351948926),
    ({"linear_bias": BIAS}, 3.755409269720959),
    ({"weight": CLASS_WEIGHT}, 3.7632442131772277),
    ({"label_smoothing": 0.1}, 3.6161829530037033),
    ({"label_smoothing": 0.1, "weight": CLASS_WEIGHT}, 3.6555140460753184),
    ({"target": torch.tensor([0, 3, 1, 6, 2]), "ignore_index": 3}, 3.371479776045475),
    ({"target": SOFT}, 2.562099086305976),
    ({"target": SOFT, "label_smoothing": 0.2}, 2.5541505779847857),
    ({"z_loss_coef": 1.0}, 3.731365879872315 + 6.759452800885933),
]


@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("chunked", [True, False])
def test_golden_numbers(chunk, chunked):
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=chunk)
    for settings, want in GOLDEN:
        settings = {"target": TARGET, **settings}
        got = loss_of(X, W, **settings, options=options, chunked=chunked)
        assert got.item() == pytest.approx(want, abs=1e-13), settings
    each = loss_of(X, W, TARGET, reduction="none", options=options, chunked=chunked)
    want = [2.1289910976771607, 4.969952690265428, 0.0, 2.803832202679706, 5.022687528866966]
    np.testing.assert_allclose(each.detach().numpy(), want, atol=1e-13)


def test_golden_gradients():
    d_x, d_w = torch.autograd.grad(loss_of(X, W, TARGET), (X, W))
    want = [-0.23861069555399356, -0.05584740598419933, 0.17005847946843686]
    np.testing.assert_allclose(d_x[0].numpy(), want, atol=1e-14)
    assert (d_x[2] == 0).all()
    want = [-0.3375384146297623, -0.3908133412548467, -0.39119351552935067]
    np.testing.assert_allclose(d_w[3].numpy(), want, atol=1e-14)


def reference(x, w, target, bias, weight, reduction, smoothing, z_loss, softcap):
    logits = torch.einsum("nf,cdf->ncd", x, w)
    logits = logits if bias is None else logits + bias
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    loss = F.cross_entropy(
        logits, target, weight=weight, reduction=reduction, label_smoothing=smoothing
    )
    square = torch.logsumexp(logits, 1) ** 2
    valid = torch.ones_like(square) if target.is_floating_point() else (target != -100).double()
    square = square * valid
    if reduction == "none":
        return loss + z_loss * square
    total = square.sum()
    return loss + z_loss * (total / valid.sum() if reduction == "mean" else total)


CASES = list(itertools.product(["mean", "sum", "none"], [False, True], [(), (2,), (2, 3)]))


@pytest.fixture(params=["by tokens", "by classes"])
def order(request, monkeypatch):
    """The order of work. By classes: blocks of 3 tokens with 2 classes."""
    if request.param == "by classes":
        monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 6)
        monkeypatch.setattr(by_classes, "TOKENS_AT_ONCE", 4)
    return request.param


def options_of(order, tokens):
    cut = None if order == "by classes" else tokens
    return nn.LinearCrossEntropyOptions(batch_chunk_size=cut)


# By classes, where more is compiled, a third of the cases.
MIXED = [
    (number, case, order)
    for number, case in enumerate(CASES)
    for order in ("by tokens", "by classes")
    if order == "by tokens" or number % 3 == 1 or case == ("none", True, (2, 3))
]


@pytest.mark.parametrize(("number", "case", "order"), MIXED, indirect=["order"])
def test_equals_the_loss_of_full_logits(number, case, order):
    reduction, soft, places = case
    rng = np.random.default_rng(number)
    rows, classes, width, depth = 9, 6, 4, int(np.prod(places))
    x = torch.tensor(rng.standard_normal((rows, width))).requires_grad_()
    w = torch.tensor(rng.standard_normal((classes, *places, width))).requires_grad_()
    b = torch.tensor(rng.standard_normal((classes, *places))).requires_grad_()
    target = torch.tensor(rng.random((rows, classes, *places)))
    if not soft:
        hard = torch.tensor(rng.integers(0, classes, (rows, *places)))
        target = torch.where(torch.tensor(rng.random((rows, *places)) < 0.2), -100, hard)
    weight = torch.tensor(rng.random(classes)) if rng.integers(2) else None
    smoothing, z_loss = (float(rng.choice(c)) for c in ((0, 0.1), (0, 0.01)))
    softcap = rng.choice([None, 3.0])
    got = loss_of(
        x, w, target, linear_bias=b, weight=weight, reduction=reduction,
        label_smoothing=smoothing, z_loss_coef=z_loss, softcap=softcap,
        options=options_of(order, int(rng.integers(1, 10))),
    )  # fmt: skip
    flat = target.reshape(rows, classes, depth) if soft else target.reshape(rows, depth)
    want = reference(
        x, w.reshape(classes, depth, width), flat, b.reshape(classes, depth), weight, reduction,
        smoothing, z_loss, softcap,
    )  # fmt: skip
    assert got.shape == ((rows, *places) if reduction == "none" else ())
    up = torch.tensor(rng.standard_normal(got.shape))
    want = want.reshape(got.shape)
    assert torch.allclose(got, want, atol=1e-12)
    grads = torch.autograd.grad((got * up).sum(), (x, w, b), retain_graph=True)
    again = torch.autograd.grad((got * up).sum(), (x, w, b))
    wanted = torch.autograd.grad((want * up).sum(), (x, w, b))
    for one, two, three in zip(grads, again, wanted, strict=True):
        assert torch.allclose(one, three, atol=1e-12) and (one == two).all()


def test_second_order_gradients(order):
    settings = {"z_loss_coef": 0.1, "label_smoothing": 0.1, "weight": CLASS_WEIGHT}

    def f(x, w):
        return loss_of(x * x, w, TARGET, **settings)

    assert torch.autograd.gradcheck(f, (X, W))
    assert torch.autograd.gradgradcheck(f, (X, W))
    assert torch.autograd.gradgradcheck(
        lambda x, w: loss_of(x, w.sin(), TARGET, reduction="none"), (X, W)
    )


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_first_gradients_as_graphs_need_no_whole_logits(reduction, order, monkeypatch):
    """create_graph=True and func.grad use the plain form for the second gradient only."""
    asked = []

    def plain(*args):
        asked.append(1)
        return plain_loss(*args)

    monkeypatch.setattr(fused, "plain_loss", plain)

    def f(x, w):
        return loss_of(x, w, TARGET, reduction=reduction, options=options_of(order, 2)).sum()

    want = torch.autograd.grad(f(X, W), (X, W))
    got = torch.autograd.grad(f(X, W), (X, W), create_graph=True)
    by_func = torch.func.grad(f, (0, 1))(X.detach(), W.detach())
    for one, two, three in zip(want, got, by_func, strict=True):
        assert torch.allclose(one, two, atol=1e-14) and torch.allclose(one, three, atol=1e-14)
    assert not asked
    torch.autograd.grad(got[0].square().sum(), X)
    assert asked


def test_functional_transforms_equal_those_of_the_plain_form():
    batch = torch.stack([X.detach(), X.detach() * 0.5, X.detach() - 1])
    w = W.detach()

    def of(chunked):
        return lambda x, w: loss_of(x, w, TARGET, z_loss_coef=0.1, chunked=chunked)

    one, two = of(True), of(False)
    func = torch.func
    for transform in (
        lambda f: func.vmap(f, (0, None))(batch, w),
        lambda f: func.vmap(func.grad(f), (0, None))(batch, w),
        lambda f: func.hessian(f)(X.detach(), w),
        lambda f: func.jvp(f, (X.detach(), w), (batch[1], w.cos()))[1],
    ):
        assert torch.allclose(transform(one), transform(two), atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointed_loss_has_the_same_gradients(reduction, use_reentrant):
    def f(x, w):
        return loss_of(x, w, TARGET, reduction=reduction).sum()

    again = torch.utils.checkpoint.checkpoint(f, X, W, use_reentrant=use_reentrant)
    want = f(X, W)
    assert again == want
    again.backward()
    got, X.grad, W.grad = (X.grad, W.grad), None, None
    for one, two in zip(got, torch.autograd.grad(want, (X, W)), strict=True):
        assert (one == two).all()


def test_gradients_of_soft_targets_and_class_weights():
    soft, weight = SOFT.clone().requires_grad_(), CLASS_WEIGHT.clone().requires_grad_()
    got = torch.autograd.grad(loss_of(X, W, soft, weight=weight), (soft, weight))
    by_hand = -(F.log_softmax(F.linear(X, W), -1) * soft * weight).sum() / 5
    want = torch.autograd.grad(by_hand, (soft, weight))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b)


def test_inputs_of_any_rank():
    x, w = torch.randn(2, 3, 4), torch.randn(5, 4)
    target = torch.randint(0, 5, (2, 3))
    flat = loss_of(x.reshape(6, 4), w, target.reshape(6), reduction="none")
    assert (loss_of(x, w, target, reduction="none") == flat.reshape(2, 3)).all()
    soft = torch.softmax(torch.randn(2, 3, 5), -1)
    assert loss_of(x, w, soft, reduction="none").shape == (2, 3)
    assert loss_of(x[0, 0], w, torch.tensor(2)).shape == ()
    assert loss_of(x, w, target.to(torch.uint8)) == loss_of(x, w, target)


def test_nothing_to_average_is_nan_with_gradients_of_zero(order):
    loss = loss_of(X, W, torch.full((5,), -100), z_loss_coef=0.1)
    d_x, d_w = torch.autograd.grad(loss, (X, W))
    assert torch.isnan(loss) and (d_x == 0).all() and (d_w == 0).all()
    assert loss_of(X, W, torch.full((5,), -100), reduction="sum") == 0
    assert torch.isnan(loss_of(X[:0], W, TARGET[:0]))
    assert loss_of(X[:0], W, TARGET[:0], reduction="none").shape == (0,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_sums_in_float32(dtype, order):
    x = torch.randn(50, 16).to(dtype).requires_grad_()
    w = torch.randn(100, 16).to(dtype).requires_grad_()
    target = torch.randint(0, 100, (50,))
    loss = loss_of(x, w, target, options=options_of(order, 7))
    wanted = F.cross_entropy(F.linear(x.float(), w.float()), target)
    assert loss.dtype is dtype and torch.allclose(loss.float(), wanted, rtol=0.005)
    for got, want in zip(
        torch.autograd.grad(loss, (x, w)), torch.autograd.grad(wanted, (x, w)), strict=True
    ):
        assert got.dtype is dtype
        assert torch.allclose(got.float(), want.float(), rtol=0.01, atol=1e-5)


def test_at_most_16_mib_of_logits_at_once(monkeypatch):
    assert chunks.LOGITS_AT_ONCE * 4 == 16 << 20
    sizes = []
    for module in (by_tokens, by_classes):
        inner = module.logit_gradient
        monkeypatch.setattr(
            module,
            "logit_gradient",
            lambda z, *r, f=inner: sizes.append(tuple(z.shape)) or f(z, *r),
        )
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 40)
    loss_of(X, W, TARGET).backward(inputs=[X])
    assert sizes == [(5, 7)]
    sizes.clear()
    monkeypatch.setattr(fused, "FEW_TOKENS", 2)
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 20)
    torch.autograd.grad(loss_of(X, W, SOFT, label_smoothing=0.1, reduction="sum"), X)
    assert sizes == [(2, 7), (2, 7), (1, 7)]
    sizes.clear()
    monkeypatch.setattr(fused, "FEW_TOKENS", 3)
    torch.autograd.grad(loss_of(X, W, SOFT, label_smoothing=0.1, reduction="sum"), X)
    assert sizes == [(5, 4), (5, 3)]


@pytest.mark.parametrize("owner", ["rushlight", "numpy"])
def test_memory_above_gradients_is_a_few_chunks(owner, monkeypatch):
    """No copy of the weight or of its gradient, but one where numpy owns it."""
    rows, width, classes = 128, 512, 4000
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 32 * classes)
    monkeypatch.setattr(fused, "FEW_TOKENS", 1)
    x, w = torch.randn(rows, width, requires_grad=True), torch.randn(classes, width)
    if owner == "numpy":
        w = torch.from_numpy(w.numpy())
    w.requires_grad_()
    target = torch.randint(0, classes, (rows,))
    torch.autograd.grad(loss_of(x, w, target), (x, w))  # constants are made, code is compiled
    gc.collect()
    torch.flush()
    before = buffer.memory_allocated()
    buffer.reset_peak()
    loss = loss_of(x, w, target)
    loss.backward()
    torch.flush()
    gradients = 4 * (x.numel() + w.numel())
    above = buffer.max_memory_allocated() - before - gradients
    copies = 4 * w.numel() * (owner == "numpy")  # the weight is as large as 16 chunks
    assert above < copies + 5 * 4 * 32 * classes


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
def test_logits_that_are_not_finite_are_as_in_the_plain_form(value, order):
    bias = torch.zeros(7, dtype=torch.float64)
    bias[3] = value
    settings = {"linear_bias": bias, "reduction": "none"}
    options = options_of(order, 2)
    got = loss_of(X, W, TARGET, options=options, **settings)
    want = loss_of(X, W, TARGET, chunked=False, **settings)
    assert torch.allclose(got, want, equal_nan=True)


def test_module_in_both_spellings():
    loss = nn.LinearCrossEntropyLoss(hidden_size=4, vocab_size=9, z_loss_coef=0.1, bias=True)
    assert list(loss.state_dict()) == ["linear.weight", "linear.bias"]
    x, target = torch.randn(2, 3, 4), torch.randint(0, 9, (2, 3))
    w, b = loss.linear.weight, loss.linear.bias
    assert loss(x, target) == loss_of(x, w, target, linear_bias=b, z_loss_coef=0.1)
    deep = nn.LinearCrossEntropyLoss(4, 3, out_features=(2,), weight=torch.ones(3))
    assert deep.linear.weight.shape == (6, 4)
    assert deep(torch.randn(5, 4), torch.zeros(5, 2, dtype=torch.int64)).shape == ()
    for settings in (
        {"in_features": 4, "hidden_size": 4, "num_classes": 3},
        {"in_features": 4},
        {},
    ):
        with pytest.raises(TypeError, match="and its other name"):
            nn.LinearCrossEntropyLoss(**settings)


def test_tied_embedding_gets_both_gradients():
    embedding = nn.Embedding(7, 3)
    loss = nn.LinearCrossEntropyLoss(3, 7, weight=embedding.weight)
    assert loss.linear.weight is embedding.weight
    tokens = torch.tensor([[1, 2], [3, 4]])
    loss(embedding(tokens), tokens).backward()
    got = embedding.weight.grad.clone()
    embedding.weight.grad = None
    logits = embedding(tokens) @ embedding.weight.transpose(0, 1)
    F.cross_entropy(logits.reshape(4, 7), tokens.reshape(4)).backward()
    assert torch.allclose(got, embedding.weight.grad, atol=1e-6)


def test_compiled_training_step_equals_lazy_one():
    x, target = torch.randn(5, 3), torch.tensor([0, 3, 1, -100, 2])

    def losses(wrap):
        torch.manual_seed(1)
        loss = nn.LinearCrossEntropyLoss(3, 7, z_loss_coef=0.01, label_smoothing=0.1)
        optimizer = torch.optim.SGD(loss.parameters(), lr=0.1)

        def step(x, target):
            value = loss(x, target)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value.detach()

        step = wrap(step)
        return [step(x, target).item() for _ in range(3)]

    assert losses(torch.compile) == losses(lambda f: f)


def test_target_out_of_bounds_names_the_position():
    with pytest.raises(IndexError, match=r"Target 7 is out of bounds.*position \(1, 2\)"):
        loss_of(X.reshape(1, 5, 3)[:, :3].expand(2, 3, 3), W, torch.tensor([[0, 1, 2], [3, 4, 7]]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64])
def test_logits_that_are_no_real_numbers_are_refused(dtype):
    with pytest.raises(NotImplementedError, match=f"for '{dtype.scalar_name}'"):
        loss_of(torch.ones(3, 4).to(dtype), torch.ones(5, 4).to(dtype), torch.arange(3))


def test_options_are_checked():
    conflict = nn.LinearCrossEntropyOptions(batch_chunk_size=4, chunking_method="aspect_ratio")
    with pytest.raises(ValueError, match="pass only one"):
        loss_of(X, W, TARGET, options=conflict)
    for field, value in (
        ("acc_policy", "x"), ("chunking_method", "aspect_ratio:0"), ("batch_chunk_size", 0),
        ("acc_dtype", torch.int32),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=field):
            nn.LinearCrossEntropyOptions(**{field: value})
    for method in ("aspect_ratio", "aspect_ratio:2", None):
        options = nn.LinearCrossEntropyOptions(chunking_method=method)
        assert loss_of(X, W, TARGET, options=options).item() == pytest.approx(GOLDEN[0][1])


def test_hidden_states_are_released_after_backward():
    """Nothing but the gradients stays: the context of the function is in no cycle."""
    x = torch.randn(5, 3, requires_grad=True)
    loss = loss_of(x, W.detach().float(), TARGET)
    fn = loss.grad_fn
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        fn.saved_tensors()
