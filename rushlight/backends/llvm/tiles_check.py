"""A product with a known answer in the tile registers of this machine, before they are used.

In: a target that has them. Out: "" or what is wrong. The numbers make sums round in nearly every
step, so the answer has the right bits only in the order of sums that tile_ops.py states: kernels
for few rows, which use no tiles, count on it.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.jit import kept_object, load_object
from rushlight.base.deferred import deferred
from rushlight.base.dtypes import DType, float32, int32
from rushlight.base.sources import source_hash

WORDS = 32
SHAPE = (32, 32)
SYMBOL = "check_tiles"
_object_of = deferred("rushlight.backends.llvm.tiles_check_code", "object_of")


@functools.cache
def what_is_wrong(target: Target) -> str:
    """ "", or why products in tile registers are not to be used on this machine."""
    for dtype, a, b, want in (_bfloat16_case(), _int8_case()):
        have = _multiply(a, b, dtype, target)
        wrong = int((have != want).sum())
        if wrong:
            name = "bfloat16" if dtype is float32 else "int8"
            return f"{wrong} of {want.size} numbers of a {name} product are not the known ones"
    return ""


def in_tile_order(a: np.ndarray, b: np.ndarray, block: int = 32) -> np.ndarray:
    """a[M, K] @ b[K, N] in float32, in the order of sums of the instruction; for numbers whose
    products and sums are exact in float64."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for start in range(0, a.shape[1], block):
        part = np.zeros((2, *total.shape), np.float32)
        for at in range(start, min(start + block, a.shape[1])):
            term = a[:, at, None].astype(np.float64) * b[None, at]
            part[at % 2] = part[at % 2] + term
        total += part[0] + part[1]
    return total


def _bfloat16_case() -> tuple[DType, np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers of 8 bits times powers of two: exact in bfloat16, and their sums in float64."""
    random = np.random.RandomState(3)
    sides = [
        random.randint(-127, 128, size) * 2.0 ** random.randint(0, 12, size)
        for size in ((SHAPE[0], 2 * WORDS), (2 * WORDS, SHAPE[1]))
    ]
    bits = [(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in sides]
    a = np.ascontiguousarray(bits[0]).view(np.uint32)
    b = np.ascontiguousarray(bits[1].reshape(WORDS, 2, -1).swapaxes(1, 2)).view(np.uint32)
    return float32, a, b, in_tile_order(*sides)


def _int8_case() -> tuple[DType, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.RandomState(4)
    a = random.randint(-128, 128, (SHAPE[0], 4 * WORDS)).astype(np.int8)
    b = random.randint(-128, 128, (4 * WORDS, SHAPE[1])).astype(np.int8)
    want = (a[:, :, None].astype(np.int32) * b[None]).sum(1, dtype=np.int32)
    words = np.ascontiguousarray(b.reshape(WORDS, 4, -1).swapaxes(1, 2)).view(np.uint32)
    return int32, a.view(np.uint32), words, want


def _multiply(a: np.ndarray, b: np.ndarray, dtype: DType, target: Target) -> np.ndarray:
    """The product of packed words by the micro kernel."""
    key = f"tiles {target} {dtype.name} {source_hash()}"
    data = kept_object(key, lambda: _object_of(dtype, target))
    library = load_object(data, [SYMBOL])
    result = np.zeros(SHAPE, dtype.np)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library.addresses[SYMBOL])
    call(*(x.ctypes.data for x in (a, np.ascontiguousarray(b), result)))
    return result
