"""torch.accelerator: there is none beside the CPU (see names/absent.py)."""

from __future__ import annotations

import importlib
from typing import Any

from rushlight.names.absent import Absent, absent_class

NO_ACCELERATOR = RuntimeError("Cannot access accelerator device when none is available.")

_ABSENT = Absent(
    __name__, NO_ACCELERATOR,
    zero="device_count", no="is_available",
    need="""current_device_index current_device_idx set_device_index set_device_idx current_stream
    set_stream synchronize empty_cache get_memory_info memory_allocated memory_reserved
    max_memory_allocated max_memory_reserved memory_stats reset_peak_memory_stats
    reset_accumulated_memory_stats get_device_capability""",
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()


def current_accelerator(check_available: bool = False) -> Any:
    """The device type of the accelerator: None."""
    return None


class device_index:  # noqa: N801
    """The context of an accelerator's device; None: nothing to switch to."""

    def __init__(self, device: int | None) -> None:
        if device is not None:
            _ABSENT.make("set_device_index")()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


Stream = absent_class("Stream", "torch", NO_ACCELERATOR)
Event = absent_class("Event", "torch", NO_ACCELERATOR)


def get_device_module(device: Any = None) -> Any:
    """The module of a device type, torch.cpu for None."""
    name = "cpu" if device is None else str(device).partition(":")[0]
    found = importlib.import_module("rushlight")
    if name not in ("cpu", "cuda", "mps", "xpu", "mtia"):
        raise RuntimeError(
            f"Invalid device '{device}'. torch.get_device_module: there is no module for it"
        )
    return getattr(found, name)


__all__ = sorted(["current_accelerator", "device_index", *_ABSENT.names])
