"""torch.cpu: the only device, asked as if it were an accelerator. Streams order nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
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
