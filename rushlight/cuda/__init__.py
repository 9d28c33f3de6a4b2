"""torch.cuda as PyTorch has it in a build without CUDA.

Questions are answered (no, none, 0), what only asks for order or seeds does nothing, and what needs
a device raises the error that PyTorch raises. GPUs are reached through Rushlight's own backends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rushlight.cuda import amp

NO_CUDA = "Torch not compiled with CUDA enabled"


class device:  # noqa: N801
    """A context of a CUDA device; None or a negative number: nothing to switch to."""

    def __init__(self, device: Any = None) -> None:
        if device is not None and device != -1:
            raise AssertionError(NO_CUDA)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _answer(name: str, value: Any = None) -> Callable:
    """A function of that name that gives `value` whatever it is asked."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return value

    call.__name__ = call.__qualname__ = name
    return call


def _refusal(name: str) -> Callable:
    """A function of that name that needs a device."""

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError(NO_CUDA)

    call.__name__ = call.__qualname__ = name
    return call


memory_allocated = _answer("memory_allocated", 0)
max_memory_allocated = _answer("max_memory_allocated", 0)
memory_reserved = _answer("memory_reserved", 0)
max_memory_reserved = _answer("max_memory_reserved", 0)
memory_cached = _answer("memory_cached", 0)
max_memory_cached = _answer("max_memory_cached", 0)
device_count = _answer("device_count", 0)

empty_cache = _answer("empty_cache")
manual_seed = _answer("manual_seed")
manual_seed_all = _answer("manual_seed_all")
seed = _answer("seed")
seed_all = _answer("seed_all")
reset_peak_memory_stats = _answer("reset_peak_memory_stats")
reset_max_memory_allocated = _answer("reset_max_memory_allocated")
reset_max_memory_cached = _answer("reset_max_memory_cached")
ipc_collect = _answer("ipc_collect")

is_available = _answer("is_available", False)
is_initialized = _answer("is_initialized", False)
is_bf16_supported = _answer("is_bf16_supported", False)
is_current_stream_capturing = _answer("is_current_stream_capturing", False)

current_device = _refusal("current_device")
set_device = _refusal("set_device")
synchronize = _refusal("synchronize")
get_device_name = _refusal("get_device_name")
get_device_capability = _refusal("get_device_capability")
get_device_properties = _refusal("get_device_properties")
mem_get_info = _refusal("mem_get_info")
current_stream = _refusal("current_stream")
default_stream = _refusal("default_stream")
stream = _refusal("stream")
Stream = _refusal("Stream")
Event = _refusal("Event")
CUDAGraph = _refusal("CUDAGraph")
graph = _refusal("graph")
get_rng_state = _refusal("get_rng_state")
set_rng_state = _refusal("set_rng_state")
memory_stats = _refusal("memory_stats")
memory_summary = _refusal("memory_summary")
memory_snapshot = _refusal("memory_snapshot")
init = _refusal("init")
make_graphed_callables = _refusal("make_graphed_callables")
utilization = _refusal("utilization")

__all__ = [
    "amp", "device", "CUDAGraph", "Event", "Stream", "current_device", "current_stream",
    "default_stream", "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "graph", "init", "ipc_collect", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "make_graphed_callables",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_summary", "reset_max_memory_allocated",
    "reset_max_memory_cached", "reset_peak_memory_stats", "seed", "seed_all", "set_device",
    "set_rng_state", "stream", "synchronize", "utilization",
]  # fmt: skip
