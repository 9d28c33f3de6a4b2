"""Storages of PyTorch's files: names of dtypes, bytes of a tensor's memory, tensors over bytes.

In: tensors to write; memory that was read. Out: the memory behind a tensor, written once whoever
sees it; tensors that share memory again when they did. Always true: a tensor is made only inside
the bytes that its storage has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.serialization.errors import CorruptFileError, UnsupportedObjectError
from rushlight.tensors.cells import own_array, window

# The classes that name a dtype in a file. Dtypes without a class are written as bytes (UNTYPED)
# with the dtype beside.
CLASSES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128",
}  # fmt: skip
CLASS_OF = {dtype: name for name, dtype in CLASSES.items()}
UNTYPED = "UntypedStorage"
MAX_BYTES = 2**63 - 1


def dtype_named(name: str) -> torch.dtype:
    """The dtype called `name`; UnsupportedObjectError if there is none here."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise UnsupportedObjectError(f"the file has tensors of dtype {name}, which is not here")
    return found


def short_name(dtype: torch.dtype) -> str:
    """Return "float32" for torch.float32."""
    return str(dtype).rpartition(".")[2]


class StorageClass:
    """What a name like torch.FloatStorage in a file stands for; `dtype_name` None: bytes."""

    def __init__(self, name: str) -> None:
        """Take a key of CLASSES, or UNTYPED."""
        self.dtype_name = CLASSES.get(name)

    def size_bytes(self, numel: Any) -> int:
        """Check a count of elements that a file gives; return the bytes it stands for."""
        if type(numel) is not int or not 0 <= numel <= MAX_BYTES:
            raise CorruptFileError(f"a storage has {numel!r:.50} elements")
        if self.dtype_name is None:
            return numel
        return numel * dtype_named(self.dtype_name).itemsize


class Storage:
    """The memory of one storage that was read. Tensors over it are made by `tensor`.

    The first tensor decides how the memory is typed; all others are windows onto it.
    """

    def __init__(self, memory: Any, kind: StorageClass) -> None:
        """`memory` is writable, or b"", and belongs to this object alone."""
        self.memory = memory
        self.kind = kind
        self.size_bytes = len(memory)
        self.place: torch.device | None = None  # where tensors are wanted, if not on the CPU
        self._base: torch.Tensor | None = None
        self._flat: torch.Tensor | None = None

    def flat(self) -> torch.Tensor:
        """All elements in one dimension (bytes, if nobody said of what dtype they are)."""
        dtype = dtype_named(self.kind.dtype_name or "uint8")
        return self.tensor(0, (self.size_bytes // dtype.itemsize,), (1,), dtype)

    def tensor(
        self, offset: int, size: tuple, stride: tuple, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Make a tensor over a part of the memory, after checking that it is one."""
        if dtype is None:
            dtype = dtype_named(self.kind.dtype_name or "uint8")
        check_window(offset, size, stride, self.size_bytes // dtype.itemsize)
        if math.prod(size) == 0:
            return torch.empty(0, dtype=dtype, device=self.place).as_strided(size, stride, 0)
        if self._base is None:
            return self._first(dtype, offset, size, stride)
        if self._flat is None:
            self._flat = self._base.reshape(-1).detach()
        return window(self._flat, dtype, size, stride, offset)

    def _first(self, dtype: torch.dtype, offset: int, size: tuple, stride: tuple) -> torch.Tensor:
        count = self.size_bytes // dtype.itemsize
        array = np.frombuffer(self.memory, np.uint8, count * dtype.itemsize)
        if array.ctypes.data % dtype.itemsize:
            array = array.copy()
        whole = offset == 0 and math.prod(size) == count and is_dense(size, stride)
        self._base = own_array(array, dtype, size if whole else (count,))
        self.memory = b""
        if self.place is not None:
            self._base = self._base.to(self.place)
        return self._base.detach() if whole else self.tensor(offset, size, stride, dtype)


def is_dense(size: tuple, stride: tuple) -> bool:
    """Say if a tensor is laid out row by row without gaps."""
    expected = 1
    for length, step in zip(reversed(size), reversed(stride), strict=True):
        if length != 1 and step != expected:
            return False
        expected *= length
    return True


def check_window(offset: Any, size: Any, stride: Any, numel: int) -> None:
    """Refuse what does not lie inside of `numel` elements."""
    for what, value in (("size", size), ("stride", stride)):
        if not isinstance(value, tuple) or len(value) > 64 or not all(map(is_size, value)):
            raise CorruptFileError(f"a tensor has the {what} {value!r:.100}")
    if not is_size(offset) or len(size) != len(stride):
        raise CorruptFileError(f"a tensor has offset {offset!r:.50}, {size} and {stride}")
    if math.prod(length for length in size if length) > MAX_BYTES:
        raise CorruptFileError(f"a tensor has more elements than fit: {size}")
    if 0 in size:
        return
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if last >= numel:
        raise CorruptFileError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are "
            f"out of bounds for a storage of {numel} elements"
        )


def is_size(value: Any) -> bool:
    """Say if it is an integer from 0 to what fits in 63 bits (no boolean)."""
    return type(value) is int and 0 <= value <= MAX_BYTES
