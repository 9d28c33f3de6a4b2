"""Tensors as little-endian bytes, under the dtype names of the safetensors format."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

import rushlight as torch
from rushlight.serialization.errors import UnsupportedObjectError
from rushlight.tensors.cells import own_array


@dataclass(frozen=True)
class Storage:
    """How one dtype is stored: its torch name, its numpy dtype, and how many bytes it has.

    numpy has no bfloat16 and no float8; their bits travel as `bits`, an integer dtype.
    """

    torch_name: str
    numpy_name: str
    size_bytes: int
    bits: str | None = None


STORAGES: dict[str, Storage] = {
    "BOOL": Storage("bool", "|b1", 1),
    "U8": Storage("uint8", "|u1", 1),
    "I8": Storage("int8", "|i1", 1),
    "U16": Storage("uint16", "<u2", 2),
    "I16": Storage("int16", "<i2", 2),
    "U32": Storage("uint32", "<u4", 4),
    "I32": Storage("int32", "<i4", 4),
    "U64": Storage("uint64", "<u8", 8),
    "I64": Storage("int64", "<i8", 8),
    "F8_E4M3": Storage("float8_e4m3fn", "|u1", 1, bits="uint8"),
    "F8_E5M2": Storage("float8_e5m2", "|u1", 1, bits="uint8"),
    "F16": Storage("float16", "<f2", 2),
    "BF16": Storage("bfloat16", "<i2", 2, bits="int16"),
    "F32": Storage("float32", "<f4", 4),
    "F64": Storage("float64", "<f8", 8),
    "C64": Storage("complex64", "<c8", 8),
}


def name_of_dtype(dtype: torch.dtype) -> str:
    """Return the format's name of a dtype.

    Example:
        >>> name_of_dtype(torch.bfloat16)
        'BF16'
    """
    for name, storage in STORAGES.items():
        if getattr(torch, storage.torch_name, None) == dtype:
            return name
    raise UnsupportedObjectError(f"the safetensors format has no dtype for {dtype}")


def tensor_to_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the elements in row order."""
    if sys.byteorder != "little":
        raise NotImplementedError("safetensors files are written on little-endian machines only")
    storage = STORAGES[name_of_dtype(tensor.dtype)]
    if tensor.numel() == 0:
        return memoryview(b"")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if storage.bits is not None:
        flat = flat.view(getattr(torch, storage.bits))
    return memoryview(np.ascontiguousarray(flat.numpy())).cast("B")


def bytes_to_tensor(
    buffer: bytearray | memoryview, dtype_name: str, shape: tuple[int, ...]
) -> torch.Tensor:
    """Return a tensor over `buffer`, which is writable and from now on belongs to the tensor."""
    storage = STORAGES[dtype_name]
    dtype = getattr(torch, storage.torch_name, None)
    if dtype is None:
        raise UnsupportedObjectError(f"dtype {dtype_name} has no counterpart here")
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=dtype)
    array = np.frombuffer(buffer, np.uint8)
    if array.ctypes.data % storage.size_bytes:
        array = array.copy()
    return own_array(array, dtype, shape)
