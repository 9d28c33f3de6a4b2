"""torch.mps: where there is no device("mps") as PyTorch has it in a build without Apple's GPUs (see
names/absent.py).
"""

from __future__ import annotations

from rushlight.names.absent import Absent, Here
from rushlight.tensors import device_calls

_ALL = device_calls.functions_of("mps")
_HERE = Here(
    lambda: device_calls.is_here("mps"),
    {
        **_ALL, "current_allocated_memory": _ALL["memory_allocated"],
        "driver_allocated_memory": _ALL["memory_reserved"],
    },
    {"Event": device_calls.Event},
)  # fmt: skip
_ABSENT = Absent(
    __name__, RuntimeError("This needs the MPS backend, which is not there."),
    zero="device_count", nothing="manual_seed", no="is_available",
    need="""current_allocated_memory driver_allocated_memory recommended_max_memory empty_cache
    get_rng_state set_rng_state seed synchronize set_per_process_memory_fraction compile_shader""",
    classes="Event", here=_HERE,
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()
__all__ = _ABSENT.names
