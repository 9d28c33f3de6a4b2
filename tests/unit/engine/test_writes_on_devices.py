"""A tensor stays on its device, whatever is written into it; gradients are where the tensor is."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.compiler.target import Missing

HERE = not isinstance(find_backend("opencl").find(), Missing)
pytestmark = pytest.mark.skipif(not HERE, reason="no OpenCL device here")
TWO = "Expected all tensors to be on the same device, but found at least two devices"


@pytest.fixture(params=["computed", "pending"])
def x(request) -> torch.Tensor:
    made = torch.arange(6.0, device="opencl") * 1
    if request.param == "computed":
        made.tolist()
    return made


def on_cpu() -> torch.Tensor:
    made = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    made.tolist()
    return made


WRITES = {
    "zero_": lambda x: x.zero_(), "fill_": lambda x: x.fill_(2), "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.uniform_(), "random_": lambda x: x.random_(5),
    "bernoulli_": lambda x: x.bernoulli_(0.5), "cauchy_": lambda x: x.cauchy_(),
    "geometric_": lambda x: x.geometric_(0.5), "init": lambda x: torch.nn.init.normal_(x),
    "[:] = 1": lambda x: x.__setitem__(slice(None), 1.0),
    "[...] = tensor": lambda x: x.__setitem__(Ellipsis, torch.ones(6)),
    "copy_": lambda x: x.copy_(on_cpu()), "copy_ drawn": lambda x: x.copy_(torch.randn(6)),
    "a view": lambda x: x.view(2, 3).zero_(),
    "a row": lambda x: x.view(2, 3)[0].copy_(on_cpu()[:3]),
    "a list": lambda x: x.__setitem__(slice(0, 2), [7.0, 8.0]),
    "at a list": lambda x: x.__setitem__([0, 3], torch.tensor(9.0)),
    "at indices": lambda x: x.__setitem__(torch.tensor([1, 2]), [3.0, 4.0]),
    "at a mask": lambda x: x.__setitem__(torch.tensor([True, False] * 3), 4.0),
    "where": lambda x: x.__setitem__(x > 2, 4.0), "add_": lambda x: x.add_(torch.tensor(1.0)),
    "storage": lambda x: x.untyped_storage().fill_(0), "address": lambda x: x.data_ptr(),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_stays_on_the_device(name: str, x) -> None:
    torch.manual_seed(3)
    plain = torch.arange(6.0)
    plain.tolist()
    WRITES[name](plain)
    torch.manual_seed(3)
    WRITES[name](x)
    assert x.device.type == "opencl" and plain.device.type == "cpu"
    assert (x + torch.ones(6, device="opencl")).device.type == "opencl"
    np.testing.assert_allclose(x.cpu().numpy(), plain.numpy(), rtol=1e-6)


BACK = {
    "copy_": lambda a, x: a.copy_(x), "[:]": lambda a, x: a.__setitem__(slice(None), x),
    "a part": lambda a, x: a[1:4].copy_(x[:3]),
    "foreach": lambda a, x: torch._foreach_copy_([a], [x]),
    "number at a mask": lambda a, x: a.__setitem__(a > 1, x[3]),
}  # fmt: skip


@pytest.mark.parametrize("name", BACK)
@pytest.mark.parametrize("make", [on_cpu, lambda: torch.zeros(6)], ids=["computed", "pending"])
def test_copies_come_back(name: str, make, x) -> None:
    a, expected = make(), make()
    BACK[name](a, x)
    BACK[name](expected, x.cpu())
    assert a.device.type == "cpu" and a.tolist() == expected.tolist()


def test_ops_in_place_and_out_do_not_cross(x) -> None:
    for wrong in (
        lambda: on_cpu().add_(x), lambda: torch.zeros(6).mul_(x), lambda: x.add_(on_cpu()),
        lambda: torch.add(x, x, out=torch.zeros(6)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=TWO):
            wrong()


def test_indices_of_the_cpu_go_with_any_tensor(x) -> None:
    at, mask = torch.tensor([1, -1]), torch.tensor([True, False] * 3)
    at.tolist(), mask.tolist()
    table = x.view(3, 2)
    for found, expected in (
        (x[at], [1, 5]), (x[[0, 2]], [0, 2]), (x[mask], [0, 2, 4]), (x[x > 3], [4, 5]),
        (x[np.array([1, 2])], [1, 2]), (table[:, torch.tensor([1])], [[1], [3], [5]]),
        (table[at, [0, 1]], [2, 5]),
    ):  # fmt: skip
        assert found.device.type == "opencl" and found.tolist() == expected
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        on_cpu()[at.to("opencl")]
    with pytest.raises(IndexError, match="out of bounds"):
        x[torch.tensor([7])].tolist()


def test_gradients_are_where_the_tensor_is() -> None:
    """Also those that are made of numbers alone: of a bias, of what was overwritten."""
    layer = torch.nn.Linear(4, 2).to("opencl")
    optimizer = torch.optim.Adam(layer.parameters())
    seen = []
    out = layer(torch.ones(1, 4, device="opencl"))
    out.register_hook(lambda grad: seen.append(grad.device.type))
    out.sum().backward()
    assert seen == ["opencl"]
    assert all(p.grad.device.type == "opencl" for p in layer.parameters())
    optimizer.step()
    assert all(p.device.type == "opencl" for p in layer.parameters())
    state = optimizer.state[layer.bias]
    assert state["exp_avg"].device.type == "opencl"
    w = torch.ones(3, device="opencl", requires_grad=True)
    b = torch.ones(3, device="opencl", requires_grad=True)
    made = torch.autograd.grad((w * 2).sum(), (w, b), materialize_grads=True)
    assert [g.device.type for g in made] == ["opencl"] * 2 and made[1].tolist() == [0, 0, 0]


def test_a_state_of_a_device_is_loaded_into_a_model_of_the_cpu() -> None:
    there, here = torch.nn.Linear(3, 2).to("opencl"), torch.nn.Linear(3, 2)
    here.load_state_dict(there.state_dict())
    assert here.weight.device.type == "cpu"
    assert here.weight.tolist() == there.weight.tolist()
    there.reset_parameters()
    assert there.weight.device.type == there(torch.ones(1, 3, device="opencl")).device.type
