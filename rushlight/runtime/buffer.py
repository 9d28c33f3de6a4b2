"""Memory of a computed value: address, size, and what keeps it alive."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType


class Buffer:
    """`nbytes` at `address`; `owner` keeps them alive; `foreign`: visible outside Rushlight."""

    __slots__ = ("address", "nbytes", "owner", "foreign", "__weakref__")

    def __init__(self, address: int, nbytes: int, owner: Any, foreign: bool = False) -> None:
        self.address, self.nbytes, self.owner, self.foreign = address, nbytes, owner, foreign

    def view(self, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
        """A numpy array over this memory (no copy); it keeps the buffer alive."""
        raw = (ctypes.c_byte * self.nbytes).from_address(self.address)
        raw._keep = self
        return np.frombuffer(raw, dtype.np, int(np.prod(shape, dtype=np.int64))).reshape(shape)


def allocate(nbytes: int) -> Buffer:
    """New memory, 64-byte aligned, contents undefined."""
    raw = np.empty(max(nbytes, 1) + 64, np.uint8)
    address = (raw.ctypes.data + 63) & ~63
    return Buffer(address, nbytes, raw)


def from_address(address: int, nbytes: int, owner: Any) -> Buffer:
    """Memory that somebody else owns and may read or write (numpy, DLPack)."""
    return Buffer(address, nbytes, owner, foreign=True)
