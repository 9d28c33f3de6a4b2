"""What devices say of themselves: values from imitations, and errors that say what is not there."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

import rushlight as torch
from rushlight import xpu
from rushlight.backends import find_backend
from rushlight.backends.opencl.sensors_impl import OpenCLSensors
from rushlight.base.sensors import HOST
from rushlight.compiler.target import Missing
from rushlight.runtime.nvml_impl import Nvml
from rushlight.runtime.telemetry import QUESTIONS

HERE = not isinstance(find_backend("opencl").find(), Missing)


class NVMLError(Exception):
    pass


def imitation(count: int = 2) -> SimpleNamespace:
    def handle(index):
        if index >= count:
            raise NVMLError("Invalid Argument")
        return index

    def power(gpu):
        if gpu == 1:
            raise NVMLError("Not Supported")
        return 250_500

    return SimpleNamespace(
        NVMLError=NVMLError, NVML_TEMPERATURE_GPU=0, NVML_CLOCK_SM=1,
        nvmlInit=lambda: None, nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetName=lambda gpu: b"NVIDIA H200",
        nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(total=1 << 40, used=7 << 30),
        nvmlDeviceGetUtilizationRates=lambda gpu: SimpleNamespace(gpu=83, memory=12),
        nvmlDeviceGetTemperature=lambda gpu, kind: 61, nvmlDeviceGetPowerUsage=power,
        nvmlDeviceGetClockInfo=lambda gpu, kind: 1980,
    )  # fmt: skip


def test_nvml_is_asked_in_its_units() -> None:
    gpu = Nvml(0, imitation())
    assert [getattr(gpu, question)() for question in QUESTIONS] == [
        "NVIDIA H200", 1 << 40, 7 << 30, 83.0, 61.0, 250.5, 1980.0,
    ]  # fmt: skip
    assert gpu.memory_usage() == 12.0


def test_what_a_gpu_does_not_tell_is_an_error_with_its_reason() -> None:
    with pytest.raises(RuntimeError, match=r"power_draw: NVML says: Not Supported \(GPU 1"):
        Nvml(1, imitation()).power_draw()
    with pytest.raises(RuntimeError, match="name: NVML says: Invalid Argument"):
        Nvml(5, imitation()).name()


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is not None, reason="pynvml is here")
@pytest.mark.parametrize("module", [torch.cuda, torch.accelerator])
def test_without_nvml_the_fix_is_named(module) -> None:
    with pytest.raises(RuntimeError, match=r"nvidia-ml-py is not installed.*rushlight\[cuda\]"):
        module.utilization("cuda:0")


def test_the_host_answers_for_the_cpu() -> None:
    assert torch.accelerator.total_memory() == HOST.total_memory() > 0
    assert torch.accelerator.get_memory_allocated("cpu") > 0
    assert torch.accelerator.get_device_name("cpu") == HOST.name()
    assert 0 <= torch.accelerator.get_device_utilization() <= 100


def test_devices_that_are_not_there_say_why() -> None:
    with pytest.raises(RuntimeError, match="device 'xpu' tells nothing: .*(Intel|opencl)"):
        torch.accelerator.utilization("xpu")
    with pytest.raises(AssertionError, match="not compiled with XPU enabled\n.*(Intel|opencl)"):
        torch.xpu.get_device_utilization()


def opencl_device(**more) -> SimpleNamespace:
    return SimpleNamespace(
        name="Some GPU", global_mem_size=8 << 30, max_clock_frequency=1500,
        global_mem_cache_size=4 << 20, **more,
    )  # fmt: skip


def test_opencl_tells_what_it_has_and_no_more() -> None:
    gpu = OpenCLSensors(opencl_device(), is_cpu=False)
    assert (gpu.name(), gpu.total_memory(), gpu.clock_rate()) == ("Some GPU", 8 << 30, 1500.0)
    assert gpu.last_level_cache_size() == 4 << 20
    for question in ("device_memory_used", "utilization", "temperature", "power_draw"):
        with pytest.raises(RuntimeError, match=f"{question}: OpenCL has no such query.*Some GPU"):
            getattr(gpu, question)()


def test_an_intel_gpu_answers_to_torch_xpu(monkeypatch) -> None:
    gpu = opencl_device(max_compute_units=128, host_unified_memory=False)
    monkeypatch.setattr(xpu, "why_missing", lambda kind: "")
    monkeypatch.setattr(xpu, "sensors_of", lambda device: OpenCLSensors(gpu, is_cpu=False))
    properties = xpu.get_device_properties()
    assert properties.total_physical_eus == properties.gpu_eu_count == 128
    assert (properties.name, properties.total_memory) == (xpu.get_device_name(), 8 << 30)
    assert properties.last_level_cache_size == 4 << 20 and not properties.is_integrated_gpu
    assert xpu.clock_rate() == 1500.0
    for question in ("memory_usage", "device_memory_used", "utilization", "temperature",
                     "power_draw"):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"{question}: OpenCL has no such query"):
            getattr(xpu, question)()


@pytest.mark.skipif(not HERE, reason="no OpenCL device here")
def test_an_opencl_device_that_is_the_cpu_is_as_busy_as_the_host() -> None:
    assert torch.accelerator.get_device_name("opencl")
    assert torch.accelerator.total_memory("opencl") > 0
    assert torch.accelerator.device_memory_used("opencl") > 0
    assert torch.accelerator.clock_rate("opencl") > 0
