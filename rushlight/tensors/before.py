"""What a tensor was before an in-place change that may have to be taken back (engine/undo.py).

In: a tensor that is about to be changed. Out: an object that, called with the storage that got the
new value, puts the old state back: value, version, history. Always true: it keeps no tensor and no
history alive, only the old value.
"""

from __future__ import annotations

import weakref
from typing import Any

from rushlight.ir.node import Node
from rushlight.tensors.tensor import Tensor


class Before:
    """The value, version and history of a tensor and of the base that it sees."""

    def __init__(self, tensor: Tensor) -> None:
        self.node = tensor._storage.node
        self.version = tensor._counter.version
        # A counter of its own; None: the storage, which is given when the state is put back.
        self.counter = None if tensor._counter is tensor._storage else tensor._counter
        base = None if tensor._view is None else tensor._view.base
        self.histories = [_History(t) for t in (tensor, base) if t is not None]

    def __call__(self, storage: Any) -> None:
        storage.hold(self.node)
        (storage if self.counter is None else self.counter).version = self.version
        for history in self.histories:
            history.put_back()


class StorageBefore:
    """The value of a storage, and versions of what changed with it, before a replayed call."""

    def __init__(self, node: Node, versions: list[tuple[Any, int]]) -> None:
        self.node, self.versions = node, versions

    def __call__(self, storage: Any) -> None:
        storage.hold(self.node)
        for counter, version in self.versions:
            counter.version = version


class _History:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        meta = tensor._grad
        self.had = meta is not None
        if meta is not None:
            # The history after the change leads to it, so it lives as long as that.
            self.fn = None if meta.fn is None else weakref.ref(meta.fn)
            self.rest = (meta.number, meta.requires, meta.retained)

    def put_back(self) -> None:
        tensor = self.tensor()
        if tensor is None:
            return
        if not self.had:
            tensor._grad = None
            return
        meta = tensor._grad
        if meta is not None:
            meta.fn = None if self.fn is None else self.fn()
            meta.number, meta.requires, meta.retained = self.rest


class GradBefore:
    """The `.grad` of a tensor before it got another one."""

    def __init__(self, tensor: Tensor, grad: Any) -> None:
        self.tensor, self.grad = weakref.ref(tensor), grad

    def __call__(self, storage: Any) -> None:
        tensor = self.tensor()
        meta = None if tensor is None else tensor._grad
        if meta is not None and meta.grad is not None and meta.grad._storage is storage:
            meta.grad = self.grad


class OutBefore:
    """A tensor before `out=` gave it the memory of a result of another shape."""

    def __init__(self, out: Tensor) -> None:
        self.tensor = weakref.ref(out)
        self.parts = (out._storage, out._counter, out._shape, out._view)

    def __call__(self, storage: Any) -> None:
        tensor = self.tensor()
        if tensor is not None and tensor._storage is storage:
            tensor._storage, tensor._counter, tensor._shape, tensor._view = self.parts
            tensor._node = tensor._seen = None
