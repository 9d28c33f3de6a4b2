"""What scripts ask the module of a device that is there: torch.cuda, torch.xpu, torch.mps.

In: the type of a device. Out: functions and classes by PyTorch's names (names/absent.py asks for
them). Always true: there is one device of a type, and one order of work on it; all work is done
when `synchronize` returns. The memory of all devices is the host's, and counted together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.base.devices import DEVICES, device, find_device
from rushlight.base.errors import NotSupportedError
from rushlight.engine.live import WAITING
from rushlight.engine.realize import flush
from rushlight.runtime import buffer
from rushlight.tensors import generator
from rushlight.tensors.tensor import Tensor


def is_here(kind: str) -> bool:
    """Can tensors be on such a device?"""
    return not DEVICES.why_missing(kind)


class Event:
    """A point in the order of work. Events with `enable_timing` know when they were reached."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
        external: bool = False,
    ) -> None:  # fmt: skip
        self._is_timed, self._at = enable_timing, 0.0

    def record(self, stream: Any = None) -> None:
        """Here all that was asked for until now is done."""
        flush()
        self._at = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another."""
        if not (self._is_timed and end_event._is_timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._at and end_event._at):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1e3

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """It was reached when it was recorded."""

    def wait(self, stream: Any = None) -> None:
        """There is no other order that could wait."""


class Stream:
    """The order of work; all streams of a device are one."""

    _event: type[Event] = Event

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.priority, self.stream_id = priority, 0

    def synchronize(self) -> None:
        """Do all work that was asked for."""
        flush()

    def query(self) -> bool:
        """Is there nothing left to do?"""
        return not WAITING

    def wait_stream(self, stream: Any) -> None:
        """There is no other order."""

    def wait_event(self, event: Any) -> None:
        """There is no other order."""

    def record_event(self, event: Any = None) -> Any:
        event = self._event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def current_stream(device: Any = None) -> Stream:
    return Stream()


@contextmanager
def stream(stream: Any) -> Iterator[None]:
    """The context of a stream: there is one."""
    yield


def synchronize(device: Any = None) -> None:
    """Compute everything that is pending."""
    flush()


def memory_reserved(device: Any = None) -> int:
    """Bytes that tensors have or had, and that are kept for others."""
    found = buffer.stats()
    return found["memory_allocated"] + found["memory_cached"]


def memory_stats(device: Any = None) -> dict[str, int]:
    """The counters that there are, by PyTorch's names."""
    return {
        "allocated_bytes.all.current": buffer.memory_allocated(),
        "allocated_bytes.all.peak": buffer.max_memory_allocated(),
        "reserved_bytes.all.current": memory_reserved(),
    }


def _not_counted(device: Any = None) -> int:
    raise NotSupportedError(
        "the most memory that was reserved is not counted; max_memory_allocated() is"
    )


def _ignoring(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for every device, which may be named."""
    return lambda device=None: function()


def check_index(kind: str, wanted: Any) -> int:
    """The number of a device of this type, which is 0; an error for what is not there."""
    if wanted is not None:
        place = device(kind, wanted) if isinstance(wanted, int) else device(wanted)
        if place.type != kind:
            raise ValueError(f"Expected a {kind} device, but got: {place}")
        find_device(place)
    return 0


def set_rng_state(new_state: Tensor, device: Any = None) -> None:
    generator.set_rng_state(new_state)


def functions_of(kind: str) -> dict[str, Callable[..., Any]]:
    """By name, what the module of any device has. Random numbers of all devices are one row."""
    allocated = _ignoring(buffer.memory_allocated)
    most = _ignoring(buffer.max_memory_allocated)
    forget_most = _ignoring(buffer.reset_peak)

    def set_device(device: Any) -> None:
        check_index(kind, device)

    def one() -> int:
        return 1

    def yes(*_: Any, **__: Any) -> bool:
        return True

    return {
        "is_available": yes, "is_initialized": yes, "is_bf16_supported": yes, "device_count": one,
        "current_device": lambda: 0, "set_device": set_device, "synchronize": synchronize,
        "current_stream": current_stream, "default_stream": current_stream,
        "set_stream": lambda stream: None, "init": lambda: None,
        "empty_cache": buffer.empty_cache, "memory_stats": memory_stats,
        "memory_allocated": allocated, "max_memory_allocated": most,
        "memory_reserved": memory_reserved, "memory_cached": memory_reserved,
        "max_memory_reserved": _not_counted, "max_memory_cached": _not_counted,
        "reset_peak_memory_stats": forget_most, "reset_max_memory_allocated": forget_most,
        "reset_max_memory_cached": forget_most,
        "manual_seed": generator.manual_seed, "manual_seed_all": generator.manual_seed,
        "seed": generator.seed, "seed_all": generator.seed,
        "initial_seed": generator.initial_seed,
        "get_rng_state": _ignoring(generator.get_rng_state), "set_rng_state": set_rng_state,
        "get_rng_state_all": lambda: [generator.get_rng_state()],
        "set_rng_state_all": lambda states: generator.set_rng_state(states[0]),
    }  # fmt: skip
