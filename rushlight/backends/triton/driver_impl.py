"""Which device Triton's kernels run on here, if any. triton is imported here, when it is asked for.

That is an NVIDIA GPU, reached by its driver (`gpu_impl.py`), or Triton's interpreter
(RUSHLIGHT_TRITON_INTERPRET=1): numpy on the host, for tests of the generated kernels. Kernels are
compiled for GPUs that are not here by `compile_impl.py`.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import version
from pathlib import Path

from rushlight.backends.triton.language import SUBGROUP
from rushlight.base.config import config
from rushlight.base.dtypes import ALL_DTYPES, BYTE_FLOATS
from rushlight.compiler.target import Caps, Missing
from rushlight.runtime.cuda_impl import Gpu, open_gpu

FIX = "pip install 'rushlight[triton]'"
APART = "use the device 'cuda' before 'vulkan', or each in a process of its own"
MAPS = Path("/proc/self/maps")
INTERPRET = "RUSHLIGHT_TRITON_INTERPRET=1 runs the kernels in Triton's interpreter"
DTYPES = frozenset(dtype.name for dtype in (*ALL_DTYPES, *BYTE_FLOATS))
THREADS = 256
OLDEST = 8  # the first compute capability whose tensor cores these kernels are for


def find() -> Caps | Missing:
    if importlib.util.find_spec("triton") is None:
        return Missing("triton is not installed", FIX)
    if meets_lavapipe():
        return Missing("Vulkan's lavapipe has loaded its LLVM, after which Triton's crashes", APART)
    if config.triton_interpret:
        return caps_of(_features("interpreted", ""))
    gpu = open_gpu()
    if isinstance(gpu, str):
        return Missing(f"no GPU for Triton's kernels: {gpu}", INTERPRET)
    target = target_of(gpu)
    if not target:
        return Missing(f"no kernels for {gpu.name} (compute capability {gpu.capability})")
    return caps_of(_features(target, gpu.name))


def meets_lavapipe() -> bool:
    """Would triton be loaded into a process that has lavapipe (the other way round they live)?"""
    if "triton" in sys.modules or "wgpu" not in sys.modules or not MAPS.exists():
        return False
    return "libvulkan_lvp" in MAPS.read_text()


def _features(chip: str, name: str) -> str:
    """Part of every key: also who may make products, and whether schedules are measured."""
    makers = config.max_autotune_gemm_backends + (" measured" if config.max_autotune else "")
    return f"{chip}|{name}|triton {version('triton')}|{makers}"


def chip_of(caps: Caps) -> str:
    """The chip that kernels are for; "interpreted": none."""
    return caps.features.split("|")[0]


def target_of(gpu: Gpu) -> str:
    """The chip that kernels are compiled for; "" where they are for none like it."""
    major, minor = gpu.capability
    return f"sm_{major}{minor}" if major >= OLDEST else ""


def require_gpu() -> Gpu:
    gpu = open_gpu()
    assert isinstance(gpu, Gpu), gpu  # find() said so
    return gpu


def caps_of(features: str) -> Caps:
    return Caps(
        "triton",
        features=features,
        dtypes=DTYPES,
        exact=False,
        group_threads=THREADS,
        shared_bytes=0,  # blocks have no addresses: tiles lie in scratch
        subgroup=SUBGROUP,
        groups=64,
    )
