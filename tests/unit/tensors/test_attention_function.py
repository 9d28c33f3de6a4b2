"""scaled_dot_product_attention as users call it: against float64, masks, groups, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch

F = torch.nn.functional


def arrays(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def dense(q, k, v, mask=None, is_causal=False, scale=None):
    """The definition, in tensors of float64."""
    scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        mask = torch.ones(*scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype is torch.bool:
        scores = torch.where(mask, scores, -1e300)
    elif mask is not None:
        scores = scores + mask
    return torch.softmax(scores, -1) @ v


def close(a, b, tolerance=3e-5):
    a, b = (x.detach().to(torch.float64).numpy() for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


MASKS = ("none", "causal", "bool", "add", "scale")


@pytest.mark.parametrize("kind", MASKS)
def test_output_and_gradients_are_those_of_the_dense_form(kind):
    q, k, v, bias, g = arrays((2, 3, 70, 8), (2, 3, 90, 8), (2, 3, 90, 5), (70, 90), (2, 3, 70, 5))
    results = []
    for function, dtype in ((F.scaled_dot_product_attention, "float32"), (dense, "float64")):
        inputs = [torch.tensor(x.astype(dtype), requires_grad=True) for x in (q, k, v, bias)]
        options = {
            "none": {}, "causal": {"is_causal": True}, "scale": {"scale": 0.3},
            "bool": {"mask": torch.tensor(bias > -0.5)}, "add": {"mask": inputs[3]},
        }[kind]  # fmt: skip
        if function is not dense and "mask" in options:
            options["attn_mask"] = options.pop("mask")
        out = function(*inputs[:3], **options)
        (out * torch.tensor(g.astype(dtype))).sum().backward()
        results.append([out] + [x.grad for x in inputs[: 4 if kind == "add" else 3]])
    for got, wanted in zip(*results, strict=True):
        close(got, wanted)


def test_second_gradients():
    results = []
    for function, dtype in ((F.scaled_dot_product_attention, "float32"), (dense, "float64")):
        inputs = [
            torch.tensor(x.astype(dtype), requires_grad=True)
            for x in arrays((2, 9, 4), (2, 11, 4), (2, 11, 3))
        ]
        out = function(*inputs, is_causal=True)
        grads = torch.autograd.grad((out**2).sum(), inputs, create_graph=True)
        results.append(torch.autograd.grad(sum((x**2).sum() for x in grads), inputs))
    for got, wanted in zip(*results, strict=True):
        close(got, wanted, 2e-3)


def test_groups_of_queries_share_keys():
    q, k, v = (torch.tensor(x) for x in arrays((2, 6, 40, 8), (2, 2, 50, 8), (2, 2, 50, 8)))
    got = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    k, v = (x.repeat_interleave(3, 1) for x in (k, v))
    assert torch.equal(got, F.scaled_dot_product_attention(q, k, v))
    close(got, dense(*(x.double() for x in (q, k, v))))


def test_leading_dims_broadcast_also_those_of_the_mask():
    q, k, v, mask = (
        torch.tensor(x) for x in arrays((9, 4), (3, 1, 7, 4), (2, 7, 4), (5, 3, 2, 9, 7))
    )
    got = F.scaled_dot_product_attention(q, k, v, mask)
    assert got.shape == (5, 3, 2, 9, 4)
    close(got, dense(*(x.double() for x in (q, k, v, mask))))


def test_narrow_floats_are_rounded_once():
    inputs = [
        torch.tensor(x).to(torch.bfloat16) for x in arrays((2, 40, 8), (2, 50, 8), (2, 50, 8))
    ]
    got = F.scaled_dot_product_attention(*inputs, is_causal=True)
    wide = F.scaled_dot_product_attention(*(x.float() for x in inputs), is_causal=True)
    assert got.dtype is torch.bfloat16
    assert torch.equal(got, wide.to(torch.bfloat16))


def test_a_growing_length_does_not_change_bits():
    q, k, v = (torch.tensor(x) for x in arrays((2, 1, 8), (2, 64, 8), (2, 64, 8)))
    whole = F.scaled_dot_product_attention(q, k[:, :40], v[:, :40])
    for length in (13, 27, 40):
        part = F.scaled_dot_product_attention(q, k[:, :length], v[:, :length])
    assert torch.equal(part, whole)


def test_dropout_uses_the_probabilities():
    q, k, v = (torch.tensor(x) for x in arrays((2, 9, 4), (2, 7, 4), (2, 7, 4)))
    torch.manual_seed(0)
    dropped = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, is_causal=True)
    assert not torch.equal(dropped, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    close(
        F.scaled_dot_product_attention(q, k, torch.ones_like(v), dropout_p=0.0), torch.ones(2, 9, 4)
    )


@pytest.mark.parametrize(
    ("mask", "options", "text"),
    [
        (torch.ones(9, 7, dtype=torch.bool), {"is_causal": True}, "should not be set"),
        (torch.ones(9, 7, dtype=torch.float64), {}, "Expected attn_mask dtype"),
        (torch.ones(9, 6), {}, "must match|broadcast"),
    ],
)
def test_wrong_masks_are_refused(mask, options, text):
    q, k, v = (torch.tensor(x) for x in arrays((2, 9, 4), (2, 7, 4), (2, 7, 4)))
    with pytest.raises(RuntimeError, match=text):
        F.scaled_dot_product_attention(q, k, v, mask, **options)
