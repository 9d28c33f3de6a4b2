"""torch.cuda as PyTorch has it in a build without CUDA.

Questions are answered (no, none, 0), what only asks for order or seeds does nothing, and what needs
a device raises the error that PyTorch raises. GPUs are reached through Rushlight's own backends.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight import names as _names
from rushlight.cuda import amp

__getattr__ = _names.getattr_of(__name__)

NO_CUDA = "Torch not compiled with CUDA enabled"
_ZERO = """memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached
    max_memory_cached device_count""".split()
_NOTHING = """empty_cache manual_seed manual_seed_all seed seed_all reset_peak_memory_stats
    reset_max_memory_allocated reset_max_memory_cached ipc_collect""".split()
_NO = "is_available is_initialized is_bf16_supported is_current_stream_capturing".split()
_NEED = """current_device set_device synchronize get_device_name get_device_capability
    get_device_properties mem_get_info current_stream default_stream stream Stream Event CUDAGraph
    graph get_rng_state set_rng_state memory_stats memory_summary memory_snapshot init
    make_graphed_callables utilization""".split()


class device:  # noqa: N801
    """A context of a CUDA device; None or a negative number: nothing to switch to."""

    def __init__(self, device: Any = None) -> None:
        if device is not None and device != -1:
            raise AssertionError(NO_CUDA)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def _named(name: str, function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError(NO_CUDA)


for _group, _answer in (
    (_ZERO, lambda *args, **kwargs: 0),
    (_NOTHING, lambda *args, **kwargs: None),
    (_NO, lambda *args, **kwargs: False),
    (_NEED, _refuse),
):
    for _name in _group:
        globals()[_name] = _named(_name, _answer)

__all__ = ["amp", "device", *sorted((*_ZERO, *_NOTHING, *_NO, *_NEED))]
