"""What a replay gives back: tensors made anew around memory that the program filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.autograd.node import SpentFn
from rushlight.ir.node import buffer_node
from rushlight.tensors.tensor import Grad, Tensor, make_view, new_tensor


@dataclass(frozen=True)
class Maker:
    """Makes a tensor that a call gives back, or a gradient, anew.

    Its storage is that at `place`, or a new one on `result`, or on the value at `other`. `shown`:
    (steps, shape, strides, offset) of a view. `tensor` and `storage`: ids at the capture; what was
    one object then is one object now. `spent`: name of the function of a value whose backward ran
    in the call. `version`: of a new storage. `counter`: of versions, where it is not the storage's:
    one that is there before the call, or the number of the argument that has it.
    """

    tensor: int
    storage: int
    place: int
    result: int
    other: int
    shape: tuple
    dtype: Any
    shown: tuple | None
    label: str
    spent: str
    version: int
    counter: Any

    def __call__(self, results: Any, storages: Any, nodes: Any, arguments: Any, made: dict) -> Any:
        found = made.get(self.tensor)
        if found is not None:
            return found
        key = (self.storage, id(self.counter))
        base = made.get(key)
        if base is None:
            base = made[key] = self._base(results, storages, nodes)
            if self.counter is not None:
                number = self.counter.__class__ is int
                base._counter = arguments[self.counter]._counter if number else self.counter
        if self.shown is not None:
            base = make_view(base, *self.shown, self.label)
        if self.spent:
            base._grad = Grad(SpentFn((), ((base._shape, self.dtype),), self.spent))
        made[self.tensor] = base
        return base

    def _base(self, results: Any, storages: Any, nodes: Any) -> Tensor:
        if self.place < 0:
            if self.result >= 0:
                base = new_tensor(buffer_node(results[self.result], self.shape, self.dtype))
            else:
                base = new_tensor(nodes[self.other])
            base._storage.version = self.version
            return base
        base = new_tensor(storages[self.place].node)
        base._storage = base._counter = storages[self.place]
        return base
