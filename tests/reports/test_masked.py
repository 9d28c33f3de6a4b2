"""Rows that see nothing and targets that are all ignored: 0 and no NaN, in values and gradients."""

import math

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

INF = math.inf


def finite(tensor):
    return bool(torch.isfinite(tensor).all())


def grads_of(module):
    return [p.grad for p in module.parameters() if p.grad is not None]


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("training", [False, True])
def test_encoder_layer_with_a_sequence_of_padding(kind, training):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).train(training)
    padding = torch.tensor([[True] * 4, [False, False, True, True]])
    if kind == "float":
        padding = torch.zeros(2, 4).masked_fill(padding, -INF)
    x = torch.randn(2, 4, 8, requires_grad=True)
    out = layer(x, src_key_padding_mask=padding)
    out.sum().backward()
    assert finite(out) and finite(x.grad) and all(map(finite, grads_of(layer)))


def test_decoder_layer_whose_memory_is_all_padding():
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x, memory = torch.randn(2, 3, 8, requires_grad=True), torch.randn(2, 5, 8, requires_grad=True)
    out = layer(x, memory, memory_key_padding_mask=torch.ones(2, 5, dtype=torch.bool))
    out.sum().backward()
    assert finite(out) and finite(x.grad) and memory.grad.abs().max() == 0


@pytest.mark.parametrize("reduction", ["sum", "none"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2), (4, 3, 2, 2)])
def test_nll_loss_of_ignored_targets(reduction, shape):
    x = torch.randn(shape, requires_grad=True)
    target = torch.full((shape[0], *shape[2:]), -100)
    loss = F.nll_loss(x.log_softmax(1), target, reduction=reduction)
    loss.sum().backward()
    assert loss.abs().max() == 0 and x.grad.abs().max() == 0


@pytest.mark.parametrize(
    "loss", [F.cross_entropy, lambda x, t, **o: F.nll_loss(x.log_softmax(1), t, **o)]
)
def test_targets_whose_class_weights_are_all_zero(loss):
    x = torch.randn(3, 4, requires_grad=True)
    total = loss(x, torch.tensor([1, 1, 1]), weight=torch.tensor([1.0, 0.0, 1.0, 1.0]))
    total.backward()
    assert math.isnan(total.item()), "0 / 0, as documented"
    total = loss(
        x, torch.tensor([1, 1, 1]), weight=torch.tensor([1.0, 0.0, 1.0, 1.0]), reduction="sum"
    )
    assert total.item() == 0


@pytest.mark.parametrize(
    "loss",
    [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits],
)
def test_mean_over_nothing_is_nan_and_its_gradient_has_no_elements(loss):
    x = torch.zeros(0, 3, requires_grad=True)
    value = loss(x, torch.zeros(0, 3))
    value.backward()
    assert math.isnan(value.item()) and x.grad.shape == (0, 3)


@pytest.mark.parametrize("function", [torch.where, None])
def test_a_branch_that_is_not_taken_gives_no_nan(function):
    """log of values <= 0 is asked for, but masked before: the usual two-step guard."""
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    safe = torch.where(x > 0, x, torch.ones(3)) if function else x.masked_fill(x <= 0, 1.0)
    safe.log().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, 0, 0.5])


def test_norms_at_zero_have_gradient_zero():
    for norm in (
        lambda x: x.norm(),
        lambda x: torch.linalg.vector_norm(x),
        lambda x: x.norm(dim=0),
        lambda x: torch.cdist(x[None], x[None]).sum(),
        lambda x: F.normalize(x, dim=0).sum(),
    ):
        x = torch.zeros(3, requires_grad=True)
        norm(x).sum().backward()
        assert finite(x.grad), norm
