"""torch.mps as PyTorch has it in a build without Apple's GPUs (see names/absent.py)."""

from __future__ import annotations

from rushlight.names.absent import Absent

_ABSENT = Absent(
    __name__, RuntimeError("This needs the MPS backend, which is not there."),
    zero="device_count", nothing="manual_seed", no="is_available",
    need="""current_allocated_memory driver_allocated_memory recommended_max_memory empty_cache
    get_rng_state set_rng_state seed synchronize set_per_process_memory_fraction compile_shader""",
    classes="Event",
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()
__all__ = _ABSENT.names
