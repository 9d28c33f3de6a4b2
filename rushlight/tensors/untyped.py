"""`Tensor.untyped_storage()`: the memory that a tensor and its views share, without a dtype.

In: a tensor. Out: an object to ask for size and address, and to compare: two tensors share memory
exactly when their storages are equal.
"""

from __future__ import annotations

import numpy as np

from rushlight.base.devices import device as Device
from rushlight.engine.live import live_refs
from rushlight.tensors.storage import Storage
from rushlight.tensors.tensor import Tensor


class UntypedStorage:
    """The bytes behind a tensor.

    >>> import rushlight as torch
    >>> x = torch.zeros(2, 3)
    >>> x.untyped_storage().nbytes(), x[0].untyped_storage() == x.untyped_storage()
    (24, True)
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def nbytes(self) -> int:
        """How many bytes it has."""
        node = self._storage.node
        return int(node.numel()) * node.dtype.itemsize

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """Where it lies now; no other storage has this address. An in-place op may move it."""
        if not self.nbytes():
            return 0
        memory = self._storage.array()
        if self._storage.foreign is None and self._is_shared():
            memory = self._storage.expose()  # equal values lay in one place: now it has its own
        return memory.ctypes.data

    def _is_shared(self) -> bool:
        own = self._storage.node.buffer
        others = (ref for ref in live_refs() if ref is not self._storage)
        return any(ref.node.leaf == "buffer" and ref.node.buffer is own for ref in others)

    @property
    def device(self) -> Device:
        return Device("cpu")

    def is_shared(self) -> bool:
        """In memory shared with other processes? Never here."""
        return False

    def tolist(self) -> list[int]:
        """The bytes."""
        return np.ascontiguousarray(self._storage.array()).view(np.uint8).reshape(-1).tolist()

    def __getitem__(self, index: int) -> int:
        return self.tolist()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(id(self._storage))

    def __repr__(self) -> str:
        return f"UntypedStorage(device=cpu) of size {self.nbytes()}"


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory of the tensor and of all its views."""
    return UntypedStorage(self._storage)
