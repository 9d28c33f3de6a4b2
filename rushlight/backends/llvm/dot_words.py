"""Contractions of bfloat16, or int8 summed in int32, on a CPU that multiplies 32-bit words of them.

    acc[m, n] = sum_k a[m, k] * b[k, n]   ->   sum_w A[m, w] . B[w, n]

where an element of A or B is a word: 2 bfloat16 or 4 int8 neighbours of k, the first in the highest
bits. `vdpbf16ps` adds the product of the high halves first, each with one rounding, so an output is
the same chain over ascending k as everywhere else. One difference: subnormal operands and sums are
0. `vpdpbusd` multiplies unsigned bytes by signed ones, exactly, modulo 2**32:

    sum a * b  =  sum (a + 128) * b  -  128 * sum b

with 128 in each byte of A already, and the last sum counted beside the others (`correction`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llvmlite import ir

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.guarded import Guarded, is_before
from rushlight.backends.llvm.ops import intrinsic
from rushlight.base.dtypes import bfloat16, float32, int8, int32, uint8, uint16
from rushlight.compiler.tile.ir import Axis, DotGrid
from rushlight.ir.scalar import E, bitcast, cast, const, select
from rushlight.ir.symint import Expr
from rushlight.ir.symint_math import ceildiv

# The accumulators of one instruction.
WORD_LANES = 16
# 128 in each byte of an int32.
SIGNS = -0x7F7F7F80


def is_bfloat16(grid: DotGrid) -> bool:
    """Both sides, summed in float32."""
    both = grid.a.dtype is bfloat16 and grid.b.dtype is bfloat16
    return both and grid.acc_dtype is float32


def is_int8(grid: DotGrid) -> bool:
    """Both sides, summed in int32."""
    return grid.a.dtype is int8 and grid.b.dtype is int8 and grid.acc_dtype is int32


def before_casts(grid: DotGrid) -> DotGrid:
    """Sides that were cast from int8 to int32, as they were: their products are exact."""
    sides = [e.args[0] if e.op == "cast" else e for e in (grid.a, grid.b)]
    found = replace(grid, a=sides[0], b=sides[1])
    return found if is_int8(found) else grid


def suits_words(grid: DotGrid, target: Target) -> bool:
    whole = target.int8_words and is_int8(grid)
    return whole or (target.bfloat16_words and is_bfloat16(grid))


def for_multiply_words(grid: DotGrid) -> DotGrid:
    """In words as `multiply_words` takes them."""
    if not is_int8(grid):
        return in_words(grid, 2)
    grid = in_words(grid, 4)
    return replace(grid, a=grid.a ^ const(SIGNS, int32))


def in_words(grid: DotGrid, size: int) -> DotGrid:
    """The contraction with int32 operands of `size` elements each, over as many fewer k.

    The first element is in the highest bits; those behind the last k are 0.
    """
    k = grid.k
    word = Axis(f"{k.name}.word", ceildiv(k.extent, size))

    def packed(e: E) -> E:
        parts = []
        for n in range(size):
            at = size * word.var + n
            there = None if n == 0 or _divides(size, k.extent) else is_before(at, k.extent)
            part = Guarded({k.name: at}, {k.name}, there).expr(e)
            parts.append(part if there is None else select(there, part, const(0, e.dtype)))
        return join_words(parts)

    return replace(grid, k=word, a=packed(grid.a), b=packed(grid.b))


def join_words(parts: Sequence[E]) -> E:
    """Elements of 32 bits together as one int32, the first in the highest bits."""
    bits = 32 // len(parts)
    element = uint16 if bits == 16 else uint8
    first, *others = (cast(bitcast(part, element), int32) for part in parts)
    for other in others:
        first = first << bits | other
    return first


def _divides(size: int, extent: int | Expr) -> bool:
    if isinstance(extent, int):
        return extent % size == 0
    return not any(coef % size for _, coef in extent.terms) and extent.const % size == 0


def multiply_words(b: ir.IRBuilder, x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    """total + the products of the elements in every lane; x is of A, y of B."""
    if isinstance(total.type.element, ir.IntType):
        name, element = "llvm.x86.avx512.vpdpbusd", ir.IntType(8)
    else:
        name, element = "llvm.x86.avx512bf16.dpbf16ps", _Bfloat()
    parts = ir.VectorType(element, WORD_LANES * 32 // _bits(element))
    args = [total, *(b.bitcast(side, parts) for side in (x, y))]
    return intrinsic(b, f"{name}.{32 * WORD_LANES}", total.type, args)


def _bits(element: ir.Type) -> int:
    return element.width if isinstance(element, ir.IntType) else 16


class _Bfloat(ir.Type):
    """LLVM's bfloat, which llvmlite has no type for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bfloat)

    def __hash__(self) -> int:
        return hash(_Bfloat)
