"""Copies of modules on devices, and causal masks with a corner."""

import pytest

import rushlight as torch
from rushlight.nn import functional as F  # noqa: N812
from rushlight.nn.attention.bias import CausalBias, causal_lower_right, causal_upper_left
from rushlight.nn.parallel import data_parallel, parallel_apply, replicate


def test_copies_share_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    first, second = replicate(model, ["cpu", "cpu"])
    assert first is not second and first[0].weight is model[0].weight
    assert first[1].running_mean is model[1].running_mean
    x = torch.ones(3, 2)
    parallel_apply([first, second], [x, (x,)])[1].sum().backward()
    assert model[0].weight.grad is not None
    loose = replicate(model, ["cpu"], detach=True)[0]
    assert not loose[0].weight.requires_grad
    with pytest.raises(AssertionError, match="number of modules 1"):
        parallel_apply([first], [x, x])


def test_a_batch_over_devices():
    layer, x = torch.nn.Linear(2, 3), torch.randn(5, 2)
    torch.testing.assert_close(data_parallel(layer, x, device_ids=["cpu", "cpu"]), layer(x))


@pytest.mark.parametrize(("make", "shift"), [(causal_upper_left, 0), (causal_lower_right, 2)])
def test_causal_masks(make, shift):
    q, k, v = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
    bias = make(3, 5)
    assert isinstance(bias, CausalBias) and (bias.seq_len_q, bias.seq_len_kv) == (3, 5)
    want = F.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.ones(3, 5, dtype=torch.bool).tril(shift)
    )
    assert torch.equal(F.scaled_dot_product_attention(q, k, v, attn_mask=bias), want)
