"""Indexing: x[...] and x[...] = value, with PyTorch's rules.

Basic items (int, slice, ..., None) make one view: a slice_ and a reshape. What is left are index
tensors on some dimensions of that view: those dimensions are moved to the front, gathered (or
scattered), and the result's index dimensions put where PyTorch puts them: at the first of the
index tensors when they are next to each other, otherwise in front.
Slice starts and ints are offsets: inputs of a program, never part of its shapes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import ops
from rushlight.autograd.mode import STATE
from rushlight.base.dtypes import bool_, int32, int64, uint8
from rushlight.engine.capture import open_session
from rushlight.ir.node import Node
from rushlight.ops.build import wrap_index
from rushlight.ops.indexed import scatter_joined
from rushlight.ops.rules import broadcast_shapes
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import number_node
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.functions_slices import select_at
from rushlight.tensors.functions_view import expand, permute, reshape, reshape_step
from rushlight.tensors.index_checks import CHECK_LIMIT
from rushlight.tensors.index_items import item_of, items_of, plain_key
from rushlight.tensors.inplace import assign, check_inplace, overwrite
from rushlight.tensors.placing import brought, index_for
from rushlight.tensors.size import KEPT
from rushlight.tensors.storage import data_node, value_of
from rushlight.tensors.tensor import Tensor, make_view, new_tensor


class _Plan:
    """One basic view of a tensor and the index tensors that follow it."""

    def __init__(self, source: Tensor) -> None:
        self.source = source
        self.start: list[int] = []
        self.length: list[int] = []
        self.step: list[int] = []
        self.shape: list[int] = []  # of the view
        self.strides: list[int] = []
        self.indices: list[tuple[int, Tensor]] = []  # (dimension of the view, index)

    @property
    def at(self) -> int:
        return len(self.start)

    def take(self, start: int, length: int, step: int, keep: bool) -> None:
        """Use up one dimension of the source."""
        stride = self.source.stride()[self.at]
        self.start.append(start)
        self.length.append(length)
        self.step.append(step)
        if keep:
            self.shape.append(length)
            self.strides.append(stride * step)

    def whole(self) -> None:
        self.take(0, self.source._shape[self.at], 1, True)

    def insert(self, length: int = 1) -> None:
        self.shape.append(length)
        position = self.at
        following = self.source.stride()[position:] and (
            self.source._shape[position] * self.source.stride()[position]
        )
        self.strides.append(following or 1)

    def view(self) -> Tensor:
        steps, shape, strides, moved, label = self.parts()
        source = self.source
        return make_view(source, steps, shape, strides, source.storage_offset() + moved, label)

    def parts(self) -> tuple[tuple, tuple, tuple, int, str]:
        """Steps, shape, strides, change of the offset, and the name of its history."""
        source = self.source
        start, length, step = tuple(self.start), tuple(self.length), tuple(self.step)
        steps: tuple = ()
        if length != source._shape:
            begin = (0,) * len(start) if 0 in length else start  # nothing, from anywhere
            steps = ((ops.slice_, (begin, length, step), length, None),)
        shape = tuple(self.shape)
        if shape != length:
            steps = (*steps, reshape_step(shape))
        moved = sum(a * b for a, b in zip(start, source.stride(), strict=True))
        label = "SliceBackward0"
        if len(shape) < len(length):
            label = "SelectBackward0"
        elif shape != length:
            label = "UnsqueezeBackward0"
        elif not steps:
            label = "AliasBackward0"
        return steps, shape, tuple(self.strides), moved, label


# (shape, strides, key) -> parts of the view.
_BASIC: dict[tuple, tuple] = {}


def _basic_view(self: Tensor, key: Any) -> Tensor | None:
    """The view of a key without tensors; None for other keys."""
    plain = plain_key(key)
    if plain is None:
        return None
    known = (self._shape, self.stride(), plain)
    parts = _BASIC.get(known)
    if parts is None:
        if len(_BASIC) >= KEPT:
            _BASIC.clear()
        parts = _BASIC[known] = _parse(self, key).parts()
    steps, shape, strides, moved, label = parts
    return make_view(self, steps, shape, strides, self.storage_offset() + moved, label)


def getitem(self: Tensor, key: Any) -> Tensor:
    if self._storage.node.pairs:
        key = _inside_pairs(self._value(), key)
    if key.__class__ is int and self._shape:
        size = self._shape[0]
        if not -size <= key < size:
            raise _out_of_bounds(key, 0, size)
        return select_at(self, 0, key + size if key < 0 else key)
    basic = _basic_view(self, key)
    if basic is not None:
        return basic
    plan = _parse(self, key)
    view = plan.view()
    if not plan.indices:
        return view
    moved, indices, back, _ = _arrange(view, plan.indices)
    found = apply(ops.gather_nd, (moved, indices), label="IndexBackward0")
    return found if back is None else permute(found, back)


def _inside_pairs(node: Node, key: Any) -> Any:
    """`table[b][q_idx]` in a score_mod: to its author `table[b]` is a row, not one for each pair.

    So a key means what follows the dims of the pairs (ops/pairs.py)."""
    if node.name != "gather_nd" or node.ndim == node.src[1].ndim:
        return key
    lead = node.src[1].shape
    keys = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(k, Tensor) for k in keys):
        return (*(slice(None) for _ in lead), *keys)
    return (*(new_tensor(ops.pair_index.node(lead, dim)) for dim in range(len(lead))), *keys)


def setitem(self: Tensor, key: Any, value: Any) -> None:
    mask = _single_mask(key)
    is_number = not isinstance(value, Tensor)
    if is_number:
        if isinstance(value, bool | int | float | complex):
            value = new_tensor(number_node(value, self._dtype))
        else:
            value = tensor_of(value, self._dtype)
    if mask is not None and not value.dim() and mask._shape == self._shape[: mask.dim()]:
        trail = (1,) * (self.dim() - mask.dim())
        where = reshape(mask, (*mask._shape, *trail)) if trail else mask
        check_inplace(self)
        value = _as(reshape(brought(value, self), ()), self)
        chosen = apply(ops.where, (index_for(self, where), value, self), label="IndexPutBackward0")
        assign(self, chosen)
        return
    basic = _basic_view(self, key)
    if basic is not None:
        return fill(basic, value)
    plan = _parse(self, key)
    view = plan.view()
    if not plan.indices:
        return fill(view, value)
    if not is_number:
        check_same(view, value)
    if is_number or not value.dim():
        value = brought(value, self)
    put(view, plan.indices, value, "set")


def check_same(target: Tensor, value: Tensor) -> None:
    """What is put at indices must have the dtype of the tensor."""
    if value._dtype is not target._dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{target._dtype.scalar_name} for the destination and {value._dtype.scalar_name} for "
            "the source."
        )


def fill(target: Tensor, value: Tensor) -> None:
    """target[...] = value, broadcast; leading dimensions of size 1 may be too many."""
    check_inplace(target)
    if value._storage is target._storage and _sees_the_same(target, value):
        target._counter.version += 1  # `x[i] += v`: what is stored is there
        return
    value = brought(value, target)
    shape = value._shape
    while len(shape) > target.dim() and shape[0] == 1:
        shape = shape[1:]
    value = _as(reshape(value, shape), target)
    if value._shape != target._shape:
        value = expand(value, target._shape)
    overwrite(target, apply(ops.cast, (value, target._dtype)) if value is target else value)


def _sees_the_same(target: Tensor, value: Tensor) -> bool:
    """Do two views without history see the same elements in the same way?"""
    one, other = target._view, value._view
    if one is None or other is None or STATE.grad and (target.requires_grad or value.requires_grad):
        return False
    return one.steps == other.steps and value._shape == target._shape


def put(view: Tensor, indices: list, value: Tensor, kind: str) -> None:
    """Scatter a value at index tensors of some dimensions of the view, in place."""
    check_inplace(view)
    moved, index, back, order = _arrange(view, indices)
    if order is not None:  # a value of its own: the view is about to change
        moved = apply(ops.permute, (view, order))
    batch = index[0]._shape
    result = (*batch, *moved._shape[len(index) :])
    shown = result if back is None else tuple(result[d] for d in back)
    shape = value._shape
    while len(shape) > len(shown) and shape[0] == 1:
        shape = shape[1:]
    value = _as(reshape(value, shape), view)
    try:
        value = expand(value, shown)
    except RuntimeError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value._shape)} cannot be broadcast to "
            f"indexing result of shape {list(shown)}"
        ) from None
    if back is not None:
        value = permute(value, _inverse(back))
    if not value.numel():
        return
    if view._dtype is bool_:
        changed = scatter_joined(moved, value, index, kind)
    else:
        changed = apply(ops.scatter_nd, (moved, value, index, kind), label="IndexPutBackward0")
    if order is not None:
        changed = permute(changed, _inverse(order))
    assign(view, changed)


def _as(value: Tensor, target: Tensor) -> Tensor:
    return value if value._dtype is target._dtype else apply(ops.cast, (value, target._dtype))


def _single_mask(key: Any) -> Tensor | None:
    if isinstance(key, tuple) and len(key) == 1:
        key = key[0]
    return key if isinstance(key, Tensor) and key._dtype in (bool_, uint8) and key.dim() else None


def _parse(self: Tensor, key: Any) -> _Plan:
    items = [item_of(item) for item in items_of(key)]
    used = sum(_dims_used(item) for item in items)
    if used > self.dim():
        if self.dim() == 0 and any(isinstance(item, int) for item in items):
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
            )
        raise IndexError(f"too many indices for tensor of dimension {self.dim()}")
    plan = _Plan(self)
    seen_dots = False
    for item in items:
        if item is Ellipsis and not seen_dots:
            seen_dots = True
            for _ in range(self.dim() - used):
                plan.whole()
        elif item is not Ellipsis:
            _add_item(plan, item)
    while plan.at < self.dim():
        plan.whole()
    return plan


def _dims_used(item: Any) -> int:
    if item is None or item is Ellipsis or item is True or item is False:
        return 0
    if isinstance(item, Tensor) and item._dtype in (bool_, uint8):
        return item.dim()
    return 1


def _add_item(plan: _Plan, item: Any) -> None:
    if item is None or item is True:
        plan.insert()
    elif item is False:
        plan.insert()
        plan.indices.append((len(plan.shape) - 1, tensor_of([], int64)))
    elif isinstance(item, int):
        size = plan.source._shape[plan.at]
        if not -size <= item < size:
            raise _out_of_bounds(item, plan.at, size)
        plan.take(item + size if item < 0 else item, 1, 1, False)
    elif isinstance(item, slice):
        start, length, step = _slice(item, plan.source._shape[plan.at])
        plan.take(start, length, step, True)
    elif item._dtype in (bool_, uint8):
        _add_mask(plan, item)
    else:
        if item._dtype not in (int64, int32):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        plan.indices.append((len(plan.shape), item))
        plan.whole()


def _out_of_bounds(index: int, dim: int, size: int) -> IndexError:
    return IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")


def _slice(item: slice, size: int) -> tuple[int, int, int]:
    def number(value: Any) -> Any:
        return None if value is None else operator.index(value)

    step = number(item.step)
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, step = slice(number(item.start), number(item.stop), step).indices(size)
    length = max(-(-(stop - start) // step), 0)
    return min(start, size), length, step


def _add_mask(plan: _Plan, mask: Tensor) -> None:
    """A mask is the index tensors of its true places (their number needs the values)."""
    if mask.dim() == 0:
        plan.insert()
        count = int(bool(mask.item()))
        plan.indices.append((len(plan.shape) - 1, tensor_of([0] * count, int64)))
        return
    for i, size in enumerate(mask._shape):
        have = plan.source._shape[plan.at + i]
        if have != size:
            raise IndexError(
                f"The shape of the mask {list(mask._shape)} at index {i} does not match the shape "
                f"of the indexed tensor {list(plan.source._shape)} at index {plan.at + i}"
            )
    for place in np.nonzero(value_of(mask._value())):
        plan.indices.append((len(plan.shape), new_tensor(data_node(place.astype(np.int64), int64))))
        plan.whole()


def _arrange(view: Tensor, indices: list) -> tuple[Tensor, list, tuple | None, tuple | None]:
    """(view with the indexed dims in front, equal-shaped non-negative indices,
    order that puts the result's dims in place, order that was applied to the view)."""
    dims = [dim for dim, _ in indices]
    shapes = [t._shape for _, t in indices]
    try:
        batch = broadcast_shapes(*shapes)
    except RuntimeError:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}"
        ) from None
    nodes = [_ready(t, view._shape[dim], dim, batch) for dim, t in indices]
    ready = [index_for(view, new_tensor(node)) for node in nodes]
    order = (*dims, *[d for d in range(view.dim()) if d not in dims])
    if order == tuple(range(view.dim())):
        return view, ready, None, None
    moved = permute(view, order)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    back = None
    if adjacent and dims[0] > 0:
        lead, first = len(batch), dims[0]
        total = lead + view.dim() - len(dims)
        back = (*range(lead, lead + first), *range(lead), *range(lead + first, total))
    return moved, ready, back, order


def _ready(index: Tensor, size: int, dim: int, batch: tuple) -> Node:
    """int64, not negative, of the common shape."""
    node = index._value()
    if node.dtype is not int64:
        node = ops.cast.node(node, int64)
    known = node.leaf == "buffer" and index.numel() <= CHECK_LIMIT
    known = known and open_session() is None  # a captured call is replayed with other values
    if known:
        values = value_of(node)
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        if values.size and not (-size <= low and high < size):
            bad = high if high >= size else low
            raise _out_of_bounds(bad, dim, size)
    if not known or low < 0:
        # An input of the program, not a constant: other sizes run the same program.
        node = wrap_index(node, number_node(size, int64))
    return node if node.shape == batch else ops.expand.node(node, batch)


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
