"""torch.cpu: the only device, asked as if it were an accelerator. Streams order nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rushlight import names as _names
from rushlight.base.sensors import HOST

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "Event", "Stream", "StreamContext", "clock_rate", "current_device", "current_stream",
    "device_count", "device_memory_used", "get_device_properties", "get_device_utilization",
    "get_memory_allocated", "is_available", "is_initialized", "power_draw", "set_device", "stream",
    "synchronize", "temperature", "utilization",
]  # fmt: skip


class Stream:
    """The one order in which everything happens."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A point in the one order; it has always been reached."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to note."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_STREAM = Stream()


@contextmanager
def stream(stream: Any) -> Iterator[None]:
    """The context of a stream: there is one."""
    yield


StreamContext = stream


def current_stream(device: Any = None) -> Stream:
    return _STREAM


def current_device() -> str:
    return "cpu"


def device_count() -> int:
    return 1


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def set_device(device: Any) -> None:
    """There is one device."""


def synchronize(device: Any = None) -> None:
    """Accepted: reading a value waits for it."""


# What the machine says of itself: the functions of torch.xpu, for the host. A value that it does
# not tell is a RuntimeError that says why.


def utilization(device: Any = None) -> float:
    """Percent of the time in which cores worked, over a tenth of a second."""
    return HOST.utilization()


def temperature(device: Any = None) -> float:
    """Degrees Celsius of the hottest zone."""
    return HOST.temperature()


def power_draw(device: Any = None) -> float:
    """Watts of all packages, over a tenth of a second."""
    return HOST.power_draw()


def clock_rate(device: Any = None) -> float:
    """MHz, the mean of all cores."""
    return HOST.clock_rate()


def device_memory_used(device: Any = None) -> int:
    """Bytes of memory that no program could get now."""
    return HOST.device_memory_used()


@dataclass(frozen=True)
class _Properties:
    name: str
    total_memory: int
    is_integrated_gpu: bool = False


def get_device_properties(device: Any = None) -> _Properties:
    """Its name and its bytes of memory."""
    return _Properties(HOST.name(), HOST.total_memory())


get_device_utilization = utilization  # as articles spell it
get_memory_allocated = device_memory_used
