"""Views: how a tensor sees its storage.

A view is a chain of steps from the base value to the value seen. Each step is a movement record
with its attributes, so a view is read by applying the steps, and written by the inverse steps from
the last to the first. `strides` and `offset` are what PyTorch shows; the node never needs them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.ir.node import Node, make_node
from rushlight.ir.opdef import OpDef
from rushlight.tensors.storage import data_node

Step = tuple[OpDef, tuple, tuple, Any]  # record, attributes, result shape, result dtype or None
# The lazy bits of PyTorch, as names of the steps that stand for them.
CONJ, NEG = "conj", "neg"
OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single "
    "memory location. Please clone() the tensor before performing the operation."
)


class View:
    """steps from the storage's value, `own` those from `base`; strides and offset in elements.

    `base` is the tensor whose history the view follows. It may itself see only a part of the
    storage (a leaf over a detached view). None: memory is shared, history is not (detach).
    """

    __slots__ = (
        "steps",
        "strides",
        "offset",
        "base",
        "own",
        "tracked",
        "label",
        "widens",
        "one_of",
    )

    def __init__(
        self, steps: tuple[Step, ...], strides: tuple, offset: int, base: Any = None,
        own: tuple[Step, ...] = (), tracked: bool = False, label: str = "",
    ) -> None:  # fmt: skip
        self.steps, self.strides, self.offset = steps, strides, offset
        self.base, self.own = base, own
        self.tracked = tracked  # made while autograd recorded
        self.label = label  # the name of its gradient function
        self.one_of = ""  # "Output 0 of Split" and the like: of a function that gives several
        # Wider numbers than those in memory are seen: see settle.py.
        self.widens = bool(steps) and steps[0][0].name == "read_wider"

    @property
    def changes_elements(self) -> bool:
        """Is what is seen more than a window onto the elements in memory?"""
        return any(step[3] is not None or step[0].name in (CONJ, NEG) for step in self.steps)

    def has_bit(self, bit: str) -> bool:
        """Is the memory conjugated (negated) on the way to what is seen?"""
        turned = False
        for step in self.steps:
            if step[0].name == bit:
                turned = not turned
        return turned


def read_through(node: Node, steps: tuple[Step, ...]) -> Node:
    """The value that a view sees in a base value."""
    for record, attrs, shape, dtype in steps:
        node = make_node(record, (node,), attrs, shape, dtype or node.dtype)
    return node


def write_through(base: Any, steps: tuple[Step, ...], value: Any) -> Any:
    """The base value after the view got `value`. Works on Nodes and on Tensors alike."""
    if not steps:
        return value
    befores = [base]
    for record, attrs, _, _ in steps[:-1]:
        befores.append(record(befores[-1], *attrs))
    for step, before in zip(reversed(steps), reversed(befores), strict=True):
        value = _undo(step[0], step[1], before, value)
    return value


def _undo(record: OpDef, attrs: tuple, before: Any, value: Any) -> Any:
    shape = tuple(before.shape)
    if record is ops.reshape:
        return ops.reshape(value, shape)
    if record is ops.permute:
        dims = attrs[0]
        return ops.permute(value, tuple(sorted(range(len(dims)), key=dims.__getitem__)))
    if record is ops.slice_:
        return ops.slice_scatter_(before, value, *attrs)
    if record is ops.expand:
        return _undo_expand(value, shape)
    if record is ops.bitcast:
        return ops.bitcast(value, before.dtype)
    if record in (ops.conj, ops.neg):
        return record(value)
    if record is ops.view_as_real:
        return ops.view_as_complex(value)
    if record is ops.view_as_complex:
        return ops.view_as_real(value)
    if record.name in ("read_wider", "read_narrower"):
        back = ops.read_narrower if record.name == "read_wider" else ops.read_wider
        return back(value, before.dtype)
    if record.name == "as_strided":
        return _undo_strided(before, value, *attrs)
    if record is ops.unfold:
        dim, size, step, _ = attrs
        return _undo_unfold(before, value, dim, size, step)
    raise RuntimeError(f"a view made by {record.name} cannot be written through")


def _undo_expand(value: Any, shape: tuple) -> Any:
    """Only dimensions of size 1 to size 1; a part of elements that share memory is refused."""
    if value.shape != shape and math.prod(value.shape) != math.prod(shape):
        raise RuntimeError(OVERLAP)
    return ops.reshape(value, shape)


def _undo_unfold(before: Any, value: Any, dim: int, size: int, step: int) -> Any:
    """Windows that do not overlap, written one after the other."""
    shape = tuple(before.shape)
    dim %= len(shape)
    for window in range(value.shape[dim]):
        at = [0] * value.ndim
        at[dim] = window
        length = [1 if i == dim else n for i, n in enumerate(value.shape)]
        part = ops.slice_(value, tuple(at), tuple(length), (1,) * value.ndim)
        dims = (*range(dim), value.ndim - 1, *range(dim + 1, value.ndim - 1), dim)
        wanted = tuple(size if i == dim else n for i, n in enumerate(shape))
        part = ops.reshape(ops.permute(part, dims), wanted)
        start = tuple(window * step if i == dim else 0 for i in range(len(shape)))
        before = ops.slice_scatter_(before, part, start, wanted, (1,) * len(shape))
    return before


def _undo_strided(before: Any, value: Any, size: tuple, stride: tuple, offset: int) -> Any:
    """Scatter to the places in memory; of elements that meet, the last one stays."""
    place = sum(
        (np.arange(n, dtype=np.int64) * s).reshape(*[-1 if d == i else 1 for d in range(len(size))])
        for i, (n, s) in enumerate(zip(size, stride, strict=True))
    )
    index = data_node((np.zeros(size, np.int64) + place + offset).reshape(-1), int64)
    flat = ops.reshape(value, (index.shape[0],))
    if isinstance(before, Node):
        return ops.scatter_nd.node(before, flat, [index], "set")
    return ops.scatter_nd(before, flat, [index], "set")
