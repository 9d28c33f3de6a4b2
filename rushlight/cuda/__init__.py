"""torch.cuda: where there is no device("cuda") as PyTorch has it in a build without CUDA (see
names/absent.py), else what is known of the GPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rushlight.base import devices as _devices
from rushlight.cuda import gpu as _gpu_of
from rushlight.names.absent import Absent
from rushlight.runtime.nvml_impl import Nvml

NO_CUDA = "Torch not compiled with CUDA enabled"
_ABSENT = Absent(
    __name__, AssertionError(NO_CUDA),
    zero="""memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached
    max_memory_cached device_count""",
    nothing="""empty_cache manual_seed manual_seed_all seed seed_all reset_peak_memory_stats
    reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats
    set_rng_state_all ipc_collect""",
    no="""is_available is_initialized is_bf16_supported is_tf32_supported
    is_current_stream_capturing""",
    empty="get_rng_state_all get_arch_list",
    need="""current_device set_device synchronize get_device_name get_device_capability
    get_device_properties mem_get_info current_stream default_stream set_stream get_rng_state
    set_rng_state memory_summary memory_snapshot init initial_seed cudart current_blas_handle
    make_graphed_callables can_device_access_peer get_sync_debug_mode
    set_sync_debug_mode get_per_process_memory_fraction set_per_process_memory_fraction
    graph_pool_handle caching_allocator_alloc caching_allocator_delete get_stream_from_external
    list_gpu_processes""",
    classes="""Stream ExternalStream Event CUDAGraph graph StreamContext MemPool FloatTensor
    DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor IntTensor LongTensor
    BoolTensor""",
    here=_gpu_of.HERE,
)  # fmt: skip
__getattr__ = _ABSENT.getattr_for()

__all__ = ["_initialized"]  # the others are added below

default_generators: tuple[Any, ...] = ()
has_half, has_magma, _initialized = True, False, False


class device:  # noqa: N801
    """A context of a CUDA device; None or a negative number: nothing to switch to."""

    def __init__(self, device: Any = None) -> None:
        if device is not None and device != -1:
            _require()
            _gpu_of.check(device)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class device_of(device):  # noqa: N801
    """The context of a tensor's device; nothing to switch to for a CPU tensor."""

    def __init__(self, obj: Any) -> None:
        super().__init__(None)


def stream(stream: Any) -> AbstractContextManager[None]:
    """The context of a stream: None is the current one, and there is no other."""
    if stream is not None:
        _require()
    return nullcontext()


def _require() -> None:
    if not _gpu_of.HERE.is_here():
        raise AssertionError(NO_CUDA)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counters by name; none where there is no device."""
    return _gpu_of.HERE.functions["memory_stats"](device) if _gpu_of.HERE.is_here() else {}


def _gpu(device: Any) -> Nvml:
    """NVML's view of a GPU: it needs the driver, not a build for CUDA."""
    found = _devices.device("cuda" if device is None else device)
    return Nvml(found.index or 0)


def utilization(device: Any = None) -> float:
    """Percent of the time in which a kernel ran. A RuntimeError says why it is not known."""
    return _gpu(device).utilization()


def memory_usage(device: Any = None) -> float:
    """Percent of the time in which memory was read or written."""
    return _gpu(device).memory_usage()


def device_memory_used(device: Any = None) -> int:
    """Bytes of the GPU's memory that are taken, by whichever program."""
    return _gpu(device).device_memory_used()


def temperature(device: Any = None) -> float:
    """Degrees Celsius."""
    return _gpu(device).temperature()


def power_draw(device: Any = None) -> float:
    """Milliwatts, as in PyTorch."""
    return _gpu(device).power_draw() * 1000.0


def clock_rate(device: Any = None) -> float:
    """MHz of the multiprocessors."""
    return _gpu(device).clock_rate()


def get_gencode_flags() -> str:
    return ""


_OWN = """amp has_half has_magma default_generators device device_of get_gencode_flags memory_stats
stream utilization memory_usage device_memory_used temperature power_draw clock_rate""".split()
__all__ = sorted([*__all__, *_OWN, *_ABSENT.names])
