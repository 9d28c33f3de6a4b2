"""torch.utils.dlpack: tensors exchanged with other libraries without a copy."""

from __future__ import annotations

import enum
from typing import Any

import rushlight as torch

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """The numbers of devices in DLPack."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def from_dlpack(ext_tensor: Any, **options: Any) -> torch.Tensor:
    """See `torch.from_dlpack`."""
    return torch.from_dlpack(ext_tensor, **options)


def to_dlpack(tensor: torch.Tensor) -> Any:
    """The tensor's DLPack capsule."""
    return tensor.__dlpack__()
