"""torch.types: names for type hints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias, Union

import rushlight as torch
from rushlight import names as _names

__getattr__ = _names.getattr_of(__name__)
__all__ = [
    "BoolLikeType", "Device", "FileLike", "FloatLikeType", "IntLikeType", "Number", "Size",
    "Storage", "SymBool", "SymFloat", "SymInt", "Tensor", "_Number", "_TensorOrTensors",
    "_TensorOrTensorsOrGradEdge", "_bool", "_bytes", "_complex", "_device", "_dtype", "_float",
    "_int", "_layout", "_size", "_str", "py_sym_types",
]  # fmt: skip

_TensorOrTensors: TypeAlias = Union[torch.Tensor, Sequence[torch.Tensor]]  # noqa: UP007
_TensorOrTensorsOrGradEdge: TypeAlias = Any
_dtype, _device, _layout, _size = torch.dtype, torch.device, torch.layout, torch.Size
_int, _float, _bool, _complex, _str, _bytes = int, float, bool, complex, str, bytes
Number: TypeAlias = Union[int, float, bool]  # noqa: UP007
_Number = (int, float, bool)
Device: TypeAlias = Any
FileLike: TypeAlias = Union[str, os.PathLike[str], IO[bytes]]  # noqa: UP007
# Sizes are plain numbers in Python code here, so these are the plain types.
SymInt, SymFloat, SymBool = torch.SymInt, torch.SymFloat, torch.SymBool
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
py_sym_types = (SymInt, SymFloat, SymBool)
Storage = torch.UntypedStorage
Tensor = torch.Tensor
Size = torch.Size
