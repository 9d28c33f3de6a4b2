"""torch.Size, and the arithmetic of sizes and strides. Pure functions of ints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

KEPT = 4096  # answers that are kept of each question about sizes


class Size(tuple):
    """The shape of a tensor: a tuple that prints as PyTorch's."""

    __slots__ = ()

    def __new__(cls, values: Any = ()) -> Size:
        items = tuple(values)
        for position, item in enumerate(items):
            if not isinstance(item, int) and not hasattr(item, "__index__"):
                raise TypeError(
                    f"torch.Size() takes an iterable of 'int' (item {position} is "
                    f"'{type(item).__name__}')"
                )
        return tuple.__new__(cls, items)

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    __str__ = __repr__

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple(self) + tuple(other))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple.__mul__(self, count))

    def __reduce__(self) -> tuple:
        return Size, (tuple(self),)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """PyTorch's strides of a contiguous tensor (a size of 0 counts as 1)."""
    return _row_major(tuple(shape))


@lru_cache(KEPT)
def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Contiguous, as PyTorch sees it: strides of dimensions of size 1 do not matter."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def overlaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True when some element surely has two indices (PyTorch's test for expanded targets)."""
    if math.prod(shape) == 0:
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True))


def infer_size(shape: Sequence[int], numel: int) -> tuple[int, ...]:
    """Replace -1; RuntimeError with PyTorch's text."""
    shape = tuple(map(int, shape))
    if -1 not in shape:
        if any(size < 0 for size in shape):
            bad = next(size for size in shape if size < 0)
            raise RuntimeError(f"invalid shape dimension {bad}")
        if math.prod(shape) != numel:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
        return shape
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(size < -1 for size in shape):
        bad = next(size for size in shape if size < -1)
        raise RuntimeError(f"invalid shape dimension {bad}")
    known = math.prod(size for size in shape if size != -1)
    if known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
                "unspecified dimension size -1 can be any value and is ambiguous"
            )
    elif numel % known == 0:
        return tuple(numel // known if size == -1 else size for size in shape)
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


@lru_cache(KEPT)
def view_plan(
    shape: tuple[int, ...], strides: tuple[int, ...], given: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The size that is asked for, without -1, and its strides (see `view_strides`)."""
    wanted = infer_size(given, math.prod(shape))
    return wanted, view_strides(shape, strides, wanted)


def view_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Strides of the same memory under another shape; None when it needs a copy."""
    if math.prod(shape) == 0:
        return tuple(strides) if tuple(shape) == tuple(wanted) else row_major(wanted)
    result = [0] * len(wanted)
    view = len(wanted) - 1
    base = strides[-1] if shape else 1
    chunk = view_chunk = 1
    for i in range(len(shape) - 1, -1, -1):
        chunk *= shape[i]
        last = i == 0
        if not last and (shape[i - 1] == 1 or strides[i - 1] == chunk * base):
            continue
        while view >= 0 and (view_chunk < chunk or wanted[view] == 1):
            result[view] = view_chunk * base
            view_chunk *= wanted[view]
            view -= 1
        if view_chunk != chunk:
            return None
        if not last:
            base, chunk, view_chunk = strides[i - 1], 1, 1
    if not shape:
        return (1,) * len(wanted)
    return tuple(result) if view == -1 else None


def parse_size(args: tuple) -> tuple[int, ...]:
    """(2, 3), ([2, 3],) and (Size,) alike."""
    if len(args) == 1 and not isinstance(args[0], int) and hasattr(args[0], "__iter__"):
        if not hasattr(args[0], "_storage") or args[0].dim():
            args = tuple(args[0])
    return tuple([a if type(a) is int else _whole(a) for a in args])


def _whole(value: Any) -> int:
    if not hasattr(type(value), "__index__"):
        name = type(value).__name__
        raise TypeError(f"argument 'size' (position 1) must be tuple of ints, not {name}")
    return int(value.__index__())
