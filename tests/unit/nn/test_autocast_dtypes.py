"""Autocast on the CPU: the dtype of each function's result, by PyTorch's lists.

Run on PyTorch too: python -m pytest -p tests.on_torch tests/unit/nn/test_autocast_dtypes.py
"""

import pytest

import rushlight as torch

F, nn = torch.nn.functional, torch.nn
LOW = torch.bfloat16
# Computed in the low dtype, whatever comes in.
LOWERED = """
m @ m2
torch.matmul(m, m2)
torch.mm(m, m2)
torch.matmul(m, v)
torch.matmul(v, v2)
torch.inner(m, m2)
torch.bmm(b, b2)
torch.addmm(m, m2, m)
torch.addbmm(m, b, b2)
torch.baddbmm(b, b, b2)
torch.chain_matmul(m, m2, m)
torch.linalg.multi_dot([m, m2, m])
torch.linalg.vecdot(m, m2)
torch.tensordot(m, m2, 1)
torch.einsum("ij,jk->ik", m, m2)
torch.einsum("i,i->", v, v2)
torch.linalg.matmul(m, m2)
torch.linalg.matrix_power(m, 3)
torch.matrix_power(m, 2)
torch.cov(m)
torch.corrcoef(m)
F.linear(m, m2)
F.linear(m, m2, v)
F.linear(v, m2, v)
F.conv1d(x, w1)
F.conv1d(x, w1, bi)
F.conv1d(x, w1, padding="same")
F.conv2d(i2, w2)
F.conv2d(i2, w2, padding="same")
F.conv3d(i3, w3)
F.conv_transpose1d(x, t1)
F.conv_transpose2d(i2, t2)
F.conv_transpose3d(i3, t3)
F.prelu(i2, r(2))
F.prelu(i2, r(1))
nn.PReLU().to(v.dtype)(i2)
F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q, q, q, is_causal=True)
nn.MultiheadAttention(8, 2).to(v.dtype)(r(4,1,8), r(4,1,8), r(4,1,8))[0]
nn.MultiheadAttention(8, 2).to(v.dtype)(r(4,1,8), r(4,1,8), r(4,1,8))[1]
nn.MultiheadAttention(8, 2).to(v.dtype)(r(4,1,8), r(4,1,8), r(4,1,8), need_weights=False)[0]
nn.MultiheadAttention(8, 2).to(v.dtype).eval()(r(4,1,8), r(4,1,8), r(4,1,8))[0]
nn.RNN(3, 4).to(v.dtype)(b)[0]
nn.RNN(3, 4).to(v.dtype)(b)[1]
nn.LSTM(3, 4).to(v.dtype)(b)[0]
nn.LSTM(3, 4).to(v.dtype)(b)[1][0]
nn.LSTM(3, 4).to(v.dtype)(b)[1][1]
nn.LSTM(3, 4, num_layers=2, bidirectional=True).to(v.dtype)(b)[0]
nn.LSTM(3, 4, proj_size=2).to(v.dtype)(b)[0]
nn.LSTM(3, 4, bias=False).to(v.dtype)(b)[0]
nn.RNN(3, 4, nonlinearity="relu").to(v.dtype)(b)[0]
nn.RNNCell(3, 4).to(v.dtype)(m)
nn.RNNCell(3, 4, nonlinearity="relu").to(v.dtype)(m)
nn.LSTM(3, 4).to(v.dtype)(b, (r(1,3,4), r(1,3,4)))[0]
torch.rnn_tanh_cell(m, r(3,4), r(4,3), r(4,4), r(4), r(4))
nn.Linear(3, 4).to(v.dtype)(m)
nn.Conv2d(2, 3, 3).to(v.dtype)(i2)
F.affine_grid(r(1,2,3), [1,2,3,3])
m.matmul(m2)
m.mm(m2)
m.__matmul__(m2)
m.addmm(m, m2)
nn.ConvTranspose2d(2, 3, 3)(i2)
nn.Conv1d(2, 3, 3, padding_mode="reflect", padding=1)(x)
nn.Conv1d(2, 3, 3, padding_mode="circular", padding=1)(x)
"""
# Of low operands: computed in float32.
RAISED = """
F.avg_pool3d(i3.to(LOW), 2)
F.max_pool3d(i3.to(LOW), 2)
F.adaptive_avg_pool3d(i3.to(LOW), 2)
F.adaptive_max_pool3d(i3.to(LOW), 2)
F.lp_pool3d(i3.to(LOW), 2, 2)
F.max_unpool1d(*F.max_pool1d(x.to(LOW), 2, return_indices=True), 2)
F.max_unpool2d(*F.max_pool2d(i2.to(LOW), 2, return_indices=True), 2)
F.max_unpool3d(*F.max_pool3d(i3.to(LOW), 2, return_indices=True), 2)
F.grid_sample(i2.to(LOW), r(1,3,3,2).to(LOW))
F.grid_sample(i2, r(1,3,3,2).to(LOW))
F.grid_sample(i3.to(LOW), r(1,3,3,3,3).to(LOW))
F.pad(x.to(LOW), (1,1), mode="reflect")
F.pad(i2.to(LOW), (1,1,1,1), mode="reflect")
F.pad(x.to(LOW), (1,1), mode="replicate")
F.pad(i2.to(LOW), (1,1,1,1), mode="replicate")
F.pad(i3.to(LOW), (1,1,1,1,1,1), mode="replicate")
torch.trace(low)
low.trace()
torch.prod(low)
torch.prod(low, 0)
low.prod()
low.prod(dim=1, keepdim=True)
torch.quantile(low, 0.5)
torch.nanquantile(low, 0.5)
torch.quantile(low, torch.tensor([0.5]), 0)
low.quantile(0.5)
torch.cdist(low, low)
torch.cdist(m, low)
torch.linalg.cond(low)
torch.linalg.cond(low, 1)
torch.linalg.cholesky(spd.to(LOW))
torch.cholesky(spd.to(LOW))
torch.linalg.cholesky_ex(spd.to(LOW))[0]
torch.cholesky_inverse(spd.to(LOW))
torch.cholesky_solve(low, spd.to(LOW))
torch.inverse(spd.to(LOW))
torch.linalg.inv(spd.to(LOW))
torch.linalg.inv_ex(spd.to(LOW))[0]
torch.pinverse(low)
torch.linalg.solve(spd.to(LOW), low)
torch.linalg.solve(spd, low)
torch.triangular_solve(low, spd.to(LOW))[0]
torch.linalg.lstsq(low, low)[0]
torch.lu(spd.to(LOW))[0]
torch.linalg.qr(low)[0]
torch.qr(low)[0]
torch.geqrf(low)[0]
torch.orgqr(low, lv)
torch.ormqr(low, lv, low)
torch.linalg.householder_product(low, lv)
torch.linalg.svd(low)[1]
torch.svd(low)[1]
torch.linalg.svdvals(low)
torch.svd_lowrank(low, 2)[1]
torch.pca_lowrank(low, 2)[1]
torch.svd_lowrank(m, 2)[1]
torch.linalg.eigh(low)[0]
torch.linalg.eigvalsh(low)
torch.linalg.tensorinv(torch.eye(4).reshape(2,2,2,2).to(LOW), 2)
torch.linalg.tensorsolve(torch.eye(4).reshape(2,2,2,2).to(LOW), r(2,2).to(LOW))
torch.fft.irfft(lv)
torch.fft.hfft(lv)
torch.fft.irfft2(low)
torch.fft.irfftn(low)
F.mse_loss(low, low)
F.mse_loss(low, m)
F.mse_loss(low, low, reduction="none")
F.l1_loss(low, low)
F.smooth_l1_loss(low, low)
F.huber_loss(low, low)
F.kl_div(low, low)
F.nll_loss(low, lab)
F.nll_loss(r(1,3,2,2).to(LOW), torch.zeros(1,2,2).long())
F.cross_entropy(low, lab)
F.cross_entropy(low, low)
F.cross_entropy(low, lab, weight=lv)
F.binary_cross_entropy(low, low)
F.binary_cross_entropy_with_logits(low, low)
F.poisson_nll_loss(low, low)
F.hinge_embedding_loss(low, low)
F.cosine_embedding_loss(low, low, one.to(LOW))
F.margin_ranking_loss(lv, lv, lv)
F.soft_margin_loss(low, low)
F.triplet_margin_loss(low, low, low)
F.multi_margin_loss(low, lab)
F.multilabel_margin_loss(low, lab[None].expand(3,3))
F.ctc_loss(lp.to(LOW), tg, il, tl)
F.ctc_loss(lp.to(LOW), tg, (5,5), (2,2))
F.local_response_norm(i2.to(LOW), 2)
low.svd()[1]
low.qr()[0]
low.pinverse()
torch.nn.functional.cosine_embedding_loss(low, low, lv)
nn.CrossEntropyLoss()(low, lab)
nn.BCELoss()(low, low)
nn.CTCLoss()(lp.to(LOW), tg, il, tl)
nn.LocalResponseNorm(2)(i2.to(LOW))
nn.ReflectionPad2d(1)(i2.to(LOW))
nn.ReplicationPad2d(1)(i2.to(LOW))
nn.AvgPool3d(2)(i3.to(LOW))
"""
# Computed as they are: no product for PyTorch, or not in its lists.
KEPT = """
torch.mv(m, v)
torch.dot(v, v2)
torch.vdot(v, v2)
torch.inner(v, v2)
torch.outer(v, v2)
torch.addmv(v, m, v2)
torch.einsum("i,j->ij", v, v2)
torch.einsum("ij,ij->ij", m, m2)
torch.linalg.matrix_exp(m)
torch.kron(m, m2)
F.avg_pool2d(i2, 2)
F.max_pool2d(i2, 2)
F.max_pool3d(i3, 2, return_indices=True)[0]
F.pad(i3, (1, 1, 1, 1, 1, 1), mode="reflect")
F.pad(x, (1, 1), mode="circular")
F.interpolate(i2, scale_factor=2, mode="bilinear")
torch.softmax(m, -1)
torch.cumprod(m, 0)
torch.norm(m)
F.gaussian_nll_loss(m, m, m)
F.local_response_norm(x, 2)
F.gelu(m)
"""
# float64 stays as it is in all of them.
WIDE = """
torch.matmul(dbl, dbl)
F.linear(dbl, dbl)
F.prelu(dbl, dbl[0, :1])
F.mse_loss(dbl, dbl)
torch.prod(dbl)
torch.trace(dbl)
torch.quantile(dbl, 0.5)
torch.cdist(dbl, dbl)
torch.linalg.svd(dbl)[1]
nn.LSTM(3, 4).double()(b.double())[0]
nn.GRUCell(3, 4).double()(dbl)
"""
REFUSED = """
torch.matmul(m, dbl)
torch.mm(m, dbl)
F.linear(m, dbl)
torch.addmm(dbl, m, m)
torch.baddbmm(b.double(), b, b)
torch.bmm(b, b.double())
nn.LSTMCell(3, 4)(dbl)
torch.cdist(low, dbl)
F.scaled_dot_product_attention(q, q, q.double())
"""


