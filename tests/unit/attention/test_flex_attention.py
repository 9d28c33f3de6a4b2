"""flex_attention against dense attention in float64: outputs and gradients."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention.masks import causal, sliding_window
from rushlight.attention.score_mods import alibi, alibi_slopes, relative_bias, softcap
from rushlight.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    create_mask,
    flex_attention,
)
from tests.unit.attention.dense import dense_attention

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}


def numbers(tensor):
    return tensor.detach().double().numpy()


def near(got, want, tolerance):
    got = numbers(got)
    assert got.shape == want.shape
    with np.errstate(invalid="ignore"):
        fine = (abs(got - want) <= tolerance * np.maximum(1, abs(want))) | (got == want)
    assert fine.all(), (got[~fine][:3], want[~fine][:3])


def golden_inputs():
    def wave(function, shape, step):
        count = int(np.prod(shape))
        return function(torch.arange(count, dtype=torch.float64).reshape(shape) * step)

    q = wave(torch.sin, (1, 2, 4, 3), 0.3)
    return q, wave(torch.cos, (1, 1, 4, 3), 0.5), wave(torch.sin, (1, 1, 4, 2), 0.2)


def test_golden_numbers():
    mask = create_block_mask(
        lambda b, h, i, j: (i >= j) & (i - j < 2), None, None, 4, 4, BLOCK_SIZE=2
    )
    out, aux = flex_attention(
        *golden_inputs(), lambda s, b, h, i, j: s + 0.1 * (j - i) * (h + 1), mask,
        enable_gqa=True, return_aux=AuxRequest(lse=True),
    )  # fmt: skip
    assert aux.max_scores is None
    want = [
        [[0, 0.19866933079506122], [0.05576388223569729, 0.25107591006501684],
         [0.4983642013505404, 0.6566090741073793], [0.8389749475443615, 0.9230355743297471]],
        [[0, 0.19866933079506122], [0.3500655627151673, 0.5276589550212241],
         [0.616728044892228, 0.7565258624415852], [0.8691871356892485, 0.9432976027073938]],
    ]  # fmt: skip
    lse = [
        [0.32586862230149294, 1.2902031485611405, -0.17626471651767384, 0.47482686054661066],
        [-0.8758440712002998, 0.7341790246171418, 1.2113830364856097, 0.6320387558137124],
    ]
    np.testing.assert_allclose(out.numpy()[0], want, atol=2e-8)
    np.testing.assert_allclose(aux.lse.numpy()[0], lse, atol=2e-8)


def one_random_case(seed, longest):
    rng = np.random.default_rng(seed)
    batch, kv_heads, group = (int(n) for n in rng.integers(1, [3, 4, 4]))
    heads = kv_heads * group
    rows, keys = (int(n) for n in rng.integers(0, longest + 1, 2))
    width, v_width = (int(n) for n in rng.integers(1, 20, 2))
    dtype = list(TOLERANCE)[rng.integers(4)]
    size = (int(rng.choice([1, 4, 16, 128])), int(rng.choice([4, 32, 128])))
    shapes = [(batch, heads, rows, width), (batch, kv_heads, keys, width)]
    shapes += [(batch, kv_heads, keys, v_width), (batch, heads, rows, v_width)]
    q, k, v, d_out = (torch.tensor(rng.standard_normal(s)).to(dtype) for s in shapes)
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    d_lse = rng.standard_normal((batch, heads, rows))
    window, shift = int(rng.integers(1, 60)), torch.tensor(rng.integers(0, 30, batch))

    def kept(b, h, i, j):
        return (i >= j) & (i - j + shift[b] < window) | ((i // 7) % 3 == h % 3) & (j % 2 == 0)

    mask = create_block_mask(
        kept, batch, heads, rows, keys, BLOCK_SIZE=size, separate_full_blocks=bool(seed % 2)
    )
    if rng.integers(2):  # the way of masks that the user put together of blocks
        mask.blocks_follow_mod = False
    table = torch.tensor(rng.standard_normal((heads, rows + keys + 1))).float().requires_grad_()
    out, aux = flex_attention(
        q, k, v, relative_bias(table, keys), mask, enable_gqa=True,
        return_aux=AuxRequest(lse=True, max_scores=True),
    )  # fmt: skip
    assert out.dtype is dtype and out.shape == (batch, heads, rows, v_width)
    lse = torch.where(torch.isfinite(aux.lse), aux.lse, 0)
    ((out * d_out).sum() + (lse * torch.tensor(d_lse).to(lse.dtype)).sum()).backward()

    where = (np.arange(heads)[:, None, None], np.arange(rows)[:, None] - np.arange(keys) + keys - 1)
    dense = create_mask(kept, batch, heads, rows, keys).numpy()
    want = dense_attention(
        *map(numbers, (q, k, v)), numbers(table)[where], dense, numbers(d_out), d_lse, width**-0.5
    )
    d_table = np.zeros(table.shape)
    np.add.at(d_table, where, want.d_scores.sum(0))
    tolerance = TOLERANCE[dtype]
    for got, wanted in ((out, want.out), (aux.lse, want.lse), (aux.max_scores, want.top)):
        near(got, wanted, tolerance)
    near(q.grad, want.d_query, 3 * tolerance)
    near(k.grad, want.d_key, 3 * tolerance)
    near(v.grad, want.d_value, 3 * tolerance)
    if table.grad is not None:
        near(table.grad, d_table, 3 * tolerance)
    else:
        assert not d_table.any()


@pytest.mark.parametrize("seed", range(4))
def test_random_cases_equal_dense_attention(seed):
    one_random_case(seed, 60)


def test_a_narrow_table_of_a_wide_attention_learns():
    rng = np.random.default_rng(11)
    q, k, v = (torch.tensor(rng.standard_normal((1, 2, 6, 4))).requires_grad_() for _ in range(3))
    values, found = torch.tensor(rng.standard_normal((2, 13))), []
    for dtype in (torch.float32, torch.float64):
        table = values.to(torch.float32).to(dtype).requires_grad_()
        out = flex_attention(q, k, v, relative_bias(table, 6))
        found.append(torch.autograd.grad(out.square().sum(), (q, table)))
    for narrow, wide in zip(*found, strict=True):
        near(narrow, wide.numpy(), 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_random_cases_equal_dense_attention(seed):
    one_random_case(seed, 300)


def small(requires_grad=True, seed=0):
    torch.manual_seed(seed)
    return torch.randn(1, 2, 8, 4, dtype=torch.float64, requires_grad=requires_grad)


@pytest.mark.parametrize("name", ["none", "alibi", "softcap"])
def test_gradients_equal_finite_differences(name):
    mods = {"none": None, "alibi": alibi(alibi_slopes(2)), "softcap": softcap(2.0)}
    mask = create_block_mask(sliding_window(3), None, None, 8, 8)
    inputs = tuple(small(seed=n)[:, :, :, :2].detach().requires_grad_() for n in range(3))
    assert torch.autograd.gradcheck(
        lambda q, k, v: flex_attention(q, k, v, mods[name], mask), inputs
    )


def test_captured_tensors_get_gradients_however_they_are_reached():
    q = small(False)
    leaf = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    made = leaf * 2.0

    class Holder:
        bias = made

    holder = Holder()
    for mod in (
        lambda s, b, h, i, j: s + made[h] * i,
        lambda s, b, h, i, j: s + holder.bias[h] * i,
        lambda s, b, h, i, j: s + 2.0 * leaf[h] * i,
    ):
        (got,) = torch.autograd.grad(
            (flex_attention(q, q, q, mod) ** 2).sum(), leaf, retain_graph=True
        )
        scores = q @ q.transpose(-2, -1) / 2 + made.view(2, 1, 1) * torch.arange(8).view(8, 1)
        (want,) = torch.autograd.grad(
            ((scores.softmax(-1) @ q) ** 2).sum(), leaf, retain_graph=True
        )
        assert torch.allclose(got, want)


def test_captured_tensors_may_be_indexed_step_by_step():
    q = small(False)
    table = torch.randn(2, 8, 3, dtype=torch.float64, requires_grad=True)
    found = []
    for mod in (
        lambda s, b, h, i, j: s + table[h, j, 2],
        lambda s, b, h, i, j: s + table[h][j][2],
        lambda s, b, h, i, j: s + table[h][j, 2],
    ):
        out = flex_attention(q, q, q, mod)
        found.append((out, *torch.autograd.grad((out**2).sum(), table)))
    for out, grad in found[1:]:
        assert (out == found[0][0]).all() and torch.allclose(grad, found[0][1])


def test_a_changed_loop_variable_does_not_change_the_backward():
    q = small()
    total = 0.0
    for slope in (0.5, -3.0):
        total = total + flex_attention(q, q, q, lambda s, b, h, i, j: s + slope * (j - i)).sum()  # noqa: B023
    (got,) = torch.autograd.grad(total, q)
    want = 0.0
    for slope in (0.5, -3.0):
        places = torch.arange(8)
        scores = q @ q.transpose(-2, -1) / 2 + slope * (places - places.view(8, 1))
        want = want + (scores.softmax(-1) @ q).sum()
    assert torch.allclose(got, torch.autograd.grad(want, q)[0])


def test_rows_that_see_nothing_give_zero_and_no_gradient():
    q = small()
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i >= 3), None, None, 8, 8)
    out, aux = flex_attention(q, q, q, block_mask=mask, return_aux=AuxRequest(lse=True))
    (grad,) = torch.autograd.grad(out.sum() + out[:, :, :3].sum() * 5, q)
    assert (out[:, :, :3] == 0).all() and torch.isneginf(aux.lse[:, :, :3]).all()
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize(("rows", "keys"), [(0, 5), (5, 0), (0, 0)])
def test_empty_sequences(rows, keys):
    q = torch.ones(1, 2, rows, 4, requires_grad=True)
    k = torch.ones(1, 2, keys, 4, requires_grad=True)
    out, aux = flex_attention(q, k, k, return_aux=AuxRequest(lse=True))
    out.sum().backward()
    assert out.shape == (1, 2, rows, 4) and (out == 0).all() and torch.isneginf(aux.lse).all()
    assert (q.grad == 0).all() and (k.grad == 0).all()


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize(("given", "features"), [(1, 1), (1, 2), (1, 19), (3, 3)])
def test_features_that_are_the_same_count_as_often_as_they_are(given, features, rows):
    """One feature, or one stretched to many, is no value of every lane of a vector."""
    torch.manual_seed(features)
    q, k, v = (
        torch.randn(2, 3, length, given).expand(2, 3, length, features).requires_grad_()
        for length in (rows, 37, 37)
    )
    out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True))
    exact = [x.detach().double().contiguous().requires_grad_() for x in (q, k, v)]
    scores = exact[0] @ exact[1].mT * features**-0.5
    want = torch.softmax(scores, -1) @ exact[2]
    near(out, numbers(want), 2e-5)
    near(aux.lse, numbers(torch.logsumexp(scores, -1)), 2e-5)
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    for got, right in zip(grads, torch.autograd.grad(want.square().sum(), exact), strict=True):
        near(got, numbers(right), 1e-4)


def test_blocks_of_a_mask_made_of_lists_count():
    """Absent blocks are left out and full ones kept, whatever mask_mod says."""
    one = torch.ones(1, 1, 2, dtype=torch.int32)
    lists = torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    q = small(False)
    mask = BlockMask.from_kv_blocks(one, lists, BLOCK_SIZE=4)
    out = flex_attention(q, q, q, block_mask=mask)
    halves = [flex_attention(x, x, x) for x in (q[:, :, :4], q[:, :, 4:])]
    assert torch.allclose(out, torch.cat(halves, 2))

    def nothing(b, h, i, j):
        return i < 0

    mask = BlockMask.from_kv_blocks(one * 0, lists, one, lists, 4, nothing)
    assert torch.allclose(flex_attention(q, q, q, block_mask=mask), out)


def test_one_batch_of_keys_serves_all_queries():
    q, k = torch.randn(3, 2, 8, 4), torch.randn(1, 2, 8, 4, requires_grad=True)
    mask = create_block_mask(causal, 3, None, 8, 8)
    out = flex_attention(q, k, k, block_mask=mask)
    want = flex_attention(q, k.expand(3, -1, -1, -1), k.expand(3, -1, -1, -1), block_mask=mask)
    assert torch.allclose(out, want)
    (grad,) = torch.autograd.grad(out.sum(), k)
    assert grad.shape == k.shape


def test_a_mask_of_blocks_gives_the_bits_of_the_dense_mask():
    """What is left out changes nothing: gradients too."""
    inputs = [torch.randn(1, 2, 300, 8, requires_grad=True) for _ in range(3)]
    for size in (32, 128, (64, 256)):
        mask = create_block_mask(sliding_window(20), None, None, 300, 300, BLOCK_SIZE=size)
        dense = create_mask(sliding_window(20), None, None, 300, 300)
        found = []
        for out in (
            flex_attention(*inputs, block_mask=mask),
            torch.nn.functional.scaled_dot_product_attention(*inputs, attn_mask=dense),
        ):
            found.append([out, *torch.autograd.grad((out**2).sum(), inputs)])
        for a, b in zip(*found, strict=True):
            assert (a == b).all()


def test_absent_blocks_are_not_read():
    """Also those between present ones: they hold NaN, which would show."""
    q, k, v = (torch.randn(1, 1, 512, 8) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: (j // 128) % 2 == 0, None, None, 512, 512)
    want = flex_attention(q, k, v, block_mask=mask)
    k[:, :, 128:256] = v[:, :, 384:] = float("nan")
    assert (flex_attention(q, k, v, block_mask=mask) == want).all()


def test_full_tiles_do_not_call_mask_mod():
    calls = []

    def counted(b, h, i, j):
        calls.append(i.shape)
        return j < 64

    mask = create_block_mask(counted, None, None, 64, 64, BLOCK_SIZE=32)
    calls.clear()
    q = torch.randn(1, 1, 64, 4)
    assert torch.allclose(flex_attention(q, q, q, block_mask=mask), flex_attention(q, q, q))
    assert not calls


def test_compiled_training_step_equals_lazy_one():
    mask = create_block_mask(causal, None, None, 16, 16)
    x = torch.randn(1, 2, 16, 8)

    def losses(wrap):
        torch.manual_seed(3)
        layer, bias = torch.nn.Linear(8, 8), torch.nn.Parameter(torch.zeros(2))
        optimizer = torch.optim.SGD([*layer.parameters(), bias], lr=0.01)

        def step(x):
            q = layer(x)
            out = flex_attention(q, q, q, lambda s, b, h, i, j: s + bias[h] * j, mask)
            loss = (out**2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        step = wrap(step)
        return [step(x).item() for _ in range(3)]

    assert losses(torch.compile) == losses(lambda f: f)


@pytest.mark.parametrize("name", ["none", "softcap"])
def test_second_order_gradients(name):
    mods = {"none": None, "softcap": softcap(2.0)}
    mask = create_block_mask(causal, None, None, 8, 8)
    inputs = tuple(small(seed=n)[:, :, :, :2].detach().requires_grad_() for n in range(3))
    assert torch.autograd.gradgradcheck(
        lambda q, k, v: flex_attention(q, k, v, mods[name], mask), inputs
    )


def test_bad_inputs_are_errors():
    q, k = torch.zeros(1, 4, 8, 8), torch.zeros(1, 2, 8, 8)
    with pytest.raises(ValueError, match="query must have a floating-point dtype"):
        flex_attention(q.long(), q, q)
    with pytest.raises(ValueError, match="same batch size, heads and length"):
        flex_attention(q, q, q[:, :, :5])
    with pytest.raises(ValueError, match="no option 'BLOCKM'"):
        flex_attention(q, q, q, kernel_options={"BLOCKM": 4})
    with pytest.raises(ValueError, match=r"table\[b, q_idx\]"):
        table = torch.zeros(1, 8)
        flex_attention(q, q, q, lambda s, b, h, i, j: table[b])
    with pytest.raises(ValueError, match="Try setting enable_gqa"):
        flex_attention(q, k, k)
    flex_attention(q, k, k, enable_gqa=True, kernel_options={"fwd_num_stages": 2})
