"""torch._C: names of PyTorch's C++ part that Python programs touch.

Switches of its script compiler are accepted and do nothing; questions get the answer of a build
without devices; types are those of Rushlight.
"""

from __future__ import annotations

import enum
from typing import Any

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "_are_functorch_transforms_active", "_AutoDispatchBelowAutograd", "device",
    "_disabled_torch_function_impl", "_DisableFuncTorch", "_DisableTorchDispatch",
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet",
    "dtype", "_ExcludeDispatchKeyGuard", "Generator", "_get_accelerator", "_get_cudnn_enabled",
    "_get_default_device", "_get_privateuse1_backend_name", "_get_tracing_state", "has_cuda",
    "has_lapack", "has_mkl", "has_mkldnn", "has_mps", "has_openmp", "has_spectral", "has_xpu",
    "_is_alias_of", "_is_torch_function_mode_enabled", "_is_tracing", "_jit_can_fuse_on_cpu",
    "_jit_can_fuse_on_gpu", "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_gpu",
    "_jit_set_nvfuser_enabled", "_jit_set_nvfuser_guard_mode", "_jit_set_profiling_executor",
    "_jit_set_profiling_mode", "_jit_set_texpr_fuser_enabled", "layout", "_log_api_usage_once",
    "memory_format", "ScriptModule", "_set_print_stack_traces", "Size", "StorageBase",
    "TensorBase", "_TensorMeta",
]  # fmt: skip

TensorBase = torch.Tensor
_TensorMeta: type = type(torch.Tensor)
_disabled_torch_function_impl = torch.Tensor._disabled_torch_function
DisableTorchFunction = torch.overrides.DisableTorchFunction
DisableTorchFunctionSubclass = torch.overrides.DisableTorchFunctionSubclass
Generator, Size = torch.Generator, torch.Size
device, dtype, layout, memory_format = (
    torch.device, torch.dtype, torch.layout, torch.memory_format,
)  # fmt: skip
ScriptModule = torch.jit.ScriptModule
has_mkl = has_mkldnn = has_cuda = has_mps = has_xpu = False
has_openmp = has_lapack = has_spectral = True


class DispatchKey(enum.Enum):
    """The layers that PyTorch's dispatcher walks through; there is no such walk here."""

    Undefined = 0
    CPU = 1
    CUDA = 2
    Meta = 3
    XPU = 4
    MPS = 5
    AutogradCPU = 6
    AutogradCUDA = 7
    Autograd = 8
    AutocastCPU = 9
    AutocastCUDA = 10
    AutocastXPU = 11
    Functionalize = 12
    Python = 13
    PythonDispatcher = 14
    FuncTorchBatched = 15
    FuncTorchVmapMode = 16
    CompositeImplicitAutograd = 17
    CompositeExplicitAutograd = 18
    BackendSelect = 19
    ADInplaceOrView = 20
    PrivateUse1 = 21
    AutocastPrivateUse1 = 22
    AutocastMPS = 23
    AutocastMTIA = 24
    AutocastHPU = 25
    SparseCPU = 26
    SparseCsrCPU = 27


class DispatchKeySet:
    """A set of those layers."""

    def __init__(self, *keys: DispatchKey) -> None:
        self._keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys | other._keys))

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys & other._keys))

    def add(self, key: DispatchKey) -> DispatchKeySet:
        return DispatchKeySet(*self._keys, key)

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        return DispatchKeySet(*(self._keys - {key}))

    def has(self, key: DispatchKey) -> bool:
        return key in self._keys


class _Guard:
    """A context that changes nothing: there is no dispatcher to switch."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class _AutoDispatchBelowAutograd(torch.no_grad):
    """What runs inside is not recorded for gradients."""


_ExcludeDispatchKeyGuard = _DisableFuncTorch = _DisableTorchDispatch = _Guard


def _accept(*_: Any, **__: Any) -> None:
    """A switch of a part that is not here."""


_log_api_usage_once = _set_print_stack_traces = _accept
_jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _accept
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _accept


def _no(*_: Any, **__: Any) -> bool:
    """The answer to a switch of a part that is not here: it was and is off."""
    return False


_jit_set_profiling_executor = _jit_set_profiling_mode = _no
_jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _is_tracing = _get_cudnn_enabled = _no
_are_functorch_transforms_active = _is_torch_function_mode_enabled = _no


def _is_alias_of(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Do two tensors share memory?"""
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _get_accelerator(check: Any = None) -> torch.device:
    """The GPU that is there, else the CPU."""
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def _get_default_device() -> str:
    return str(torch.get_default_device())


class Graph:
    """The class of TorchScript's graphs; there are none."""


class Node:
    """The class of their nodes."""


class Value:
    """The class of their values."""


class StorageBase:
    """The class below PyTorch's storages; those here are of another one."""


def _get_tracing_state() -> None:
    """None: nothing is traced."""
    return None


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"
