"""Tensors on other devices: where they are, what may meet, what moves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import rushlight as torch
from rushlight.backends import find_backend
from rushlight.backends.opencl import driver_impl, session_impl
from rushlight.base import devices
from rushlight.base.config import config
from rushlight.compiler.target import Missing

HERE = not isinstance(find_backend("opencl").find(), Missing)
needs_opencl = pytest.mark.skipif(not HERE, reason="no OpenCL device here")


def test_a_device_that_is_not_there_says_why() -> None:
    why = "is no GPU of Intel's.+RUSHLIGHT_OPENCL_DEVICE" if HERE else r"rushlight\[opencl\]"
    with pytest.raises(RuntimeError, match=f"device 'xpu' is not available: .*{why}"):
        torch.zeros(3, device="xpu")
    with pytest.raises(RuntimeError, match="device 'hip' is not available: no code.+'opencl'"):
        torch.zeros(3, device="hip")
    with config.override(triton_interpret=False):
        with pytest.raises(AssertionError, match="not compiled with CUDA enabled\n.+install"):
            torch.zeros(3, device="cuda")


@needs_opencl
def test_an_intel_gpu_of_opencl_is_xpu(monkeypatch) -> None:
    """Which PoCL's device is taken for here. What it computes, OpenCL computes."""
    monkeypatch.setattr(driver_impl, "is_intel_gpu", lambda found: True)
    monkeypatch.setattr(devices, "_HERE", dict(devices._HERE))
    launched, launch = [], session_impl.OpenCLSession.launch
    monkeypatch.setattr(
        session_impl.OpenCLSession, "launch",
        lambda session, one: (launched.append(one), launch(session, one)),
    )  # fmt: skip
    x = torch.arange(6.0).to("xpu")
    total = (x * 2).sum()
    assert total.item() == 30.0 and launched
    assert x.device == total.device == torch.device("xpu")
    with pytest.raises(RuntimeError, match="there is one device of this type, 'xpu:0'"):
        torch.zeros(3, device="xpu:1")


@pytest.mark.parametrize(
    ("vendor", "kind", "is_one"),
    [(driver_impl.INTEL, 4, True), (driver_impl.INTEL, 2, False), (0x10DE, 4, False)],
)
def test_an_intel_gpu_is_told_from_intels_cpus_and_others_gpus(vendor, kind, is_one) -> None:
    cl = SimpleNamespace(device_type=SimpleNamespace(CPU=2, GPU=4))
    found = SimpleNamespace(cl=cl, device=SimpleNamespace(vendor_id=vendor, type=kind))
    assert driver_impl.is_intel_gpu(found) == is_one


@pytest.mark.skipif(HERE, reason="there is an OpenCL device")
def test_opencl_without_a_driver_names_the_fix() -> None:
    with pytest.raises(RuntimeError, match="rushlight\\[opencl\\]"):
        torch.zeros(3).to("opencl")


def test_tensors_are_on_the_cpu() -> None:
    x = torch.ones(3)
    assert x.device == torch.device("cpu") and x.to("cpu") is x and x.cpu() is x


@needs_opencl
def test_results_are_where_the_operands_are() -> None:
    x = torch.randn(4, 5)
    y = x.to("opencl")
    made = torch.randn(5, 3, device=torch.device("opencl"))
    for tensor in (y, y * 2, y @ made, y.sum(), y[0], torch.zeros_like(y), y.t()):
        assert tensor.device == torch.device("opencl")
    assert torch.zeros_like(x).device == x.device
    np.testing.assert_allclose((y * 2).cpu().numpy(), x.numpy() * 2)


@needs_opencl
def test_tensors_of_two_devices_do_not_meet() -> None:
    x = torch.randn(4)
    x.tolist()  # now it is somewhere: what was only drawn may still be computed anywhere
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x + x.to("opencl")
    assert (x.to("opencl") * torch.tensor(2.0)).device.type == "opencl"  # a number of the CPU may


