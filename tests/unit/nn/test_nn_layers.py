"""Layers against values computed by hand or with numpy."""

import inspect
import math
import typing

import numpy as np
import pytest

import rushlight as torch

nn = torch.nn


def filled(layer, **values):
    with torch.no_grad():
        for name, value in values.items():
            getattr(layer, name).copy_(torch.tensor(value))
    return layer


def assert_values(tensor, expected, tolerance=1e-6):
    np.testing.assert_allclose(
        tensor.detach().numpy(), np.asarray(expected), rtol=tolerance, atol=tolerance
    )


def test_linear():
    layer = filled(nn.Linear(2, 2), weight=[[1.0, 2.0], [3.0, 4.0]], bias=[0.5, -0.5])
    assert_values(layer(torch.tensor([[1.0, 10.0]])), [[21.5, 42.5]])
    assert repr(layer) == "Linear(in_features=2, out_features=2, bias=True)"
    assert nn.Linear(2, 2, bias=False).bias is None


def test_starting_values_are_bounded():
    layer = nn.Linear(16, 64)
    for parameter in layer.parameters():
        assert parameter.abs().max().item() <= 0.25
        assert parameter.abs().max().item() > 0.2
    assert nn.Conv2d(4, 8, 2).weight.abs().max().item() <= 0.25


def test_bilinear():
    layer = filled(nn.Bilinear(2, 2, 1), weight=[[[1.0, 2.0], [3.0, 4.0]]], bias=[1.0])
    assert_values(layer(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])), [[62.0]])


def test_embedding_leaves_padding_alone():
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0, 0]
    layer(torch.tensor([3, 1])).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]
    frozen = nn.Embedding.from_pretrained(torch.ones(2, 3))
    assert not frozen.weight.requires_grad and frozen(torch.tensor(1)).tolist() == [1, 1, 1]


def test_conv2d():
    layer = filled(nn.Conv2d(1, 1, 2), weight=[[[[1.0, 2.0], [3.0, 4.0]]]], bias=[1.0])
    image = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert_values(layer(image), [[[[28.0, 38.0], [58.0, 68.0]]]])
    assert nn.Conv2d(1, 1, 3, padding=1, stride=2)(image).shape == (1, 1, 2, 2)


def test_norms():
    x = np.array([[1.0, 2.0, 3.0, 6.0]], np.float32)
    centered = (x - 3) / np.sqrt(3.5 + 1e-5)
    assert_values(nn.LayerNorm(4)(torch.from_numpy(x)), centered, 1e-5)
    assert_values(nn.RMSNorm(4, eps=0.0)(torch.from_numpy(x)), x / np.sqrt(12.5), 1e-5)
    assert_values(nn.GroupNorm(1, 4)(torch.from_numpy(x)), centered, 1e-5)


def test_batch_norm_tracks_and_uses_statistics():
    layer = nn.BatchNorm1d(1)
    x = torch.tensor([[1.0], [3.0]])
    assert_values(layer(x), [[-1.0], [1.0]], 1e-4)
    assert_values(layer.running_mean, [0.2])
    assert_values(layer.running_var, [0.9 + 0.1 * 2])
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    assert_values(layer(x), [[0.8 / math.sqrt(1.1)], [2.8 / math.sqrt(1.1)]], 1e-4)
    assert layer.num_batches_tracked.item() == 1
    old = layer.state_dict()
    del old["num_batches_tracked"], old._metadata
    nn.BatchNorm1d(1).load_state_dict(old)


@pytest.mark.parametrize("layer", [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d])
def test_dropout(layer):
    x = torch.ones(50, 40, 2, 2, 2) if layer is nn.Dropout3d else torch.ones(50, 40, 2, 2)
    x = x[..., 0] if layer is nn.Dropout1d else x
    out = layer(0.25)(x)
    values = out.numpy()
    assert set(np.unique(np.round(values, 4))) == {0.0, np.float32(1.3333)}
    assert 0.2 < (values == 0).mean() < 0.3
    if layer is not nn.Dropout:
        flat = values.reshape(50, 40, -1)
        assert (flat.min(-1) == flat.max(-1)).all()
    assert layer(0.25).eval()(x).tolist() == x.tolist()
    assert layer(1.0)(x).abs().sum().item() == 0


