"""Python numbers as the 8-byte slots kernels read: the bits of the parameter's dtype, low bytes.

Floats are rounded to the dtype (too large becomes an infinity), ints and bools wrap around, as
PyTorch's scalar conversion does.

>>> from rushlight.base.dtypes import find_dtype
>>> words = np.zeros(2, np.int64)
>>> slots = ScalarSlots()
>>> slots.add(0, 0, find_dtype("float32")); slots.add(1, 1, find_dtype("int8"))
>>> slots.freeze().write(words, [1.0, -1]); [hex(word) for word in words]
['0x3f800000', '0xff']
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import numpy as np

from rushlight.base.dtypes import DType


class ScalarSlots:
    """Which word holds which number in which dtype."""

    def __init__(self) -> None:
        self._slots: dict[DType, list[tuple[int, int]]] = {}
        self._groups: list[tuple[DType, np.ndarray, list[int], np.ndarray]] = []

    def add(self, position: int, number: int, dtype: DType) -> None:
        self._slots.setdefault(dtype, []).append((position, number))

    def freeze(self) -> ScalarSlots:
        """Each number is converted once per dtype, then spread to all its words."""
        self._groups = []
        for dtype, slots in self._slots.items():
            numbers = sorted({number for _, number in slots})
            place = {number: i for i, number in enumerate(numbers)}
            positions = np.array([position for position, _ in slots], np.int64)
            spread = np.array([place[number] for _, number in slots], np.int64)
            self._groups.append((dtype, positions, numbers, spread))
        return self

    def write(self, words: np.ndarray, numbers: Sequence[Any]) -> None:
        for dtype, positions, wanted, spread in self._groups:
            if len(wanted) == 1:
                words[positions] = one_number(numbers[wanted[0]], dtype)
                continue
            if len(wanted) <= FEW:
                bits = np.array([one_number(numbers[i], dtype) for i in wanted], np.int64)
            else:
                bits = number_bits([numbers[i] for i in wanted], dtype)
            words[positions] = bits[spread]


def one_number(value: Any, dtype: DType) -> int:
    """As `number_bits` of one number, without making arrays where that can be done."""
    if value.__class__ is float:
        if dtype.itemsize == 8 and dtype.kind == "float":
            return _INT64.unpack(_FLOAT64.pack(value))[0]
        if dtype.name == "float32" and -LARGEST <= value <= LARGEST:
            return _UINT32.unpack(_FLOAT32.pack(value))[0]
    return int(number_bits([value], dtype)[0])


FEW = 8  # numbers: one by one is faster than as arrays
# Below this no rounding to float32 gives an infinity.
LARGEST = 3.4e38
_FLOAT32, _UINT32, _FLOAT64, _INT64 = Struct("=f"), Struct("=I"), Struct("=d"), Struct("=q")


def number_bits(values: list[Any], dtype: DType) -> np.ndarray:
    """The bits of each number in the dtype, zero-extended to 64 (as int64)."""
    if dtype.kind == "bool":
        return np.array([1 if value else 0 for value in values], np.int64)
    if dtype.is_floating_point:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            floats = np.array([_to_float(v) for v in values], np.float64).astype(dtype.np)
        return floats.view(f"u{dtype.itemsize}").astype(np.uint64).view(np.int64)
    mask = (1 << (8 * dtype.itemsize)) - 1
    return np.array([int(value) & mask for value in values], np.uint64).view(np.int64)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # An int beyond the range of float64.
        return float("inf") if value > 0 else float("-inf")
