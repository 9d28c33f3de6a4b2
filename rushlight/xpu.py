"""torch.xpu: where there is no device("xpu") as PyTorch has it in a build without Intel GPUs (see
names/absent.py).

An Intel GPU that OpenCL finds is device("xpu"); what it says of itself is asked here. A value that
it does not tell is a RuntimeError that says why, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.engine.devices import sensors_of, why_missing
from rushlight.names.absent import Absent, Here
from rushlight.tensors import device_calls

NO_XPU = "Torch not compiled with XPU enabled"
_HERE = Here(
    lambda: device_calls.is_here("xpu"),
    {**device_calls.functions_of("xpu"), "stream": device_calls.stream},
    {"Stream": device_calls.Stream, "Event": device_calls.Event},
)
_ABSENT = Absent(
    __name__, AssertionError(NO_XPU),
    zero="device_count memory_allocated max_memory_allocated memory_reserved max_memory_reserved",
    nothing="""empty_cache manual_seed manual_seed_all seed seed_all reset_peak_memory_stats
    reset_accumulated_memory_stats set_rng_state_all""",
    no="""is_available is_initialized is_bf16_supported is_tf32_supported
    is_current_stream_capturing""",
    empty="get_rng_state_all get_arch_list memory_snapshot",
    need="""current_device set_device synchronize get_device_capability mem_get_info current_stream
    set_stream stream get_rng_state set_rng_state init initial_seed can_device_access_peer""",
    classes="Stream Event StreamContext device device_of", here=_HERE,
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()

default_generators: tuple[Any, ...] = ()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counters by name; none where there is no device."""
    return device_calls.memory_stats() if _HERE.is_here() else {}


def _sensors(device: Any) -> Any:
    """Whom to ask. `device`: None is "xpu"; AssertionError with the reason where there is none."""
    why = why_missing("xpu")
    if why:
        raise AssertionError(f"{NO_XPU}\n{why}")
    return sensors_of("xpu" if device is None else device)


def get_device_name(device: Any = None) -> str:
    """What it is called."""
    return _sensors(device).name()


def utilization(device: Any = None) -> float:
    """Percent of the time in which it worked."""
    return _sensors(device).utilization()


def memory_usage(device: Any = None) -> float:
    """Percent of the time in which its memory was read or written."""
    return _sensors(device).memory_usage()


def temperature(device: Any = None) -> float:
    """Degrees Celsius."""
    return _sensors(device).temperature()


def power_draw(device: Any = None) -> float:
    """Watts."""
    return _sensors(device).power_draw()


def clock_rate(device: Any = None) -> float:
    """MHz, the highest it has."""
    return _sensors(device).clock_rate()


def device_memory_used(device: Any = None) -> int:
    """Bytes of its memory that are taken, by whichever program."""
    return _sensors(device).device_memory_used()


@dataclass(frozen=True)
class _Properties:
    """`total_physical_eus`: as articles spell gpu_eu_count."""

    name: str
    total_memory: int
    gpu_eu_count: int
    last_level_cache_size: int
    is_integrated_gpu: bool

    @property
    def total_physical_eus(self) -> int:
        return self.gpu_eu_count


def get_device_properties(device: Any = None) -> _Properties:
    """What it is: bytes of memory and of the cache in front of it, how many units compute."""
    asked = _sensors(device)
    return _Properties(
        asked.name(), asked.total_memory(), asked.compute_units(), asked.last_level_cache_size(),
        asked.is_integrated(),
    )  # fmt: skip


get_device_utilization = utilization  # as articles spell it
get_memory_allocated = device_memory_used

_OWN = """default_generators memory_stats get_device_name utilization memory_usage temperature
power_draw clock_rate device_memory_used get_device_properties get_device_utilization
get_memory_allocated""".split()
__all__ = sorted([*_OWN, *_ABSENT.names])
