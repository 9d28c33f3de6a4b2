"""Starting values and gradient helpers."""

import math

import pytest

import rushlight as torch

init, utils = torch.nn.init, torch.nn.utils


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    "name,std",
    [
        ("xavier_uniform_", math.sqrt(2 / 500)),
        ("xavier_normal_", math.sqrt(2 / 500)),
        ("kaiming_uniform_", math.sqrt(2 / 300)),
        ("kaiming_normal_", math.sqrt(2 / 300)),
    ],
)
def test_spread_of_scaled_inits(name, std):
    tensor = getattr(init, name)(torch.empty(200, 300), generator=generator())
    assert abs(tensor.std().item() / std - 1) < 0.03 and abs(tensor.mean().item()) < std / 20


def test_equal_generators_give_equal_values():
    for name in ("uniform_", "normal_", "trunc_normal_", "orthogonal_", "kaiming_normal_"):
        a, b = (getattr(init, name)(torch.empty(3, 4), generator=generator(5)) for _ in "ab")
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("low,high", [(-1.0, 0.5), (2.0, 3.0)])
def test_truncated_normal_stays_inside(low, high):
    tensor = init.trunc_normal_(torch.empty(5000), a=low, b=high, generator=generator())
    assert low <= tensor.min().item() and tensor.max().item() <= high

    def density(x):
        return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    def below(x):
        return (1 + math.erf(x / math.sqrt(2))) / 2

    mean = (density(low) - density(high)) / (below(high) - below(low))
    assert abs(tensor.mean().item() - mean) < 0.02


def test_truncated_normal_warns_when_far_from_the_mean():
    with pytest.warns(UserWarning, match="mean is more than 2 std"):
        init.trunc_normal_(torch.empty(3), mean=10.0, generator=generator())


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (4, 2, 3)])
def test_orthogonal_rows_or_columns(shape):
    tensor = init.orthogonal_(torch.empty(shape), gain=2.0, generator=generator())
    matrix = tensor.reshape(shape[0], -1)
    matrix = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()
    product = matrix @ matrix.t()
    assert (product - 4 * torch.eye(product.shape[0])).abs().max().item() < 1e-5


def test_fixed_inits():
    assert init.constant_(torch.empty(2), 3.0).tolist() == [3, 3]
    assert init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert init.zeros_(torch.empty(1)).item() == 0 and init.ones_(torch.empty(1)).item() == 1
    weight = init.dirac_(torch.empty(2, 2, 3))
    assert weight[:, :, 1].tolist() == [[1, 0], [0, 1]] and weight.sum().item() == 2
    sparse = init.sparse_(torch.empty(10, 4), 0.3)
    assert (sparse == 0).sum(0).tolist() == [3, 3, 3, 3]


def test_inits_keep_leaves_trainable():
    weight = torch.nn.Parameter(torch.empty(3, 3))
    for name in ("uniform_", "orthogonal_", "eye_", "ones_", "trunc_normal_"):
        assert getattr(init, name)(weight) is weight
    assert weight.is_leaf and weight.requires_grad


def with_grads(*values):
    parameters = [torch.nn.Parameter(torch.zeros(len(value))) for value in values]
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = torch.tensor(value)
    return parameters


def test_clip_grad_norm_scales_all_gradients():
    parameters = with_grads([3.0], [0.0, 4.0])
    assert utils.clip_grad_norm_(parameters, 1.0).item() == 5
    assert abs(parameters[0].grad.item() - 0.6) < 1e-6
    assert abs(utils.get_total_norm([p.grad for p in parameters]).item() - 1) < 1e-5
    untouched = with_grads([3.0])
    utils.clip_grad_norm_(untouched, 100.0)
    assert untouched[0].grad.item() == 3
    assert utils.clip_grad_norm_([torch.zeros(1)], 1.0).item() == 0


def test_clip_grad_norm_refuses_infinity_when_asked():
    parameters = with_grads([float("inf")])
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients"):
        utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert parameters[0].grad.item() == float("inf")


def test_clip_grad_value():
    parameters = with_grads([3.0, -3.0, 0.5])
    utils.clip_grad_value_(parameters, 1.0)
    assert parameters[0].grad.tolist() == [1, -1, 0.5]


def test_parameters_to_vector_and_back():
    model = torch.nn.Linear(2, 2)
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.shape == (6,)
    utils.vector_to_parameters(torch.arange(6.0), model.parameters())
    assert model.weight.tolist() == [[0, 1], [2, 3]] and model.bias.tolist() == [4, 5]
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: list"):
        utils.vector_to_parameters([1], model.parameters())
