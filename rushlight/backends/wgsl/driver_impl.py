"""Which WebGPU adapter there is. wgpu is imported here, when the backend is asked for."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

from rushlight.compiler.target import Caps, Missing

FIX = "pip install 'rushlight[wgpu]', and a Vulkan, Metal or DX12 driver (Debian without a GPU: "
FIX += "apt-get install mesa-vulkan-drivers)"
NEEDED = "shader-int64"
DTYPES = frozenset(("float32", "float64", "int32", "uint32", "int64", "uint64"))
OWN_BUFFERS = 2  # numbers and status


def find() -> Caps | Missing:
    device = open_device()
    if isinstance(device, Missing):
        return device
    limits, info = device.adapter.limits, device.adapter.info
    return Caps(
        "wgsl",
        features="|".join((info["device"], info["description"], info["backend_type"])),
        dtypes=DTYPES,
        exact=False,
        group_threads=64,
        shared_bytes=min(16 << 10, limits["max-compute-workgroup-storage-size"]),
        groups=16,
        most_groups=limits["max-compute-workgroups-per-dimension"],
        index_bytes=4,
        max_buffers=limits["max-storage-buffers-per-shader-stage"] - OWN_BUFFERS,
    )


@functools.cache
def open_device() -> Any:
    """A device with 64-bit integers, or Missing."""
    if importlib.util.find_spec("wgpu") is None:
        return Missing("wgpu is not installed", FIX)
    import wgpu

    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except RuntimeError as error:
        return Missing(f"no adapter: {error}", FIX)
    if NEEDED not in adapter.features:
        return Missing(f"the adapter {adapter.info['device']} has no {NEEDED}", FIX)
    names = ("max-storage-buffers-per-shader-stage", "max-compute-workgroup-storage-size")
    limits = {name: adapter.limits[name] for name in names}
    return adapter.request_device_sync(required_features=[NEEDED], required_limits=limits)


def usages() -> Any:
    import wgpu

    return wgpu.BufferUsage
