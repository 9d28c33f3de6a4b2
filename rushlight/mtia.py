"""torch.mtia as PyTorch has it without that device (see names/absent.py)."""

from __future__ import annotations

from rushlight.names.absent import Absent

_ABSENT = Absent(
    __name__, RuntimeError("This needs the MTIA backend, which is not there."),
    zero="device_count memory_allocated max_memory_allocated",
    nothing="manual_seed manual_seed_all seed seed_all empty_cache reset_peak_memory_stats",
    no="is_available is_initialized is_bf16_supported", empty="get_rng_state_all",
    need="""current_device current_stream default_stream get_device_capability synchronize
    get_device_properties set_device set_stream stream get_rng_state set_rng_state init""",
    classes="device graph MTIAGraph",
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()
__all__ = _ABSENT.names
