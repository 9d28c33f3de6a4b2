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
class StoredDtype:
    """How the elements of one dtype are stored: its torch name, and how many bytes one has.

    numpy has no bfloat16 and no float8; their bits travel as `bits`, an integer dtype.
    """

    torch_name: str
    size_bytes: int
    bits: str | None = None


STORED_DTYPES: dict[str, StoredDtype] = {
    "BOOL": StoredDtype("bool", 1),
    "U8": StoredDtype("uint8", 1),
    "I8": StoredDtype("int8", 1),
    "U16": StoredDtype("uint16", 2),
    "I16": StoredDtype("int16", 2),
    "U32": StoredDtype("uint32", 4),
    "I32": StoredDtype("int32", 4),
    "U64": StoredDtype("uint64", 8),
    "I64": StoredDtype("int64", 8),
    "F8_E4M3": StoredDtype("float8_e4m3fn", 1, bits="uint8"),
    "F8_E5M2": StoredDtype("float8_e5m2", 1, bits="uint8"),
    "F16": StoredDtype("float16", 2),
    "BF16": StoredDtype("bfloat16", 2, bits="int16"),
    "F32": StoredDtype("float32", 4),
    "F64": StoredDtype("float64", 8),
    "C64": StoredDtype("complex64", 8),
}


def name_of_dtype(dtype: torch.dtype) -> str:
    """Return the format's name of a dtype.

    Example:
        >>> name_of_dtype(torch.bfloat16)
        'BF16'
    """
    for name, stored in STORED_DTYPES.items():
        if getattr(torch, stored.torch_name, None) == dtype:
            return name
    raise UnsupportedObjectError(f"the safetensors format has no dtype for {dtype}")


def tensor_to_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the elements in row order."""
    if sys.byteorder != "little":
        raise NotImplementedError("safetensors files are written on little-endian machines only")
    stored = STORED_DTYPES[name_of_dtype(tensor.dtype)]
    if tensor.numel() == 0:
        return memoryview(b"")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if stored.bits is not None:
        flat = flat.view(getattr(torch, stored.bits))
    return memoryview(np.ascontiguousarray(flat.numpy())).cast("B")


def bytes_to_tensor(
    buffer: bytearray | memoryview, dtype_name: str, shape: tuple[int, ...]
) -> torch.Tensor:
    """Return a tensor over `buffer`, which is writable and from now on belongs to the tensor."""
    stored = STORED_DTYPES[dtype_name]
    dtype = getattr(torch, stored.torch_name, None)
    if dtype is None:
        raise UnsupportedObjectError(f"dtype {dtype_name} has no counterpart here")
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=dtype)
    array = np.frombuffer(buffer, np.uint8)
    if array.ctypes.data % stored.size_bytes:
        array = array.copy()
    return own_array(array, dtype, shape)
