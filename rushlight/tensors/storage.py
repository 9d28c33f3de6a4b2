"""Storage: the memory cell that views share. It holds the current functional value.

In: nodes of the base shape (row-major). Out: nodes to read. Always true: every change of the
value goes through `replace`; a *foreign* storage (memory that numpy or DLPack sees) is written
before `replace` returns, and a reader gets a snapshot of it, taken when the op is recorded.
Snapshots, not evaluation, because a flush there would cut a program at a place that data loading
moves about; above SNAPSHOT_BYTES the op reads the memory itself and is evaluated at once.
"""

from __future__ import annotations

import threading
from ctypes import memmove
from sys import getrefcount
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType
from rushlight.base.fork import hold_over_fork
from rushlight.engine.capture import open_session
from rushlight.engine.live import WAITING, Ref
from rushlight.engine.realize import compute, flush, read
from rushlight.ir.device import device_of
from rushlight.ir.node import NO_VALUE, Node, buffer_node
from rushlight.runtime.buffer import Buffer, allocate, from_address

SNAPSHOT_BYTES = 1 << 26


NUMBERS = frozenset(("const", "scalar"))


# Held while it is decided whether somebody looks at memory that was shown.
_LOOKS = hold_over_fork(threading.Lock())


class _Eager(threading.local):
    wanted = False  # an operand reads large foreign memory: evaluate the op being recorded


EAGER = _Eager()


class Counter:
    """A version of its own (`.data`, a tensor under `set_data`)."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0


class Storage(Ref):
    """The value of a base tensor; `version` counts in-place changes of it and all its views."""

    __slots__ = ("version", "foreign", "inference", "tag", "writes")

    def __init__(self, node: Node, inference: bool = False) -> None:
        Ref.__init__(self, node)
        self.version = 0
        self.foreign: np.ndarray | None = None
        self.inference = inference
        self.writes = 0  # to parts of it, that waited together (inplace.py)
        self.tag: Any = None  # what interop keeps here (an untyped_storage object)

    def replace(self, node: Node) -> None:
        """Give the cell a new value (same shape and dtype)."""
        shown = self.foreign  # as long as this call holds it, nobody takes the memory back
        if shown is not None:
            shown[...] = value_of(node).reshape(shown.shape)
            session = open_session()
            if session is not None:  # what it had at the start is not what is read from now on
                session.foreign.pop(self, None)
                session.parts.pop(self, None)
        elif self.node.buffer is NO_VALUE:
            pass  # it has no value, so it cannot get another one
        elif node.buffer is NO_VALUE:
            read(node)  # raises
        else:
            self.hold(node)

    def check_room(self, count: int) -> None:
        """Memory that others see keeps its size."""
        if self.foreign is not None and count > self.foreign.size:
            raise RuntimeError("Trying to resize storage that is not resizable")

    def array(self) -> np.ndarray:
        """The memory as a row-major array (computed if pending). For looking, never for writing."""
        shown = self.foreign
        if shown is None:
            return value_of(self.node)
        session = open_session()
        if session is not None:
            session.refuse_shown(self)
        return shown

    def expose(self) -> np.ndarray:
        """The memory, from now on visible outside, until `reclaim`."""
        while True:
            with _LOOKS:
                if self.foreign is not None:
                    return self.foreign
            serial = self.node.serial
            found = value_of(self.node)  # without the lock: a flush may wait for other threads
            if WAITING:
                flush()  # nothing pending may read the cell's memory later
            with _LOOKS:
                if self.foreign is None and self.node.serial == serial:
                    return self._show(found)

    def _show(self, found: np.ndarray) -> np.ndarray:
        """`expose`, with the lock held, where this is the value."""
        if not self._is_alone():
            device = device_of(self.node)
            self.hold(data_node(found, self.node.dtype))
            self.node.buffer.device = device
            found = self.node.buffer.view(self.node.dtype, self.node.shape)
        self.node.buffer.expose()
        self.foreign = found
        return found

    @property
    def is_lent(self) -> bool:
        """Is memory that others see the cell's own, from `expose`?"""
        array = self.foreign
        return array is not None and getattr(array.base, "buffer", None) is self.node.buffer

    def reclaim(self) -> bool:
        """Take back memory that `expose` showed, if nobody looks at it any more: the counts of
        references say so (at slots: see tensors/overwrite.py). Is it the cell's own now?"""
        if self.foreign is None:
            return True
        if not self.is_lent or open_session() is not None:
            return False
        with _LOOKS:
            if self.foreign is None:
                return True
            if self._is_looked_at():
                return False
            node = self.node
            self.hold(buffer_node(node.buffer.take_back(), node.shape, node.dtype))
            self.foreign = None
        return True

    def _is_looked_at(self) -> bool:
        """All arrays that others have over the memory hold the one at `foreign`."""
        return (
            getrefcount(self.foreign) > 2  # the slot and this look
            or getrefcount(self.foreign.base) > 2  # type: ignore[union-attr]
            or getrefcount(self.node) > 2
            or getrefcount(self.node.buffer) > 3  # the node and the array's base, too
        )

    def _is_alone(self) -> bool:
        """Nobody else holds the node or its memory, whose value must never change for them. Called
        while one array looks at the memory."""
        if self.node.leaf != "buffer" or self.node.buffer.foreign:
            return False
        return getrefcount(self.node) == 2 and getrefcount(self.node.buffer) == 3

    def adopt(self, array: np.ndarray, dtype: DType, shape: tuple[int, ...]) -> None:
        """Live in this memory (the caller's, row-major)."""
        buffer = from_address(array.ctypes.data, array.nbytes, array)
        self.hold(buffer_node(buffer, shape, dtype))
        self.foreign = array.reshape(shape)

    def snapshot(self) -> Node:
        """A node for what foreign memory holds now."""
        node = self.node
        buffer = allocate(node.buffer.nbytes)
        buffer.device = node.buffer.device
        memmove(buffer.address, node.buffer.address, buffer.nbytes)
        return buffer_node(buffer, node.shape, node.dtype)

    def foreign_view(self, shape: tuple, strides: tuple, offset: int) -> Node:
        """A node for what a view of foreign memory holds now."""
        shown = self.foreign
        if shown is None:  # another thread took it back meanwhile
            shown = value_of(self.node)
        window = strided(shown, shape, strides, offset)
        copy = data_node(window, self.node.dtype)
        copy.buffer.device = self.node.buffer.device
        return copy


def value_of(node: Node) -> np.ndarray:
    """The value as an array, computed if pending. A number leaf is shared, so it stays a leaf.

    A call that is being captured and looks at a value cannot be replayed.
    """
    session = open_session()
    if session is not None:
        session.refuse("a value is needed in the middle of the call")
    if node.leaf in NUMBERS:
        return np.asarray(node.attrs[0]).astype(node.dtype.np)
    if node.leaf != "buffer":
        compute(node)
    return node.buffer.view(node.dtype, node.shape)


def strided(array: np.ndarray, shape: tuple, strides: tuple, offset: int) -> np.ndarray:
    """A window over row-major memory, strides and offset in elements."""
    if 0 in shape:
        return array.reshape(-1)[:0].reshape(shape)
    size = array.itemsize
    memory = array.reshape(-1).view(np.uint8)
    return np.ndarray(shape, array.dtype, memory, offset * size, [s * size for s in strides])


def data_node(array: np.ndarray, dtype: DType) -> Node:
    """A leaf with a copy of the array's elements, row-major."""
    buffer: Buffer = allocate(array.nbytes)
    buffer.view(dtype, array.shape)[...] = array
    return buffer_node(buffer, array.shape, dtype)
