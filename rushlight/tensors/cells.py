"""Memory for files: the cell behind a tensor as an array, and tensors over memory that was read.

In: tensors to write, or memory that belongs to nobody else. Out: the row-major array of a whole
cell; tensors that live in given memory without a copy and without being *foreign* (nobody outside
sees the memory, so ops need no snapshots of it).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import DType
from rushlight.ir.node import buffer_node
from rushlight.runtime.buffer import from_array
from rushlight.tensors.functions_shape import as_strided
from rushlight.tensors.size import is_row_major
from rushlight.tensors.tensor import Tensor, make_view, new_tensor


def cell_of(tensor: Tensor) -> Any:
    """What two tensors over the same memory have in common; hold it as long as you compare."""
    return tensor._storage


def is_window(tensor: Tensor) -> bool:
    """True when strides and offset describe the tensor within its cell."""
    view = tensor._view
    if view is None:
        return True
    changes = {step[3] for step in view.steps} - {None, tensor._storage.node.dtype}
    return changes <= {tensor._dtype} and not any(
        step[0].name == "reshape_copy" for step in view.steps
    )


def cell_array(tensor: Tensor) -> np.ndarray:
    """The whole memory of the tensor's cell, row-major. For reading only."""
    return np.ascontiguousarray(tensor._storage.array())


def own_array(array: np.ndarray, dtype: DType, shape: tuple[int, ...]) -> Tensor:
    """A tensor that lives in the array's memory, which nobody else uses from now on."""
    if not array.size:
        array = np.zeros(1, np.uint8)
    buffer = from_array(array.reshape(-1).view(np.uint8))
    buffer.private = True
    return new_tensor(buffer_node(buffer, shape, dtype))


def window(
    base: Tensor, dtype: DType, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> Tensor:
    """A tensor without history over a part of a whole cell; offset and strides in elements.

    The caller checked the bounds.
    """
    if dtype is not base._dtype:
        whole = base.numel() * base.element_size() // dtype.itemsize * dtype.itemsize
        base = base[: whole // base.element_size()].view(dtype)  # type: ignore[index]
    count, flat = math.prod(size), (base.numel(),)
    if not count or not is_row_major(size, stride):
        return as_strided(base, size, stride, offset).detach()
    steps = (
        (ops.reshape, (flat,), flat, None),
        (ops.slice_, ((offset,), (count,), (1,)), (count,), None),
        (ops.reshape, (size,), size, None),
    )
    return make_view(base, steps, size, stride, offset, "AsStridedBackward0").detach()
