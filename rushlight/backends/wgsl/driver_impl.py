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
USAGE = 0x80 | 4 | 8  # of buffers: STORAGE, COPY_SRC, COPY_DST, as WebGPU numbers them


def find() -> Caps | Missing:
    device = open_device()
    if isinstance(device, Missing):
        return device
    limits, info = device.adapter.limits, device.adapter.info
    # Kernels cannot ask for a width: exchange only where all have the same.
    widths = {size for key, size in info.items() if "group_m" in key}  # the least and the most
    is_fixed = len(widths) == 1 and "subgroup" in device.features
    return Caps(
        "wgsl",
        features="|".join((info["device"], info["description"], info["backend_type"])),
        dtypes=DTYPES,
        exact=False,
        group_threads=64,
        shared_bytes=min(16 << 10, limits["max-compute-workgroup-storage-size"]),
        groups=16,
        subgroup=widths.pop() if is_fixed else 1,
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
    wanted = [name for name in (NEEDED, "subgroup") if name in adapter.features]
    return adapter.request_device_sync(required_features=wanted, required_limits=limits)
