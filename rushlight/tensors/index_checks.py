"""Indices whose values are known are checked before anything is recorded.

In: a tensor of indices and the size that they index. Out: were they checked? Or the caller's error
with the wrong index and its place. Others are checked by the program that uses them.
"""

from __future__ import annotations

import numpy as np

from rushlight import ops
from rushlight.base.dtypes import int64
from rushlight.engine.capture import open_session
from rushlight.tensors.apply import apply
from rushlight.tensors.creation import arange
from rushlight.tensors.interop import look
from rushlight.tensors.tensor import Tensor

CHECK_LIMIT = 1 << 16  # index tensors in memory up to this size are checked when recorded


def check_index(
    index: Tensor, size: int, message: str, error: type[Exception], negative: str = "",
    ignored: int | None = None, always: bool = False,
) -> bool:  # fmt: skip
    """Indices whose values are known are checked when the op is recorded: 0 <= index < size.

    `{bad}` in a message is the wrong index, `{at}` its place; `ignored` is a value that means
    "none". `always`: however many, and computed if pending. In a call that is captured these are
    not computed, and nothing counts as checked: other calls may have other values.
    """
    session = open_session()
    if session is not None:
        if not session.note_index(index._storage, index, size, ignored, always):
            return False
        always = False
    if index.numel() > CHECK_LIMIT and not always:
        return False
    if index.is_meta:
        return session is None
    values = look(index) if always else _known(index)
    if values is None:
        return False
    wrong = _wrong_places(values, size, ignored)
    if wrong is not None:
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        bad = int(values[at])
        text = negative if bad < 0 and negative else message
        place = str(at[0] if len(at) == 1 else at)
        raise error(text.replace("{bad}", str(bad)).replace("{at}", place))
    return session is None


def in_range(index: Tensor, size: int, is_checked: bool) -> Tensor:
    """The indices, a vector; those that nobody has seen are looked at by the program that uses them
    (which would count negative ones from the end)."""
    if is_checked:
        return index
    return apply(ops.gather, (arange(size), 0, index.to(int64)))


def is_wrong(index: Tensor, size: int, ignored: int | None, always: bool) -> bool:
    """Would `check_index` raise now? (It is not asked about tensors without memory.)"""
    if index.numel() > CHECK_LIMIT and not always:
        return False
    values = look(index) if always else _known(index)
    return values is not None and _wrong_places(values, size, ignored) is not None


def _wrong_places(values: np.ndarray, size: int, ignored: int | None) -> np.ndarray | None:
    """Where they are; None if there is none."""
    if values.dtype == np.int64 and values.flags.c_contiguous and values.size:
        if int(values.view(np.uint64).max()) < size:
            return None  # negative numbers are large ones without a sign
    wrong = (values < 0) | (values >= size)
    if ignored is not None:
        wrong &= values != ignored
    return wrong if wrong.any() else None


def _known(index: Tensor) -> np.ndarray | None:
    """The values, if they are in memory. To look at them cuts nothing and needs no capture."""
    values = index._storage.foreign
    if values is not None and index._view is None:
        return values
    node = index._value()
    return node.buffer.view(node.dtype, node.shape) if node.leaf == "buffer" else None
