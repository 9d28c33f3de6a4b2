"""Looking at values: numpy, DLPack, item, tolist, and Python's number protocols.

`look` is for reading only; `numpy()` and DLPack share memory, so they expose the storage.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.autograd.mode import STATE
from rushlight.base.devices import CPU, DEVICES
from rushlight.base.dtypes import complex32, complex64, convert_array
from rushlight.engine.capture import open_session
from rushlight.engine.realize import compute, read_alone
from rushlight.tensors.storage import NUMBERS, strided, value_of
from rushlight.tensors.tensor import Tensor
from rushlight.tensors.view import CONJ, NEG

# Dtypes whose elements are Python's numbers as they lie in memory.
PLAIN = frozenset(("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"))


def look(tensor: Tensor) -> np.ndarray:
    """The values as an array that must not be written. A look is a flush point."""
    storage, view = tensor._storage, tensor._view
    if view is None:
        return storage.array()
    if view.changes_elements:
        return value_of(tensor._value())
    return strided(storage.array(), tensor._shape, view.strides, view.offset)


def look_at_all(tensor: Tensor) -> np.ndarray:
    """As `look`; within vmap the values of all examples, in some shape with the batch in front.

    For what must hold for every example: a bound, a check.
    """
    session, node = open_session(), tensor._value()
    found = None if session is None else session.of_all_examples(node)
    if found is None:
        return look(tensor)
    while found is not None:
        node, session = found
        found = None if session is None else session.of_all_examples(node)
    if session is not None:
        session.refuse("a value is needed in the middle of the call")
    return value_of(node) if node.leaf in NUMBERS else read_alone(node)


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """An array over the tensor's memory: each side sees what the other writes."""
    if not force:
        if DEVICES.used and self.device is not CPU:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                "copy the tensor to host memory first."
            )
        if STATE.grad and self.requires_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        if self._dtype.np.kind == "V" or self._dtype.name == "bfloat16":
            raise TypeError(f"Got unsupported ScalarType {self._dtype.scalar_name}")
        for bit, name in ((CONJ, "conjugate"), (NEG, "negative")):
            if self._view is not None and self._view.has_bit(bit):
                raise RuntimeError(
                    f"Can't call numpy() on Tensor that has {name} bit set. Use "
                    f"tensor.resolve_{bit}().numpy() instead."
                )
    return shared_array(self)


def shared_array(tensor: Tensor) -> np.ndarray:
    view = tensor._view
    if view is not None and (view.has_bit(CONJ) or view.has_bit(NEG)):
        return look(tensor).copy()  # forced: nobody can share what memory does not hold
    memory = tensor._storage.expose()
    if view is None:
        return memory.reshape(tensor._shape)
    if tensor._dtype.np != memory.dtype:
        memory = memory.reshape(-1).view(tensor._dtype.np)
    return strided(memory, tensor._shape, view.strides, view.offset)


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """numpy's protocol."""
    found = look(self).copy() if copy else numpy(self)
    return found if dtype is None else found.astype(dtype, copy=False)


def check_export(tensor: Tensor) -> None:
    """BufferError where DLPack cannot say what the tensor is."""
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor._view is not None and tensor._view.has_bit(CONJ):
        raise BufferError("Can't export tensors with the conjugate bit set")


def dlpack(self: Tensor, *, stream: Any = None, **options: Any) -> Any:
    check_export(self)
    return shared_array(self).__dlpack__(**options)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    return (1, 0)


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """True when both see the same elements of the same memory."""
    return (
        self._storage is tensor._storage
        and self._shape == tensor._shape
        and self.stride() == tensor.stride()
        and self.storage_offset() == tensor.storage_offset()
    )


def item(self: Tensor) -> Any:
    if prod(self._shape) != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    storage, view, dtype = self._storage, self._view, self._dtype
    if storage.foreign is None and (view is None or not view.changes_elements):
        node = storage.node
        if open_session() is None and node.leaf not in NUMBERS and dtype.name in PLAIN:
            if node.leaf != "buffer":
                compute(node)
            return node.buffer.number(dtype, 0 if view is None else view.offset * dtype.itemsize)
    return _widened(self).reshape(-1)[0].item()


def tolist(self: Tensor) -> Any:
    return _widened(self).tolist()


def _widened(self: Tensor) -> np.ndarray:
    """The values as numbers that Python has."""
    values, dtype = look(self), self._dtype
    if dtype is complex32:
        return convert_array(values, complex64)
    narrow = dtype.kind == "float" and dtype.itemsize <= 2
    return values.astype(np.float32) if narrow else values


def to_bool(self: Tensor) -> bool:
    if self.numel() == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
    if self.numel() > 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(item(self))


def _single(self: Tensor) -> Any:
    if self.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return item(self)


def to_int(self: Tensor) -> int:
    return int(_single(self))


def to_float(self: Tensor) -> float:
    return float(_single(self))


def to_complex(self: Tensor) -> complex:
    return complex(_single(self))


def to_index(self: Tensor) -> int:
    if self._dtype.is_inexact or self.numel() != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


def to_len(self: Tensor) -> int:
    if not self._shape:
        raise TypeError("len() of a 0-d tensor")
    return self._shape[0]


def contains(self: Tensor, element: Any) -> bool:
    if isinstance(element, Tensor | bool | int | float | complex):
        return bool((look(self) == (item(element) if isinstance(element, Tensor) and
                     element.numel() == 1 else look(element) if isinstance(element, Tensor)
                     else element)).any())  # fmt: skip
    raise RuntimeError(
        f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
    )


def to_format(self: Tensor, spec: str) -> str:
    if self.dim() == 0 and type(self) is Tensor:
        return item(self).__format__(spec)
    return object.__format__(self, spec)
