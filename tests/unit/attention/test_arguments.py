"""Arguments of attention and masks: sizes, dtypes, devices, masks that do not fit the query."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention.masks import causal, document
from rushlight.attention.score_mods import relative_bias
from rushlight.engine.devices import why_missing
from rushlight.nn.attention.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
)

needs_opencl = pytest.mark.skipif(bool(why_missing("opencl")), reason=why_missing("opencl"))
Q = torch.randn(2, 4, 16, 8)


@pytest.mark.parametrize(
    ("sizes", "error", "text"),
    [
        ((-1, None, 4, 4), ValueError, "B must not be negative, got -1"),
        ((None, None, 4, -4), ValueError, "KV_LEN must not be negative, got -4"),
        ((None, None, 4.5, 4), TypeError, "Q_LEN must be an int, got 4.5"),
        ((None, "2", 4, 4), TypeError, "H must be an int, got '2'"),
    ],
)
def test_sizes_are_checked(sizes, error, text):
    for make in (create_block_mask, create_mask):
        with pytest.raises(error, match=text):
            make(causal, *sizes)


@pytest.mark.parametrize("size", [0, -1, (4,), (4, 4, 4), (4, 0)])
def test_block_sizes_are_checked(size):
    with pytest.raises(ValueError, match="BLOCK_SIZE must be a positive int or two of them"):
        create_block_mask(causal, None, None, 16, 16, BLOCK_SIZE=size)


def test_numbers_of_other_libraries_are_sizes():
    mask = create_block_mask(
        causal, np.int64(1), torch.tensor(1), torch.tensor(16), 16, BLOCK_SIZE=np.int64(4)
    )
    assert mask.BLOCK_SIZE == (4, 4) and mask.shape == (1, 1, 16, 16)


@pytest.mark.parametrize(("batch", "heads"), [(3, None), (None, 3), (None, 8), (2, 2)])
def test_a_mask_of_another_batch_or_heads_is_refused(batch, heads):
    mask = create_block_mask(causal, batch, heads, 16, 16)
    with pytest.raises(ValueError, match="that of the mask must be 1 or the same"):
        flex_attention(Q, Q, Q, block_mask=mask)


def test_a_dense_mask_is_no_block_mask():
    with pytest.raises(TypeError, match="block_mask must be a BlockMask, got Tensor"):
        flex_attention(Q, Q, Q, block_mask=torch.ones(16, 16, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_value_of_another_dtype_becomes_that_of_the_query(dtype):
    value = Q.to(dtype).requires_grad_()
    out = flex_attention(Q, Q, value)
    out.sum().backward()
    assert out.dtype is torch.float32 and value.grad.dtype is dtype
    assert (out == flex_attention(Q, Q, value.detach().float())).all()


def test_autocast_lowers_query_key_and_value():
    q, k, v = (torch.randn(1, 2, 9, 4).requires_grad_() for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True))
    low = [t.detach().bfloat16() for t in (q, k, v)]
    assert out.dtype is torch.bfloat16 and (out == flex_attention(*low)).all()
    out.float().sum().backward()
    assert aux.lse.dtype is torch.float32 and q.grad.dtype is torch.float32


def test_no_heads_at_all():
    empty = torch.zeros(2, 0, 16, 8)
    assert flex_attention(empty, empty, empty).shape == (2, 0, 16, 8)


def test_an_unknown_device_is_refused():
    with pytest.raises(RuntimeError, match="device type at start of device string: foo"):
        create_block_mask(causal, None, None, 16, 16, device="foo")


@needs_opencl
def test_masks_and_captured_tensors_on_a_device():
    """The same values as on the CPU; lists, outputs and gradients lie on the device."""
    ids, found = np.arange(40) // 11, []
    data = np.random.default_rng(0).standard_normal((3, 1, 2, 40, 8)).astype(np.float32)
    for device in ("cpu", "opencl"):
        q, k, v = (torch.tensor(x, device=device).requires_grad_() for x in data)
        table = torch.ones(2, 80, device=device).requires_grad_()
        kept = and_masks(causal, document(torch.tensor(ids, device=device)))
        mask = create_block_mask(kept, None, None, 40, 40, BLOCK_SIZE=32)
        lists = (mask.kv_indices, mask.to_dense(), mask[0].q_indices, mask.to("cpu").kv_indices)
        assert [t.device.type for t in lists] == [device] * 3 + ["cpu"]
        aux = AuxRequest(lse=True, max_scores=True)
        out, aux = flex_attention(q, k, v, relative_bias(table, 40), mask, return_aux=aux)
        (out.square().sum() + aux.lse.sum()).backward()
        step = flex_attention(q[:, :, :1], k, v, block_mask=mask.for_decode(30))
        results = [out, *aux, q.grad, k.grad, v.grad, table.grad, step]
        assert all(t.device.type == device for t in results)
        found.append([t.detach().cpu().numpy() for t in results])
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-5)


@needs_opencl
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_the_fused_loss_on_a_device(reduction):
    found = []
    data = np.random.default_rng(0).standard_normal((2, 10, 16)).astype(np.float32)
    for device in ("cpu", "opencl"):
        x, w = (torch.tensor(t, device=device).requires_grad_() for t in data)
        target = torch.tensor(np.arange(10), device=device)
        loss = torch.nn.functional.linear_cross_entropy(
            x, w, target, reduction=reduction, label_smoothing=0.1, z_loss_coef=0.01
        )
        loss.sum().backward()
        assert loss.device.type == x.grad.device.type == device
        found.append([t.detach().cpu().numpy() for t in (loss, x.grad, w.grad)])
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-6)