def lines(text):
    return text.strip().splitlines()


def values(dtype):
    """What the expressions name, floats in this dtype."""
    torch.manual_seed(0)

    def r(*shape):
        return torch.rand(*shape).to(dtype)

    found = {
        "torch": torch, "F": F, "nn": nn, "LOW": LOW, "r": r, "v": r(3), "v2": r(3), "m": r(3, 3),
        "m2": r(3, 3), "b": r(2, 3, 3), "b2": r(2, 3, 3), "x": r(1, 2, 6), "w1": r(4, 2, 3),
        "i2": r(1, 2, 6, 6), "w2": r(4, 2, 3, 3), "i3": r(1, 2, 6, 6, 6), "w3": r(4, 2, 3, 3, 3),
        "bi": r(4), "t1": r(2, 4, 3), "t2": r(2, 4, 3, 3), "t3": r(2, 4, 3, 3, 3),
        "lab": torch.tensor([0, 1, 2]), "lp": torch.log_softmax(r(5, 2, 4).float(), -1).to(dtype),
        "tg": torch.tensor([[1, 2], [1, 3]]), "il": torch.tensor([5, 5]), "q": r(1, 2, 4, 8),
        "tl": torch.tensor([2, 2]), "low": r(3, 3).to(LOW), "lv": r(3).to(LOW),
        "dbl": r(3, 3).double(), "one": torch.ones(3).to(dtype),
    }  # fmt: skip
    found["spd"] = (torch.eye(3) * 3 + 0.1).to(dtype)
    return found


