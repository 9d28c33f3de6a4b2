"""torch.accelerator: the GPU that is there, of ACCELERATORS; often none (see names/absent.py).

Telemetry is Rushlight's own here, for any device: `utilization("opencl")`, `temperature("cuda:1")`.
"""

from __future__ import annotations

import importlib
from typing import Any

from rushlight.base.devices import ACCELERATORS
from rushlight.base.devices import device as _device
from rushlight.engine.devices import sensors_of
from rushlight.names.absent import Absent, Here, absent_class
from rushlight.tensors import device_calls

NO_ACCELERATOR = RuntimeError("Cannot access accelerator device when none is available.")


def _kind() -> str | None:
    return next(filter(device_calls.is_here, ACCELERATORS), None)


def _set_device(device: Any) -> None:
    device_calls.check_index(_kind() or "cuda", device)


def _memory_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes."""
    asked = sensors_of(current_accelerator() if device is None else device)
    total = asked.total_memory()
    return total - asked.device_memory_used(), total


_HERE = Here(
    lambda: _kind() is not None,
    {
        **device_calls.functions_of("cuda"), "set_device_index": _set_device,
        "set_device_idx": _set_device, "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0, "get_memory_info": _memory_info,
    },
    {"Stream": device_calls.Stream, "Event": device_calls.Event},
)  # fmt: skip
_ABSENT = Absent(
    __name__, NO_ACCELERATOR,
    zero="device_count", no="is_available",
    need="""current_device_index current_device_idx set_device_index set_device_idx current_stream
    set_stream synchronize empty_cache get_memory_info memory_allocated memory_reserved
    max_memory_allocated max_memory_reserved memory_stats reset_peak_memory_stats
    reset_accumulated_memory_stats get_device_capability""",
    here=_HERE,
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()


def current_accelerator(check_available: bool = False) -> Any:
    """The device type of the accelerator; None where there is none."""
    kind = _kind()
    return None if kind is None else _device(kind)


class device_index:  # noqa: N801
    """The context of an accelerator's device; None: nothing to switch to."""

    def __init__(self, device: int | None) -> None:
        if device is not None:
            _ABSENT.make("set_device_index")()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


Stream = absent_class("Stream", "torch", NO_ACCELERATOR, _HERE)
Event = absent_class("Event", "torch", NO_ACCELERATOR, _HERE)


def get_device_module(device: Any = None) -> Any:
    """The module of a device type, torch.cpu for None."""
    name = "cpu" if device is None else str(device).partition(":")[0]
    found = importlib.import_module("rushlight")
    if name not in ("cpu", "cuda", "mps", "xpu", "mtia"):
        raise RuntimeError(
            f"Invalid device '{device}'. torch.get_device_module: there is no module for it"
        )
    return getattr(found, name)


# What a device says of itself. The host answers for "cpu", NVML for "cuda", the driver for
# "opencl". A value that is not told is a RuntimeError that says why, never 0.


def get_device_name(device: Any = None) -> str:
    """What it is called. `device`: None is the current one."""
    return sensors_of(device).name()


def total_memory(device: Any = None) -> int:
    """Bytes of its memory."""
    return sensors_of(device).total_memory()


def device_memory_used(device: Any = None) -> int:
    """Bytes of its memory that no program could get now."""
    return sensors_of(device).device_memory_used()


def utilization(device: Any = None) -> float:
    """Percent of the time in which it worked."""
    return sensors_of(device).utilization()


def temperature(device: Any = None) -> float:
    """Degrees Celsius."""
    return sensors_of(device).temperature()


def power_draw(device: Any = None) -> float:
    """Watts."""
    return sensors_of(device).power_draw()


def clock_rate(device: Any = None) -> float:
    """MHz (OpenCL tells the highest)."""
    return sensors_of(device).clock_rate()


get_device_utilization = utilization  # as articles spell it
get_memory_allocated = device_memory_used

__all__ = sorted(
    """current_accelerator device_index get_device_name total_memory device_memory_used utilization
    temperature power_draw clock_rate get_device_utilization get_memory_allocated""".split()
    + _ABSENT.names
)
