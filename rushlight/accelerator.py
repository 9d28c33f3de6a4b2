"""torch.accelerator: there is none beside the CPU."""

from __future__ import annotations

from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The device type of the accelerator: None."""
    return None


def synchronize(device: Any = None) -> None:
    raise RuntimeError("Cannot access accelerator device when none is available.")