def dtype_of(expression, dtype):
    given = values(dtype)
    with torch.autocast("cpu", LOW):
        return eval(expression, given).dtype


@pytest.mark.parametrize("expression", lines(LOWERED))
def test_products_and_recurrent_layers_are_low(expression):
    assert dtype_of(expression, torch.float32) is LOW


@pytest.mark.parametrize("expression", lines(RAISED))
def test_losses_and_decompositions_are_float32(expression):
    assert dtype_of(expression, LOW) is torch.float32


@pytest.mark.parametrize("expression", lines(KEPT))
def test_others_keep_their_dtype(expression):
    assert dtype_of(expression, torch.float32) is torch.float32
    if "matrix_exp" not in expression:
        assert dtype_of(expression, LOW) is LOW


@pytest.mark.parametrize("expression", lines(WIDE))
def test_double_stays_double(expression):
    assert dtype_of(expression, torch.float32) is torch.float64


@pytest.mark.parametrize("expression", lines(REFUSED))
def test_double_beside_low_is_refused(expression):
    with pytest.raises(RuntimeError):
        dtype_of(expression, torch.float32)


def test_complex_results_have_parts_of_float32():
    given = values(LOW)
    for text in ("torch.fft.fft(lv)", "torch.fft.rfft2(low)", "torch.polar(lv, lv)",
                 "torch.view_as_complex(r(3, 2))", "torch.linalg.eigvals(low)"):  # fmt: skip
        with torch.autocast("cpu", LOW):
            assert eval(text, given).dtype is torch.complex64, text


