"""torch.export: the exported program computes what the module computes, and refuses the rest."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.base.errors import NotSupportedError
from rushlight.export import InputKind


class Gather(nn.Module):
    """Views, splits, indices, constants and tensors that are made inside."""

    def __init__(self):
        super().__init__()
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
        self.register_buffer("order", torch.tensor([2, 0, 1]), persistent=False)

    def forward(self, x, *, shift=0.5):
        left, right = x.split(2, dim=1)
        top = torch.cat([right, left], 1)[self.order] * self.scale + shift
        top[0] = torch.arange(4.0)
        values, places = top.T.contiguous().max(dim=0)
        return {"values": values, "more": (places, torch.zeros(2) + x.mean())}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(x)


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(36, 5),
    )  # fmt: skip


MODULES = {
    "gather": (Gather, (3, 4)),
    "attention": (Attention, (2, 5, 16)),
    "cnn": (cnn, (2, 3, 8, 8)),
    "lstm": (lambda: nn.LSTM(6, 7, 2, batch_first=True), (2, 4, 6)),
}


def leaves(value):
    return torch.utils._pytree.tree_leaves(value)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("training", [False, True])
def test_program_computes_what_the_module_computes(name, training):
    torch.manual_seed(0)
    make, shape = MODULES[name]
    module = make().train(training)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    program = torch.export.export(module, (torch.randn(shape),)).module()
    for key, value in module.state_dict().items():
        assert torch.equal(value, before[key]), f"exporting changed {key}"
    x = torch.randn(shape)
    expected = leaves(module(x.clone()))
    module.load_state_dict(before)
    got = leaves(program(x))
    assert len(got) == len(expected)
    for have, want in zip(got, expected, strict=True):
        torch.testing.assert_close(have, want)


def test_parameters_are_shared_and_get_gradients():
    module = nn.Linear(3, 2)
    program = torch.export.export(module, (torch.ones(4, 3),)).module()
    program(torch.ones(4, 3)).sum().backward()
    assert torch.equal(module.weight.grad, torch.full((2, 3), 4.0))


def test_signature_names_every_input():
    program = torch.export.export(Gather(), (torch.ones(3, 4),), {"shift": 1.0})
    kinds = {spec.arg: (spec.kind, spec.target) for spec in program.graph_signature.input_specs}
    assert kinds == {
        "b_order": (InputKind.BUFFER, "order"),
        "c_scale": (InputKind.CONSTANT_TENSOR, "scale"),
        "x": (InputKind.USER_INPUT, None),
        "shift": (InputKind.USER_INPUT, None),
    }
    assert list(program.constants) == ["scale", "order"]
    assert "b_order: BUFFER target='order' persistent=False" in str(program)


def test_random_numbers_stay_as_they_are():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    torch.export.export(nn.Dropout(0.5), (torch.ones(8),))
    assert torch.equal(torch.rand(4), expected)


def test_dropout_draws_anew_in_each_call():
    program = torch.export.export(nn.Dropout(0.5), (torch.ones(64),)).module()
    assert not torch.equal(program(torch.ones(64)), program(torch.ones(64)))


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "text"),
    [
        ((torch.ones(5, 3),), {}, AssertionError, r"input.size\(\)\[0\] == 4"),
        ((torch.ones(4, 3).double(),), {}, AssertionError, "float32"),
        ((torch.ones(4),), {}, AssertionError, "len"),
        ((), {}, ValueError, "tree spec"),
        ((torch.ones(4, 3),), {"y": 1}, ValueError, "kwarg keyword mismatch"),
    ],
)
def test_other_inputs_than_the_example_are_refused(args, kwargs, error, text):
    program = torch.export.export(nn.Linear(3, 2), (torch.ones(4, 3),)).module()
    with pytest.raises(error, match=text):
        program(*args, **kwargs)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: float(x.sum()),
        lambda x: x.sum().item(),
        lambda x: 1 if x.sum() > 0 else 2,
        lambda x: x.tolist()[0],
    ],
)
def test_a_value_that_decides_is_refused(read):
    class Reads(nn.Module):
        def forward(self, x):
            return x * read(x)

    with pytest.raises(RuntimeError, match="data-dependent"):
        torch.export.export(Reads(), (torch.ones(2),))


def test_what_cannot_be_exported_is_refused_by_name():
    batch = torch.export.Dim("batch", min=2, max=8)
    x = torch.ones(4, 3)
    with pytest.raises(NotSupportedError, match="batch"):
        torch.export.export(nn.Linear(3, 2), (x,), dynamic_shapes={"input": {0: batch}})
    with pytest.raises(ValueError, match="Expected `mod`"):
        torch.export.export(torch.relu, (x,))
    with pytest.raises(TypeError, match="tuple"):
        torch.export.export(nn.ReLU(), x)
    with pytest.raises(RuntimeError, match="module"):
        torch.export.export(nn.ReLU(), (x,))(x)


def test_the_module_export_can_be_called():
    assert torch.equal(
        torch.export(nn.ReLU(), (torch.ones(2),)).module()(-torch.ones(2)), torch.zeros(2)
    )


def test_the_code_calls_public_functions():
    class Several(nn.Module):
        def forward(self, x):
            return torch.linalg.norm(torch.cat([nn.functional.gelu(x), torch.sin(x)]))

    code = torch.export.export(Several(), (torch.ones(2),)).graph_module.code
    for name in ("torch.linalg.norm", "torch.cat", "torch.nn.functional.gelu", "torch.sin"):
        assert f"{name}(" in code
    assert "rushlight." not in code


def test_buffers_are_shared_with_the_module():
    module = nn.BatchNorm1d(3)
    program = torch.export.export(module, (torch.randn(4, 3),)).module()
    assert module.num_batches_tracked.item() == 0
    program(torch.randn(4, 3))
    assert module.num_batches_tracked.item() == 1
