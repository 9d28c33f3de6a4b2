"""Weights that were read from a file as bytes, and are seen as numbers ever after.

In: a tensor that sees a whole cell of bytes as wider numbers (`bytes.view(torch.float32)`, as the
safetensors package makes them). Out: its value. When nobody else holds the cell, the cell becomes
one of numbers first, over the same memory: kernels then read it directly, and an optimizer writes
numbers, where the bytes would be put together for every use.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from rushlight.engine.capture import open_session
from rushlight.ir.node import Node, buffer_node
from rushlight.tensors.view import read_through

# References to a cell that only one tensor holds: its two slots, a name here, one in `_value`, and
# that of the look itself (at a slot: one at a name is no reference since CPython 3.14).
ALONE = 5
# Two more of the tensor of bytes that its view follows, where nobody else has that one: then it is
# held by the view, by a name here and by the look.
BASE, BASE_ALONE = 2, 3


def settled_value(tensor: Any) -> Node:
    """The value that the tensor sees; afterwards it may have no view any more."""
    storage, view = tensor._storage, tensor._view
    node = storage.node
    base = view.base
    more = BASE if base is not None and getrefcount(view.base) == BASE_ALONE else 0
    is_alone = tensor._counter is storage and getrefcount(tensor._storage) == ALONE + more
    if not is_alone or open_session() is not None or not _is_whole(node, tensor):
        return read_through(node, view.steps)
    storage.hold(buffer_node(node.buffer, tensor._shape, tensor._dtype))
    tensor._view = tensor._node = tensor._seen = None
    return storage.node


def _is_whole(node: Node, tensor: Any) -> bool:
    """Does the tensor see the memory from its first to its last byte, in order?"""
    itemsize = tensor._dtype.itemsize
    return (
        node.leaf == "buffer"
        and node.buffer.address % itemsize == 0
        and node.numel() * node.dtype.itemsize == tensor.numel() * itemsize
        and all(step[0].name == "reshape" for step in tensor._view.steps[1:])
    )
