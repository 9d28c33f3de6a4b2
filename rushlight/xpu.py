"""torch.xpu as PyTorch has it in a build without Intel GPUs (see names/absent.py)."""

from __future__ import annotations

from typing import Any

from rushlight.names.absent import Absent

_ABSENT = Absent(
    __name__, AssertionError("Torch not compiled with XPU enabled"),
    zero="device_count memory_allocated max_memory_allocated memory_reserved max_memory_reserved",
    nothing="""empty_cache manual_seed manual_seed_all seed seed_all reset_peak_memory_stats
    reset_accumulated_memory_stats set_rng_state_all""",
    no="""is_available is_initialized is_bf16_supported is_tf32_supported
    is_current_stream_capturing""",
    empty="get_rng_state_all get_arch_list memory_snapshot",
    need="""current_device set_device synchronize get_device_name get_device_capability
    get_device_properties mem_get_info current_stream set_stream stream get_rng_state set_rng_state
    init initial_seed can_device_access_peer utilization temperature power_draw clock_rate
    memory_usage device_memory_used get_device_utilization get_memory_allocated""",
    classes="Stream Event StreamContext device device_of",
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()

default_generators: tuple[Any, ...] = ()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """No counters."""
    return {}


__all__ = sorted(["default_generators", "memory_stats", *_ABSENT.names])
