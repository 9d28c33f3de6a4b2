"""A buffer: memory with an address and a length, and nothing else (no dtype, no shape).

Comes from `allocate` (our memory, returned to the allocator when the last user lets go) or from
`from_address` (foreign memory: a numpy array's, a DLPack capsule's; `owner` keeps it alive).
Always true: while a Buffer, or a numpy view of it, is alive, its memory is.

>>> from rushlight.base.dtypes import find_dtype
>>> buffer = allocate(16)
>>> view = buffer.view(find_dtype("float32"), (2, 2))
>>> view[:] = 3.0
>>> buffer.view(find_dtype("float32"), (4,))[3]
np.float32(3.0)
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.runtime import allocator
from rushlight.runtime.allocator import Block


class _Bytes(ctypes.c_char * sys.maxsize):
    """All memory from an address on, as numpy takes it in less than half the time that
    `__array_interface__` needs; `buffer` is kept alive."""

    __slots__ = ("buffer",)


class Buffer:
    """Memory. `foreign`: visible outside, until `take_back`, so it is never donated or reused in
    place. `device`: the type of the device whose programs wrote it and read it, None for what goes
    with any. `private`: once it has a value, only programs write to it."""

    __slots__ = (
        "__weakref__", "device", "address", "foreign", "nbytes", "owner", "private", "readonly",
    )  # fmt: skip

    def __init__(
        self, address: int, nbytes: int, owner: Any, foreign: bool, readonly: bool = False
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.foreign = foreign
        self.private = not foreign
        self.readonly = readonly
        self.device: str | None = "cpu"

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Bytes, as numpy's protocol: the array numpy makes from it keeps this object alive."""
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, self.readonly),
        }

    def view(self, dtype: DType, shape: tuple[int, ...], offset: int = 0) -> np.ndarray:
        """A numpy array on this memory, `offset` bytes in, without a copy."""
        nbytes = prod(shape) * dtype.itemsize
        if offset < 0 or offset + nbytes > self.nbytes:
            raise ValueError(
                f"Buffer.view: {dtype.name}{list(shape)} at byte {offset} needs "
                f"{offset + nbytes} bytes, the buffer has {self.nbytes}"
            )
        whole: Any
        if self.readonly:
            whole = np.asarray(self)
        else:
            whole = _Bytes.from_address(self.address)
            whole.buffer = self
        return np.ndarray(shape, dtype.np, whole, offset)

    def expose(self) -> None:
        """From now on others may see it, and write to it."""
        self.foreign, self.private = True, False

    def take_back(self) -> Buffer:
        """The memory as a buffer that nobody has seen. This one has nothing any more."""
        made = type(self)(self.address, self.nbytes, self.owner, False)
        made.device, self.owner = self.device, None
        return made

    def number(self, dtype: DType, offset: int = 0) -> Any:
        """The element `offset` bytes in, as a Python number: what `view(...).item()` gives."""
        kind = _NUMBERS.get(dtype.name)
        if kind is None or offset < 0 or offset + dtype.itemsize > self.nbytes:
            return self.view(dtype, (), offset).item()
        return kind(self.address + offset).value

    def put_number(self, dtype: DType, value: Any) -> bool:
        """Write a Python number at the start; False where that needs a conversion."""
        kind = _NUMBERS.get(dtype.name)
        if kind is None:
            return False
        kind(self.address).value = value
        return True

    def __repr__(self) -> str:
        kind = "foreign buffer" if self.foreign else "buffer"
        return f"<{kind} {self.nbytes} bytes at {self.address:#x}>"


# How Python reads numbers of these dtypes at an address.
_NUMBERS = {
    "bool": ctypes.c_bool.from_address, "uint8": ctypes.c_uint8.from_address,
    "int8": ctypes.c_int8.from_address, "int16": ctypes.c_int16.from_address,
    "int32": ctypes.c_int32.from_address, "int64": ctypes.c_int64.from_address,
    "float32": ctypes.c_float.from_address, "float64": ctypes.c_double.from_address,
}  # fmt: skip
# Up to so many pieces of memory are asked for one by one.
FEW = 4


class _Block(Buffer):
    """A whole block of the allocator: it goes back there."""

    __slots__ = ()

    def __del__(self) -> None:
        if allocator is None or allocator.DEFAULT is None:
            return  # the interpreter is going down
        owner, pool = getattr(self, "owner", None), allocator.DEFAULT
        if type(owner) is Block:
            self.owner = None
            pool.give(owner)


def allocate(nbytes: int) -> Buffer:
    """New memory, aligned to 64 bytes (2 MiB for big ones), with arbitrary contents."""
    made: Any = _new(_Block)  # as `Buffer.__init__`, which would be one more call
    made.owner = block = allocator.DEFAULT.take(nbytes)
    made.address, made.nbytes, made.device = block.address, nbytes, "cpu"
    made.foreign = made.readonly = False
    made.private = True
    return made


_new = object.__new__


def allocate_all(sizes: Sequence[int]) -> list[Buffer]:
    """New memory for each of these numbers of bytes; see `allocate`."""
    if len(sizes) <= FEW:
        buffers = []
        for nbytes in sizes:  # a comprehension is a call of its own
            buffers.append(allocate(nbytes))
        return buffers
    blocks = allocator.DEFAULT.take_all(sizes)
    return [
        _Block(block.address, nbytes, block, False)
        for block, nbytes in zip(blocks, sizes, strict=True)
    ]


def from_address(address: int, nbytes: int, owner: Any, readonly: bool = False) -> Buffer:
    """Memory of someone else; `owner` is held as long as the Buffer lives."""
    if nbytes < 0 or (address == 0 and nbytes > 0):
        raise ValueError(f"from_address: no memory of {nbytes} bytes at address {address:#x}")
    return Buffer(address, nbytes, owner, foreign=True, readonly=readonly)


def from_array(array: np.ndarray) -> Buffer:
    """The memory of a C-contiguous numpy array, shared with it."""
    if not array.flags.c_contiguous:
        raise ValueError(f"from_array: array of strides {array.strides} is not C-contiguous")
    return from_address(
        int(array.ctypes.data), array.nbytes, array, readonly=not array.flags.writeable
    )


def empty_cache() -> None:
    """Give idle memory back to the system."""
    allocator.DEFAULT.empty_cache()


def stats() -> dict[str, int]:
    """memory_allocated, max_memory_allocated, memory_cached, packed_weights (packed.py, a part of
    what is allocated): bytes, of whole blocks."""
    return allocator.DEFAULT.stats()


def memory_allocated() -> int:
    return stats()["memory_allocated"]


def max_memory_allocated() -> int:
    return stats()["max_memory_allocated"]


def reset_peak() -> None:
    """Start measuring max_memory_allocated again from what is in use now."""
    allocator.DEFAULT.reset_peak()
