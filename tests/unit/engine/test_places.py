"""What stays on its device: in-place changes, gradients, parameters, results that the host makes.

The device is "opencl", computed by LLVM: where a tensor is does not depend on who computes it.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator

import numpy as np
import pytest

import rushlight as torch
from rushlight.backends import DEVICE_BACKENDS
from rushlight.base import devices

THERE = torch.device("opencl")


@pytest.fixture(autouse=True)
def another_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(DEVICE_BACKENDS, "opencl", "llvm")
    monkeypatch.setattr(devices, "_HERE", dict(devices._HERE))
    monkeypatch.setattr(devices.DEVICES, "used", True)
    yield


def there(*values: float) -> torch.Tensor:
    return torch.tensor(values, device=THERE)


@pytest.mark.parametrize(
    ("name", "args"),
    [("zero_", ()), ("fill_", (2,)), ("uniform_", ()), ("normal_", ()), ("exponential_", ()),
     ("bernoulli_", ()), ("geometric_", (0.5,)), ("copy_", (torch.tensor([1.0, 2.0]),))],
)  # fmt: skip
def test_a_tensor_that_is_overwritten_stays_on_its_device(name: str, args: tuple) -> None:
    x = there(3.0, 4.0)
    assert getattr(x, name)(*args).device == THERE == x.device
    assert np.isfinite(x.tolist()).all() and x.device == THERE
    here = torch.tensor([3.0, 4.0])
    assert here.copy_(x).device.type == "cpu" == here.device.type


def test_writes_through_views_and_keys_stay() -> None:
    x = torch.zeros(3, 3, device=THERE)
    x[:], x[0] = 1.0, torch.tensor([1.0, 2.0, 3.0])
    x[1, :2] = there(7.0, 8.0)
    x[[2, 2]] = [4.0, 5.0, 6.0]
    x[torch.tensor([0])] += 1  # an index of the CPU goes with any device
    assert x.device == THERE
    assert x.tolist() == [[2, 3, 4], [7, 8, 1], [4, 5, 6]]
    here = torch.zeros(2, 2)
    here[0] = there(1.0, 2.0)
    assert here.device.type == "cpu" and here.tolist() == [[1, 2], [0, 0]]


def test_what_the_host_computes_is_put_beside_its_operand() -> None:
    x = there(3.0, 1.0, 1.0)
    found = [x.nonzero(), *x.nonzero(as_tuple=True), *x.unique(return_counts=True), x[x > 2],
             *torch.unique_consecutive(x, return_inverse=True), x.repeat_interleave(2)]  # fmt: skip
    assert [t.device for t in found] == [THERE] * len(found)
    assert (x[x > 2] * 2).tolist() == [6.0]


def test_gradients_without_any_value_are_beside_their_tensor() -> None:
    x = there(1.0, 2.0).requires_grad_()
    (first,) = torch.autograd.grad((x + 1).sum(), x)
    (x + 1).sum().backward()
    assert first.device == x.grad.device == THERE
    with pytest.raises(RuntimeError, match="gradient with device type 'cpu' to a tensor"):
        x.grad = torch.ones(2)


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_an_optimizer_made_before_the_move_trains(kind: str) -> None:
    """The parameter stays the same object, and a constant gradient (of the bias) is there, too."""
    ends = []
    for is_before in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        weight = model.weight
        if not is_before:
            model.to(THERE)
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)
        model.to(THERE)
        assert model.weight is weight and weight.device == THERE
        start = weight.tolist()
        for _ in range(2):
            optimizer.zero_grad()
            model(there(1.0, 2.0)).sum().backward()
            optimizer.step()
        assert weight.device == THERE and weight.tolist() != start
        ends.append([p.tolist() for p in model.parameters()])
    assert ends[0] == ends[1]


def test_a_saved_optimizer_is_loaded_beside_its_parameters() -> None:
    model = torch.nn.Linear(2, 2).to(THERE)
    optimizer = torch.optim.Adam(model.parameters())
    model(there(1.0, 2.0)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    again = torch.optim.Adam(model.parameters())
    again.load_state_dict(torch.load(file, map_location="cpu"))
    again.step()
    assert {t.device for state in again.state.values() for t in state.values()} == {THERE}


def test_states_are_loaded_between_devices() -> None:
    here, far = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).to(THERE)
    far.load_state_dict(here.state_dict())
    assert far.weight.device == THERE and far.weight.tolist() == here.weight.tolist()
    here.load_state_dict(copy.deepcopy(far.state_dict()))
    assert here.weight.device.type == "cpu"


def test_modules_are_made_and_moved_to_meta_as_new_parameters() -> None:
    with THERE:
        assert torch.nn.Linear(2, 2).weight.device == THERE
    model = torch.nn.Linear(2, 2)
    weight = model.weight
    assert model.to("meta").weight is not weight
    assert model.to_empty(device=THERE).weight.device == THERE


def test_generators_and_autocast_know_the_device() -> None:
    numbers = [
        torch.rand(3, device=place, generator=torch.Generator(place).manual_seed(3)).tolist()
        for place in ("cpu", THERE)
    ]
    assert numbers[0] == numbers[1] and torch.Generator(THERE).device == THERE
    with torch.autocast("opencl", dtype=torch.bfloat16):
        product = torch.ones(2, 2, device=THERE) @ torch.ones(2, 2, device=THERE)
    assert product.dtype is torch.bfloat16 and product.device == THERE


def test_memory_that_numpy_sees_stays_on_its_device() -> None:
    x = there(1.0, 2.0)
    assert x.data_ptr() and x.device == THERE and (x + 1).device == THERE


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tensor([1.0, 3.0], device=THERE).quantile(0.5),
        lambda x: torch.isin(x, 3.0),
        lambda x: torch.bincount(x.long()),
        lambda x: torch.histc(x, 3),
        lambda x: torch.linalg.matrix_power(torch.eye(2, device=THERE), 0),
        lambda x: torch.linalg.vander(x, N=1),
        lambda x: torch.bernoulli(x, 0.5),
        lambda x: torch.nn.functional.adaptive_max_pool1d(x[None], 2),
        lambda x: x.sum().sort()[1],
        lambda x: torch.combinations(x),
        lambda x: x.to_sparse_csr().to_dense() if x.dim() > 1 else x,
    ],
)
def test_tables_of_the_library_go_with_any_device(function) -> None:
    found = function(there(1.0, 2.0, 3.0))
    assert found.device == THERE and len(str(found.tolist()))


def test_data_of_the_user_is_on_the_cpu_or_the_current_device() -> None:
    for made in (torch.tensor([1.0, 2.0]), torch.as_tensor([1.0, 2.0]), torch.asarray([1.0, 2.0])):
        assert made.device.type == "cpu"
        with pytest.raises(RuntimeError, match="found at least two devices"):
            made + there(1.0, 2.0)
    with THERE:
        assert torch.as_tensor([1.0]).device == torch.asarray([1.0]).device == THERE
