"""torch.accelerator: there is none beside the CPU (see names/absent.py)."""

from __future__ import annotations

from typing import Any

from rushlight.names.absent import Absent

_ABSENT = Absent(
    __name__, RuntimeError("Cannot access accelerator device when none is available."),
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


__all__ = sorted(["current_accelerator", "device_index", *_ABSENT.names])
