"""The items of an index: what stands between the brackets of x[...].

In: the key of `__getitem__` or `__setitem__`. Out: None, `...`, bools, ints, slices and tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.base.dtypes import int64
from rushlight.tensors.from_data import tensor_of
from rushlight.tensors.tensor import Tensor

WRONG_TYPE = (
    "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
    "indices (got {})"
)


def items_of(key: Any) -> Sequence[Any]:
    """A short list with more than numbers in it is a tuple of indices: PyTorch's rule."""
    if isinstance(key, list) and len(key) < 32 and any(map(_is_index, key)):
        return key
    return key if isinstance(key, tuple) else [key]


def _is_index(item: Any) -> bool:
    return (
        item is None or item is Ellipsis or isinstance(item, Tensor | slice | Sequence | np.ndarray)
    )


def plain_key(key: Any) -> tuple | None:
    """The key as something that can be looked up, if it is made of ints, slices of ints, `...` and
    None alone."""
    found: list[Any] = []
    for item in key if key.__class__ is tuple else (key,):
        if item.__class__ is slice:
            parts = (item.start, item.stop, item.step)
            if not _PLAIN.issuperset(map(type, parts)):
                return None
            found.append(parts)
        elif item.__class__ is int or item is None or item is Ellipsis:
            found.append(item)
        else:
            return None
    return tuple(found)


_PLAIN = frozenset((int, type(None)))


def item_of(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, bool | int | slice | Tensor):
        return item
    if isinstance(item, str):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    if isinstance(item, np.ndarray | list | tuple | range):
        return index_tensor(list(item) if isinstance(item, range) else item)
    if isinstance(item, np.bool_):
        return bool(item)
    try:
        return operator.index(item)
    except TypeError:
        raise TypeError(WRONG_TYPE.format(type(item).__name__)) from None


def index_tensor(value: Any) -> Tensor:
    """A list, array or tensor as an index."""
    if not isinstance(value, Tensor):
        if isinstance(value, Sequence) and len(value) == 0:
            return tensor_of([], int64)
        value = tensor_of(value)
    if value._dtype.is_inexact:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return value
