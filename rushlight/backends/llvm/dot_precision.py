"""Products of float32 by bfloat16, where a program allows it and the CPU has tile registers.

"medium"  operands are rounded to bfloat16
"high"    each is the sum of two bfloat16, hi + lo, and a product is lo * hi + hi * lo + hi * hi:

    acc[m, n] = sum_k a[m, k] * b[k, n]   ->   sum over blocks of 32 k: lo . hi, hi . lo, hi . hi

as one contraction, each block three times as long. Sums are of float32 in both. An operand whose
size is at infinity, or rounds to it, gives NaN in "high", where infinity meets a part that is 0.
"""

from __future__ import annotations

from dataclasses import replace

from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.dot_words import in_words, join_words
from rushlight.backends.llvm.guarded import Guarded, is_before
from rushlight.base.dtypes import bfloat16, float32, int64
from rushlight.compiler.tile.ir import Axis, DotGrid
from rushlight.ir.scalar import E, cast, const, eq, index, select
from rushlight.ir.symint import Expr, Var, floordiv, mod
from rushlight.ir.symint_math import ceildiv

BLOCK = 32
PARTS = 3


def narrowed(grid: DotGrid, target: Target) -> DotGrid:
    """The contraction with operands of bfloat16, where they may be; else the grid itself."""
    if not _may_narrow(grid, target):
        return grid
    if target.products == "medium":
        return replace(grid, a=cast(grid.a, bfloat16), b=cast(grid.b, bfloat16))
    long = Axis(f"{grid.k.name}.part", BLOCK * PARTS * ceildiv(grid.k.extent, BLOCK))
    at, part = _of_block(long.var, BLOCK)
    a, b = (_part(grid, e, at, part, lo) for e, lo in ((grid.a, 0), (grid.b, 1)))
    return replace(grid, k=long, a=a, b=b)


def narrowed_words(grid: DotGrid, target: Target) -> DotGrid:
    """`in_words` of what `narrowed` gives: pairs of k lie side by side."""
    if not _may_narrow(grid, target) or target.products == "medium":
        return in_words(narrowed(grid, target), 2)
    half = BLOCK // 2
    word = Axis(f"{grid.k.name}.word", half * PARTS * ceildiv(grid.k.extent, BLOCK))
    first, part = _of_block(word.var, half)

    def packed(e: E, lo: int) -> E:
        return join_words([_part(grid, e, first + n, part, lo) for n in range(2)])

    return replace(grid, k=word, a=packed(grid.a, 0), b=packed(grid.b, 1))


def _may_narrow(grid: DotGrid, target: Target) -> bool:
    dtypes = {grid.a.dtype, grid.b.dtype, grid.acc_dtype}
    return bool(target.products) and dtypes == {float32}


def _of_block(at: Var, size: int) -> tuple[int | Expr, int | Expr]:
    """(k, part) of step `at`; a part of a block has `size` steps, of BLOCK // size k each."""
    inner = mod(at, size) * (BLOCK // size)
    return floordiv(at, PARTS * size) * BLOCK + inner, mod(floordiv(at, size), PARTS)


def _part(grid: DotGrid, e: E, at: int | Expr, part: int | Expr, lo: int) -> E:
    """The bfloat16 that an operand gives at k = `at`: its lower half in part `lo`."""
    k = grid.k
    whole = isinstance(k.extent, int) and k.extent % BLOCK == 0
    there = None if whole else is_before(at, k.extent)
    value = Guarded({k.name: at}, {k.name}, there).expr(e)
    if there is not None:
        value = select(there, value, const(0, float32))
    high = cast(value, bfloat16)
    rest = value - cast(high, float32)
    rest = select(eq(rest, rest), rest, const(0, float32))  # infinity has none
    return select(eq(index(part), const(lo, int64)), cast(rest, bfloat16), high)
