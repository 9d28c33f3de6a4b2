"""Storages as objects: `tensor.untyped_storage()`, `tensor.storage()`, `set_` from one.

In: the memory cell of a tensor (`storage.py`). Out: its bytes, its size, an address that no other
cell has. A cell holds a value, and equal values may share memory until one is written; who asks for
an address gets a cell with memory of its own.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.autograd.mode import STATE
from rushlight.base.devices import CPU, DEVICES, device
from rushlight.base.dtypes import DType, uint8
from rushlight.base.errors import NotSupportedError
from rushlight.engine.live import live_refs
from rushlight.engine.realize import flush
from rushlight.ir.device import device_of
from rushlight.ir.node import Node
from rushlight.tensors.cells import own_array
from rushlight.tensors.convert import set_ as set_from_tensor
from rushlight.tensors.from_data import over_array
from rushlight.tensors.size import row_major
from rushlight.tensors.storage import Storage, data_node
from rushlight.tensors.tensor import Tensor, base_of, new_tensor


def own_memory(storage: Storage) -> np.ndarray:
    """The memory of a cell, shared with no other cell. Who has its address may write there: what
    was recorded before is computed, and nothing made of it is kept (runtime/packed.py)."""
    if storage.foreign is None:
        array = storage.array()
        node = storage.node
        if node.leaf != "buffer" or any(
            ref is not storage and ref.node is node for ref in live_refs()
        ):
            storage.hold(_where(storage, data_node(array, node.dtype)))
        flush()
        storage.node.buffer.private = False
    return storage.array()


def _where(storage: Storage, node: Node) -> Node:
    """The value on the device of the cell."""
    place = device_of(storage.node) if DEVICES.used else None
    return node if place in (None, "cpu") else ops.to_device.node(node, "cpu", place)


class UntypedStorage:
    """The memory behind tensors, as bytes.

    >>> import rushlight as torch
    >>> x = torch.zeros(3)
    >>> x.untyped_storage().nbytes(), x[1:].untyped_storage().nbytes()
    (12, 12)
    """

    _slices_are_apart = False

    def __init__(self, size: Any = 0, *, device: Any = None, dtype: Any = None) -> None:
        if isinstance(size, int):
            array = np.zeros(size, np.uint8)
        else:
            array = np.array(list(size), np.uint8)
        self._tensor = new_tensor(data_node(array, uint8))

    @classmethod
    def _of(cls, tensor: Tensor) -> UntypedStorage:
        """The object of a tensor's cell: the same one as long as somebody holds it."""
        cell = tensor._storage
        known = cell.tag() if cell.tag is not None else None
        if known is None:
            known = object.__new__(cls)
            known._tensor = base_of(tensor).detach()
            cell.tag = weakref.ref(known)
        return known

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str = "native", **_: Any) -> UntypedStorage:
        """A storage with a copy of an object's bytes."""
        return cls(np.frombuffer(buffer, np.uint8))

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first bytes of a file, mapped into memory. `shared`: what is written there reaches
        the file; else it stays in this process, and each slice of the storage is a storage of its
        own: what is written into one is not seen in others, where PyTorch's slices overlap."""
        mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))
        return cls._over(mapped) if shared else cls._apart(np.asarray(mapped))

    @classmethod
    def _apart(cls, array: np.ndarray) -> UntypedStorage:
        """A storage of memory that nobody else writes to."""
        made = object.__new__(cls)
        made._tensor = own_array(array, uint8, array.shape)
        made._tensor._storage.tag = weakref.ref(made)
        made._slices_are_apart = True
        return made

    @classmethod
    def _over(cls, array: np.ndarray) -> UntypedStorage:
        """The storage that is this memory."""
        made = object.__new__(cls)
        made._tensor = over_array(np.asarray(array), uint8)
        made._tensor._storage.tag = weakref.ref(made)
        return made

    @property
    def device(self) -> device:
        return self._tensor.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def __dlpack__(self, **options: Any) -> Any:
        return self._memory().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _as_tensor(self) -> Tensor:
        """The same memory as a tensor of bytes."""
        flat = self._tensor.detach().reshape(-1)
        return flat if flat._dtype is uint8 else flat.view(uint8)

    def _memory(self) -> np.ndarray:
        """The bytes themselves, from now on seen outside."""
        return self._tensor._storage.expose().reshape(-1).view(np.uint8)

    @property
    def _cdata(self) -> int:
        return id(self._tensor._storage)

    def _bytes(self) -> np.ndarray:
        return np.ascontiguousarray(self._tensor._storage.array()).reshape(-1).view(np.uint8)

    def nbytes(self) -> int:
        node = self._tensor._storage.node
        shape = self._tensor._storage.foreign.shape if self._tensor._storage.foreign is not None \
            else node.shape  # fmt: skip
        return math.prod(shape) * node.dtype.itemsize

    size = __len__ = nbytes

    def element_size(self) -> int:
        return 1

    def data_ptr(self) -> int:
        """The address of the memory; 0 of an empty one. No other storage has it now."""
        return own_memory(self._tensor._storage).ctypes.data if self.nbytes() else 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if self._slices_are_apart:
                return UntypedStorage._apart(self._bytes()[index])
            return UntypedStorage._over(self._memory()[index])
        return int(self._bytes()[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        return self._bytes().tolist()

    def untyped(self) -> UntypedStorage:
        return self

    def clone(self) -> UntypedStorage:
        return UntypedStorage(self._bytes())

    def cpu(self) -> UntypedStorage:
        return self if self.device is CPU else self.clone()

    def copy_(self, source: UntypedStorage, non_blocking: Any = None) -> UntypedStorage:
        """Take over the bytes of another storage of this size."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"copy_: the storages hold {self.nbytes()} and {source.nbytes()} bytes"
            )
        cell = self._tensor._storage
        node = cell.node
        made = data_node(source._bytes().view(node.dtype.np).reshape(node.shape), node.dtype)
        cell.replace(_where(cell, made))
        cell.version += 1
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Every byte becomes `value`."""
        return self.copy_(UntypedStorage(np.full(self.nbytes(), value, np.uint8)))

    def resize_(self, size: int) -> UntypedStorage:
        """Not supported, except to the size that it has."""
        if size != self.nbytes():
            raise NotSupportedError(
                "UntypedStorage.resize_ is not supported: memory is given back when nobody holds "
                "the tensor; use del, or tensor.data = torch.empty(0)"
            )
        return self

    def is_shared(self) -> bool:
        return False

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def share_memory_(self) -> UntypedStorage:
        return self

    def __repr__(self) -> str:
        lines = [f" {value}" for value in self.tolist()]
        return "\n".join(
            [*lines, f"[torch.storage.UntypedStorage(device=cpu) of size {len(lines)}]"]
        )

    def __reduce__(self) -> tuple:
        return (UntypedStorage.from_buffer, (self._bytes().tobytes(),))


class TypedStorage:
    """The memory behind tensors, as elements of one dtype. PyTorch deprecates it."""

    dtype: DType

    def __init__(
        self, *, wrap_storage: UntypedStorage, dtype: DType, _internal: bool = False
    ) -> None:
        self._untyped_storage, self.dtype = wrap_storage, dtype

    @property
    def device(self) -> device:
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def _elements(self) -> np.ndarray:
        return self._untyped_storage._bytes().view(self.dtype.np)

    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    size = _size = __len__

    def element_size(self) -> int:
        return self.dtype.itemsize

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def tolist(self) -> list[Any]:
        return self._elements().tolist()

    def __getitem__(self, index: int) -> Any:
        return self._elements()[index].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def is_shared(self) -> bool:
        return False


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind the tensor and all its views."""
    return UntypedStorage._of(self)


def storage(self: Tensor) -> TypedStorage:
    """The memory behind the tensor and all its views, as elements of its dtype."""
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self._dtype)


def data_ptr(self: Tensor) -> int:
    """The address of the first element now. Who writes there asks for it right before: what was
    recorded until then is computed, and what is recorded later sees the new values. A value that
    is recorded between the two may see either; an in-place op may move it (`numpy()` shares
    memory without such rules)."""
    if self.numel() == 0:
        return 0
    memory = own_memory(self._storage)
    return memory.ctypes.data + self.storage_offset() * self.element_size()


def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Take over memory: a tensor's, or a window of a storage."""
    if isinstance(source, TypedStorage):
        source = source.untyped()
    if self.requires_grad and self.is_leaf and STATE.grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    if not isinstance(source, UntypedStorage):
        return set_from_tensor(self, source)
    flat = source._tensor.reshape(-1)
    if flat._dtype is not self._dtype:
        flat = flat.view(self._dtype)
    if size is None:
        size = (flat.numel() - storage_offset,)
    window = flat.as_strided(  # type: ignore[attr-defined]
        tuple(size), tuple(stride or row_major(tuple(size))), storage_offset
    )
    version = self._counter.version
    self.data = window
    self._counter.version = version + 1
    return self


FUNCTIONS: dict[str, Any] = {"UntypedStorage": UntypedStorage, "TypedStorage": TypedStorage}
METHODS: dict[str, Callable[..., Any]] = {
    "untyped_storage": untyped_storage, "storage": storage, "data_ptr": data_ptr, "set_": set_,
    "_typed_storage": storage,
}  # fmt: skip
