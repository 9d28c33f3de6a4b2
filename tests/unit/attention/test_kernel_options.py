"""kernel_options of flex_attention: which act, and that the others change no bit."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.attention.kernel_options import OPTION_NAMES, Choice, choice_of
from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention

QUIET = sorted(
    OPTION_NAMES - {"PRESCALE_QK", "PARTITION_SIZE", "BACKEND", "FORCE_USE_FLEX_ATTENTION"}
)


def inputs(queries: int = 40, keys: int = 40, width: int = 24, dtype=None) -> list:
    torch.manual_seed(3)
    made = [torch.randn(1, 2, n, width) for n in (queries, keys, keys)]
    return [x if dtype is None else x.to(dtype) for x in made]


def bits(x) -> bytes:
    return x.detach().float().numpy().tobytes()


def test_sizes_and_promises_change_no_bit():
    q, k, v = inputs()
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 40, 40)
    plain = bits(flex_attention(q, k, v, block_mask=mask))
    for name in QUIET:
        for given in (name, f"fwd_{name}", f"bwd_{name}"):
            got = flex_attention(q, k, v, block_mask=mask, kernel_options={given: 16})
            assert bits(got) == plain, given


def test_prescale_moves_the_scale_to_the_query():
    q, k, v = inputs()
    plain = flex_attention(q, k, v)
    moved = flex_attention(q, k, v, kernel_options={"PRESCALE_QK": True})
    by_hand = flex_attention(q * 24**-0.5, k, v, scale=1.0)
    assert bits(moved) == bits(by_hand) != bits(plain)
    np.testing.assert_allclose(moved.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)
    # A power of two rounds nothing; what is for the backward alone does not act.
    exact = flex_attention(q, k, v, scale=0.25)
    assert bits(flex_attention(q, k, v, scale=0.25, kernel_options={"PRESCALE_QK": True})) == bits(
        exact
    )
    assert bits(flex_attention(q, k, v, kernel_options={"bwd_PRESCALE_QK": True})) == bits(plain)


def test_prescale_keeps_dtypes_and_has_gradients():
    q, k, v = inputs(dtype=torch.bfloat16)
    assert flex_attention(q, k, v, kernel_options={"PRESCALE_QK": True}).dtype is torch.bfloat16
    found = []
    for options in (None, {"PRESCALE_QK": True}):
        q, k, v = (x.requires_grad_() for x in inputs(width=16))
        flex_attention(q, k, v, kernel_options=options).square().sum().backward()
        found.append([bits(x.grad) for x in (q, k, v)])
    assert found[0][2] == found[1][2]  # the scale is 1/4


def test_backends_choose_whether_the_keys_are_cut():
    q, k, v = inputs(2, 1100)
    cut, whole = (
        flex_attention(q, k, v),
        flex_attention(q, k, v, kernel_options={"BACKEND": "FLASH"}),
    )
    assert bits(cut) != bits(whole)
    for options in ({"BACKEND": "TRITON"}, {"FORCE_USE_FLEX_ATTENTION": True}):
        assert bits(flex_attention(q, k, v, kernel_options=options)) == bits(whole)
    for options in ({"BACKEND": "TRITON_DECODE"}, {"BACKEND": "AUTO"}):
        assert bits(flex_attention(q, k, v, kernel_options=options)) == bits(cut)
    few = [x[:, :, :100] for x in (q, k, v)]
    demanded = flex_attention(*few, kernel_options={"BACKEND": "TRITON_DECODE"})
    np.testing.assert_allclose(demanded.numpy(), flex_attention(*few).numpy(), rtol=1e-5, atol=1e-6)


def test_a_cut_that_cannot_be_is_an_error():
    q, k, v = inputs(40, 1100)
    demand = {"BACKEND": "TRITON_DECODE"}
    with pytest.raises(RuntimeError, match="flex_decoding cannot be used for this input"):
        flex_attention(q, k, v, kernel_options=demand)
    with pytest.raises(RuntimeError, match="flex_decoding cannot be used for this input"):
        flex_attention(q[:, :, :1].requires_grad_(), k, v, kernel_options=demand)


def test_prefixes():
    assert choice_of(None) == Choice()
    assert choice_of({"fwd_PARTITION_SIZE": 128}).partition == 128
    assert choice_of({"bwd_PARTITION_SIZE": 128}).partition == Choice().partition
    assert choice_of({"PARTITION_SIZE": 64, "fwd_PARTITION_SIZE": 128}).partition == 128
    with pytest.raises(ValueError, match="multiple of 64, got 100"):
        choice_of({"fwd_PARTITION_SIZE": 100})
    with pytest.raises(ValueError, match="no option 'fwd_BLOCKM'"):
        choice_of({"fwd_BLOCKM": 4})
    with pytest.raises(ValueError, match="Invalid BACKEND value 'X'"):
        choice_of({"BACKEND": "X"})
