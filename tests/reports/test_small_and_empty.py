"""Sizes of 0 and tensors without dimensions."""

import math

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

LAYERS = {
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), (0, 3, 8), (0, 4, 6)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (0, 1, 4, 4, 4), (0, 2, 3, 3, 3)),
    "conv_transpose": (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), (0, 2, 4, 4), (0, 3, 8, 8)),
    "max_pool": (lambda: nn.MaxPool2d(2), (0, 3, 4, 4), (0, 3, 2, 2)),
    "avg_pool": (lambda: nn.AvgPool2d(2), (0, 3, 4, 4), (0, 3, 2, 2)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d(1), (0, 3, 4, 4), (0, 3, 1, 1)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (0, 4, 3), (0, 4, 3)),
    "bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (0, 3, 4, 4), (0, 3, 8, 8)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (0, 5, 8),
        (0, 5, 8),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_batch_of_nothing_goes_through_a_layer(name):
    make, shape, expected = LAYERS[name]
    layer, x = make(), torch.zeros(shape, requires_grad=True)
    out = layer(x)
    assert tuple(out.shape) == expected
    out.sum().backward()
    assert tuple(x.grad.shape) == shape
    for parameter in layer.parameters():
        assert parameter.grad is None or parameter.grad.abs().sum().item() == 0


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda e: e.sort().values, (0,)),
        (lambda e: e.unique(), (0,)),
        (lambda e: e.nonzero(), (0, 1)),
        (lambda e: e.topk(0).values, (0,)),
        (lambda e: e.flip(0), (0,)),
        (lambda e: e.roll(1), (0,)),
        (lambda e: torch.cat([e, e]), (0,)),
        (lambda e: torch.stack([e, e]), (2, 0)),
        (lambda e: e.cumsum(0), (0,)),
        (lambda e: e[:, None] * e, (0, 0)),
        (lambda e: torch.ones(0, 3).tril(), (0, 3)),
        (lambda e: torch.einsum("i,j->ij", e, e), (0, 0)),
        (lambda e: torch.linalg.inv(torch.zeros(0, 0)), (0, 0)),
        (lambda e: e.diff(), (0,)),
        (lambda e: torch.outer(e, torch.ones(3)), (0, 3)),
        (lambda e: F.one_hot(e.long(), 4), (0, 4)),
        (lambda e: torch.cartesian_prod(e, torch.ones(2)), (0, 2)),
        (lambda e: e.masked_select(e > 0), (0,)),
        (lambda e: torch.bincount(e.long(), minlength=3), (3,)),
        (lambda e: e.repeat(3), (0,)),
        (lambda e: torch.histc(e, 4), (4,)),
        (lambda e: e.split(2)[0], (0,)),
        (lambda e: e.chunk(2)[0], (0,)),
    ],
)
def test_functions_of_nothing(call, shape):
    found = call(torch.zeros(0))
    assert tuple(found.shape) == shape
    found.tolist()


def test_identities_of_nothing():
    empty = torch.zeros(0, 3)
    assert empty.sum(0).tolist() == [0, 0, 0] and empty.prod(0).tolist() == [1, 1, 1]
    assert empty.logsumexp(0).tolist() == [-math.inf] * 3 and empty.norm().item() == 0
    assert torch.linalg.det(torch.zeros(0, 0)).item() == 1
    assert all(map(math.isnan, empty.mean(0).tolist() + empty.var(0).tolist()))
    for reduce in ("amax", "amin", "argmax", "max", "median", "mode"):
        with pytest.raises((IndexError, RuntimeError)):
            getattr(empty, reduce)(0)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.sort().values,
        lambda s: s.flip(0),
        lambda s: s.cummax(0).values,
        lambda s: s.amax(0),
        lambda s: s.topk(1).values,
        lambda s: F.log_softmax(s, 0),
        lambda s: s.squeeze(0),
        lambda s: s.logsumexp(-1),
        lambda s: s.prod(0),
        lambda s: s.median(0).values,
    ],
)
def test_functions_along_a_dim_take_a_tensor_without_dims(call):
    found = call(torch.tensor(2.0))
    assert found.shape == () or found.shape == (1,)
    assert found.item() in (2.0, 0.0)