ACTIVATIONS = {
    "ReLU": lambda x: np.maximum(x, 0),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "CELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "LeakyReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "PReLU": lambda x: np.where(x > 0, x, 0.25 * x),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "Hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "Tanhshrink": lambda x: x - np.tanh(x),
    "Hardtanh": lambda x: np.clip(x, -1, 1),
    "Hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "LogSigmoid": lambda x: -np.log1p(np.exp(-x)),
    "RReLU": lambda x: np.where(x > 0, x, (1 / 8 + 1 / 3) / 2 * x),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name):
    x = np.linspace(-8, 8, 33, dtype=np.float32) + 0.01
    layer = getattr(nn, name)().eval()
    assert_values(layer(torch.from_numpy(x.copy())), ACTIVATIONS[name](x), 1e-5)


@pytest.mark.parametrize(
    "name", ["ReLU", "SiLU", "ELU", "CELU", "SELU", "LeakyReLU", "Hardsigmoid"]
)
def test_inplace_activation_changes_its_input(name):
    x = torch.tensor([-1.0, 2.0])
    out = getattr(nn, name)(inplace=True)(x)
    assert out is x or out.tolist() == x.tolist()
    assert x.tolist() == getattr(nn, name)()(torch.tensor([-1.0, 2.0])).tolist()


def test_losses():
    x, y = torch.tensor([1.0, 4.0]), torch.tensor([0.0, 2.0])
    assert nn.MSELoss()(x, y).item() == 2.5
    assert nn.L1Loss(reduction="sum")(x, y).item() == 3
    assert nn.SmoothL1Loss(reduction="none")(x, y).tolist() == [0.5, 1.5]
    assert nn.HuberLoss(reduction="none", delta=1.0)(x, y).tolist() == [0.5, 1.5]
    logits = torch.tensor([[0.0, 0.0], [0.0, math.log(3.0)]])
    expected = (math.log(2) + math.log(4 / 3)) / 2
    assert_values(nn.CrossEntropyLoss()(logits, torch.tensor([0, 1])), expected)
    assert_values(nn.BCEWithLogitsLoss()(torch.tensor([0.0]), torch.tensor([1.0])), math.log(2))
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    assert list(nn.CrossEntropyLoss(torch.ones(2)).state_dict()) == ["weight"]


def test_pools_and_shapes():
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert nn.MaxPool2d(2)(image).flatten().tolist() == [5, 7, 13, 15]
    assert nn.AvgPool2d(2)(image).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert nn.AdaptiveAvgPool2d(1)(image).item() == 7.5
    assert nn.Flatten()(image).shape == (1, 16)
    assert nn.Unflatten(1, (1, 1))(image).shape == (1, 1, 1, 4, 4)
    assert nn.PixelShuffle(2)(image.reshape(1, 4, 2, 2)).flatten()[:4].tolist() == [0, 4, 1, 5]
    assert nn.ZeroPad2d(1)(image).shape == (1, 1, 6, 6)


def test_attention_of_one_key_returns_its_value():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.ones(1, 3, 4)
    out, weights = layer(x, x[:, :1], x[:, :1])
    assert out.shape == (1, 3, 4) and weights.flatten().tolist() == [1, 1, 1]
    assert layer(x, x, x, need_weights=False)[1] is None
    assert layer(x[0], x[0], x[0])[0].shape == (3, 4)
    per_head = layer(x, x, x, average_attn_weights=False)[1]
    assert per_head.shape == (1, 2, 3, 3)


def test_signatures_of_layers_are_read_in_any_module():
    found = inspect.signature(torch.nn.CrossEntropyLoss).parameters
    assert found["weight"].annotation == "torch.Tensor | None"
    hints = typing.get_type_hints(torch.nn.CrossEntropyLoss.__init__)
    assert hints["size_average"] == (bool | None)
    # Of an object, with the names of another module only.
    hints = typing.get_type_hints(torch.nn.CrossEntropyLoss(), globalns={}, localns={})
    assert hints["label_smoothing"] is float and "weight" not in hints
