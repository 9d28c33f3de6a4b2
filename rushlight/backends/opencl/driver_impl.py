"""Which OpenCL device there is. pyopencl is imported here, when the backend is asked for."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass
from typing import Any

from rushlight.base.config import config
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.base.errors import BackendError
from rushlight.compiler.target import Caps, Missing

FIX = (
    "pip install 'rushlight[opencl]' (pyopencl, and PoCL for CPUs), or install the driver of a GPU"
)
XPU_FIX = "install its OpenCL driver; where there are several, RUSHLIGHT_OPENCL_DEVICE says which"
INTEL = 0x8086  # vendors, as PCI numbers them
DTYPES = (*ALL_DTYPES, *BYTE_FLOATS)
CPU_THREADS, GPU_THREADS = 64, 256
NEEDED = {
    "cl_khr_subgroup_shuffle", "cl_khr_subgroup_shuffle_relative",
    "cl_intel_required_subgroup_size",
}  # fmt: skip
SUBGROUPS = (32, 16, 8)
PROBE = "__kernel __attribute__((intel_reqd_sub_group_size({}))) void probe(void) {{}}"


@dataclass(frozen=True)
class Driver:
    """An open device. shared: it works on the host's memory; progress: groups may wait for one
    another; subgroup: so many neighbours exchange values (1: none); process: that opened it."""

    cl: Any
    device: Any
    context: Any
    queue: Any
    shared: bool
    progress: bool
    subgroup: int
    options: str
    process: int


def find() -> Caps | Missing:
    found = open_device(config.opencl_device, config.opencl_options)
    if isinstance(found, Missing):
        return found
    cl, device = found.cl, found.device
    is_cpu = bool(device.type & cl.device_type.CPU)
    threads = min(device.max_work_group_size, CPU_THREADS if is_cpu else GPU_THREADS)
    named = (device.platform.name, device.platform.version, device.name, device.driver_version)
    return Caps(
        "opencl",
        features="|".join((*named, found.options)),
        threads=device.max_compute_units,
        dtypes=frozenset(d.name for d in DTYPES),
        exact=False,
        group_threads=threads,
        shared_bytes=min(device.local_mem_size, 32 << 10),
        groups=max(16, 4 * device.max_compute_units),
        progress=found.progress,
        subgroup=found.subgroup,
    )


def serves(kind: str) -> Missing | None:
    """Why the device that is used is not one of this type; None: it is."""
    if kind != "xpu":
        return None
    found = _opened()
    if is_intel_gpu(found):
        return None
    return Missing(f"{found.device.name}, which OpenCL has here, is no GPU of Intel's", XPU_FIX)


def is_intel_gpu(found: Driver) -> bool:
    device = found.device
    return device.vendor_id == INTEL and bool(device.type & found.cl.device_type.GPU)


def has_doubles(device: Any) -> bool:
    """Where there are none they are made of integers (cfamily/double)."""
    return "cl_khr_fp64" in device.extensions


@functools.cache
def open_device(wanted: str, more_options: str) -> Driver | Missing:
    """The first device whose name or platform holds `wanted`; GPUs before CPUs."""
    if importlib.util.find_spec("pyopencl") is None:
        return Missing("pyopencl is not installed", FIX)
    import pyopencl as cl

    try:
        devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error as error:
        return Missing(f"no OpenCL platform: {error}", FIX)
    fitting = [d for d in devices if wanted.lower() in f"{d.platform.name} {d.name}".lower()]
    if not fitting:
        seen = ", ".join(d.name for d in devices) or "none"
        return Missing(f"no OpenCL device like {wanted!r} (there are: {seen})", FIX)
    device = min(fitting, key=lambda d: not d.type & cl.device_type.GPU)
    context = cl.Context([device])
    exact_divide = device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    progress = is_fair(cl, device)
    options = "-cl-std=CL3.0" if progress else "-cl-std=CL1.2"
    if exact_divide:
        options += " -cl-fp32-correctly-rounded-divide-sqrt"
    options = f"{options} {more_options}".rstrip()
    queue, shared = cl.CommandQueue(context), bool(device.host_unified_memory)
    subgroup = find_subgroup(cl, device, context, options)
    return Driver(cl, device, context, queue, shared, progress, subgroup, options, os.getpid())


def is_fair(cl: Any, device: Any) -> bool:
    """May a group wait for one that began before it? On CPUs, whose threads the operating system
    lets all go on; and there must be atomics that order memory between groups (OpenCL 3.0)."""
    needed = {"__opencl_c_atomic_order_acq_rel", "__opencl_c_atomic_scope_device"}
    if not device.type & cl.device_type.CPU or not device.version.startswith("OpenCL 3"):
        return False
    return needed <= {feature.name for feature in device.opencl_c_features}


def find_subgroup(cl: Any, device: Any, context: Any, options: str) -> int:
    """The width that kernels ask for, the widest that the compiler takes; 1: it must not vary from
    kernel to kernel, so it must be possible to ask."""
    if not NEEDED <= set(device.extensions.split()):
        return 1
    for width in SUBGROUPS:
        try:
            cl.Program(context, PROBE.format(width)).build(options=options)
        except cl.RuntimeError:
            continue
        return width
    return 1


def _opened() -> Driver:
    found = open_device(config.opencl_device, config.opencl_options)
    assert not isinstance(found, Missing), found.reason
    return found


def require_driver() -> Driver:
    """The open device; an error in the child of a fork, where its driver's threads are missing and
    a call would wait for them for ever."""
    found = _opened()
    if found.process != os.getpid():
        raise BackendError(
            "OpenCL was used before this process was forked, and does not work in the child; "
            "start it with multiprocessing's method 'spawn', or use the device in one of the two"
        )
    return found