def test_a_packed_lstm_keeps_float32():
    packed = nn.utils.rnn.pack_sequence([torch.rand(3, 3), torch.rand(2, 3)])
    with torch.autocast("cpu", LOW):
        assert nn.LSTM(3, 4)(packed)[0].data.dtype is torch.float32


def test_stack_and_index_copy_take_the_widest_dtype():
    wide, low, at = torch.ones(3, 3), torch.ones(3, 3, dtype=LOW), torch.tensor([0, 2])
    with torch.autocast("cpu", LOW):
        assert torch.cat([low, wide]).dtype is torch.float32
        assert torch.index_copy(low, 0, at, wide[:2]).dtype is torch.float32


def test_gradients_have_the_dtypes_of_their_tensors():
    for call, dtypes in {
        (torch.mm, (LOW, torch.float32)),
        (F.mse_loss, (LOW, torch.float32)),
        (torch.cdist, (LOW, torch.float32)),
    }:
        given = [torch.rand(3, 3).to(dtype).requires_grad_() for dtype in dtypes]
        with torch.autocast("cpu", LOW):
            result = call(*given)
        result.float().sum().backward()
        assert [x.grad.dtype for x in given] == list(dtypes)


def test_a_context_sets_and_puts_back_the_preferred_dtype():
    x = torch.ones(2, 2)
    with torch.autocast("cpu", LOW):
        with torch.autocast("cpu", torch.float16, enabled=False):
            assert (x @ x).dtype is torch.float32
            assert torch.get_autocast_dtype("cpu") is torch.float16
            with torch.autocast("cpu", torch.float16):
                assert (x @ x).dtype is torch.float16
        assert torch.get_autocast_dtype("cpu") is LOW and (x @ x).dtype is LOW
        assert torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled()
    with torch.autocast("cpu", LOW, cache_enabled=False):
        assert not torch.is_autocast_cache_enabled()
    assert torch.is_autocast_cache_enabled() and not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float16])
def test_custom_forward_and_backward_run_in_one_mode(dtype):
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=dtype)
        def forward(ctx, x, w):
            seen.append(x.dtype)
            ctx.save_for_backward(x, w)
            return x.mm(w)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            seen.append(torch.is_autocast_enabled("cpu"))
            return grad.mm(w.t()), x.t().mm(grad)

    x, w = (torch.rand(3, 3).requires_grad_() for _ in range(2))
    with torch.autocast("cpu", LOW):
        y = Product.apply(x, w)
        assert Product.apply(x.double(), w.double()).dtype is torch.float64
    y.float().sum().backward()
    assert y.dtype is (dtype or LOW) and x.grad.dtype is torch.float32
    assert seen == [dtype or torch.float32, torch.float64, dtype is None]


@pytest.mark.parametrize("given", (torch.float32, LOW))
@pytest.mark.parametrize("kind", (nn.GRU, nn.LSTM, nn.RNN, nn.GRUCell, nn.LSTMCell, nn.RNNCell))
def test_recurrent_layers(kind, given):
    """A state of float32 stays so in a GRU and in an LSTM's cell; all weights get gradients."""
    layer, is_cell = kind(4, 3), kind.__name__.endswith("Cell")
    x = torch.randn(2, 4) if is_cell else torch.randn(5, 2, 4)
    with torch.autocast("cpu", LOW):
        found = layer(x.to(given))
    first = found[0] if isinstance(found, tuple) else found
    keeps = kind in (nn.GRU, nn.GRUCell, nn.LSTMCell)
    assert first.dtype == (given if keeps else LOW)
    exact = layer(x)
    exact = exact[0] if isinstance(exact, tuple) else exact
    torch.testing.assert_close(first.float(), exact, atol=0.03, rtol=0.03)
    first.float().sum().backward()
    assert {p.grad.dtype for p in layer.parameters()} == {torch.float32}


@pytest.mark.parametrize("kind", (nn.GRU, nn.LSTM, nn.RNN))
def test_packed_sequences(kind):
    sequences = [torch.randn(3, 4), torch.randn(2, 4)]
    layer, packed = kind(4, 3), nn.utils.rnn.pack_sequence(sequences)
    with torch.autocast("cpu", LOW):
        output = layer(packed)[0].data
    assert output.dtype == (LOW if kind is nn.RNN else torch.float32)
    torch.testing.assert_close(output.float(), layer(packed)[0].data, atol=0.03, rtol=0.03)