@needs_opencl
def test_numpy_asks_for_cpu() -> None:
    y = torch.ones(3, device="opencl")
    with pytest.raises(TypeError, match="can't convert opencl device type tensor to numpy"):
        y.numpy()
    assert y.tolist() == [1.0, 1.0, 1.0] and y.cpu().numpy().sum() == 3


@needs_opencl
def test_gradients_cross_devices() -> None:
    x = torch.randn(6, requires_grad=True)
    w = torch.randn(6, device="opencl", requires_grad=True)
    loss = ((x.to("opencl") * w).cpu() ** 2).sum()
    loss.backward()
    assert x.grad.device.type == "cpu" and w.grad.device.type == "opencl"
    a, b = x.detach().numpy(), w.detach().cpu().numpy()
    np.testing.assert_allclose(x.grad.numpy(), 2 * a * b * b, rtol=1e-5)
    np.testing.assert_allclose(w.grad.cpu().numpy(), 2 * a * a * b, rtol=1e-5)


@needs_opencl
def test_a_module_trains_on_a_device() -> None:
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))]
    models.append(torch.nn.Sequential(*(type(m)(*s) for m, s in (
        (models[0][0], (8, 16)), (models[0][1], ()), (models[0][2], (16, 1))))))  # fmt: skip
    models[1].load_state_dict(models[0].state_dict())
    models[1].to("opencl")
    x, y = torch.randn(32, 8), torch.randn(32, 1)
    curves = []
    for model, place in zip(models, ("cpu", "opencl"), strict=True):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = ((model(x.to(place)) - y.to(place)) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
        assert all(p.device.type == place for p in model.parameters())
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)


@needs_opencl
def test_a_model_comes_back_from_a_device() -> None:
    """What only the moved tensor needs is donated: its memory changes the device with it."""

    def seen(model: torch.nn.Module) -> tuple[set[str], list[list[float]]]:
        state = model.state_dict().values()  # kept, it would keep the memory from being donated
        return {value.device.type for value in state}, [value.tolist() for value in state]

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    _, before = seen(model)
    for place in ("opencl", "cpu", "opencl", "cpu"):
        model.to(place)
        assert seen(model) == ({place}, before)
    model(torch.ones(2, 3))


@needs_opencl
@pytest.mark.parametrize("place", ["opencl", "meta"])
def test_files_are_loaded_to_a_device(place, tmp_path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    saved = {"whole": whole, "row": whole[1], "turned": whole.t(), "none": torch.empty(0, 3)}
    torch.save(saved, tmp_path / "x.pt")
    for options in ({}, {"mmap": True}, {"weights_only": False}):
        got = torch.load(tmp_path / "x.pt", map_location=torch.device(place), **options)
        for name, value in got.items():
            assert value.device.type == place and value.shape == saved[name].shape
            assert value.stride() == saved[name].stride()
        if place == "opencl":
            assert all(value.tolist() == saved[name].tolist() for name, value in got.items())
            got["row"].zero_()  # memory is shared as it was
            assert got["whole"][1].tolist() == got["turned"][:, 1].tolist() == [0, 0, 0, 0]
    with pytest.raises(RuntimeError, match="there is one device of this type"):
        torch.load(tmp_path / "x.pt", map_location="opencl:3")


@needs_opencl
def test_the_child_of_a_fork_is_told_that_opencl_does_not_work_there(monkeypatch) -> None:
    x = torch.arange(3.0).to("opencl")
    assert (x + 1).sum().item() == 6.0
    other = driver_impl.os.getpid() + 1
    monkeypatch.setattr(driver_impl.os, "getpid", lambda: other)
    with pytest.raises(RuntimeError, match="before this process was forked.+'spawn'"):
        (x + 1).sum().item()
    monkeypatch.undo()
    assert (x + 1).sum().item() == 6.0
