"""The registry of backends: names here, code loaded when asked for. One line per backend.

The same module is torch.backends, so the switches of PyTorch scripts are here too (flags.py).
"""

from __future__ import annotations

from importlib import import_module

from rushlight.backends.flags import (
    cpu,
    cuda,
    cudnn,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openmp,
    opt_einsum,
    quantized,
)
from rushlight.compiler.target import Backend, Missing

__all__ = [
    "DEVICE_BACKENDS", "backend_names", "cpu", "cuda", "cudnn", "find_backend", "mkl", "mkldnn",
    "mps", "nnpack", "openmp", "opt_einsum", "quantized",
]  # fmt: skip

# Name -> module that holds BACKEND. In the order they are preferred.
_MODULES = {
    "llvm": "rushlight.backends.llvm",
    "c": "rushlight.backends.c",
    "opencl": "rushlight.backends.opencl",
    "metal": "rushlight.backends.metal",
    "wgsl": "rushlight.backends.wgsl",
    "triton": "rushlight.backends.triton",
    "cute": "rushlight.backends.cute",
    "interp": "rushlight.backends.interp",
    "null": "rushlight.backends.null",
}


# Device type -> backend. The device "cpu" has the one that the settings name.
DEVICE_BACKENDS = {
    "cuda": "triton", "opencl": "opencl", "xpu": "opencl", "mps": "metal", "vulkan": "wgsl",
}  # fmt: skip


def backend_names() -> tuple[str, ...]:
    """Every backend that this installation knows, usable here or not."""
    return tuple(_MODULES)


def _has_metal() -> bool:
    return not isinstance(find_backend("metal").find(), Missing)


def find_backend(name: str) -> Backend:
    """The backend called `name`; whether it can be used says its `find()`."""
    if name not in _MODULES:
        raise ValueError(f"backend: got {name!r}, there are {', '.join(map(repr, _MODULES))}")
    backend: Backend = import_module(_MODULES[name]).BACKEND
    return backend


mps.is_available = mps.is_built = _has_metal
