"""Contractions of bfloat16 on a CPU that multiplies pairs (`vdpbf16ps`).

    acc[m, n] = sum_k a[m, k] * b[k, n]   ->   sum_p A[m, p] . B[p, n]

where an element of A or B is 32 bits: elements 2p (in the high half) and 2p + 1 of k. The
instruction adds the product of the high halves first, each with one rounding, so an output is the
same chain over ascending k as everywhere else. One difference: subnormal operands and sums are 0.
"""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from rushlight.backends.llvm.access import parity
from rushlight.backends.llvm.caps import Target
from rushlight.backends.llvm.ops import intrinsic
from rushlight.base.dtypes import bfloat16, float32, int32, uint16
from rushlight.compiler.tile.ir import Axis, DotGrid
from rushlight.compiler.tile.transform import Substitution
from rushlight.ir.scalar import E, bitcast, cast

# The accumulators of one instruction.
PAIR_LANES = 16


def suits_pairs(grid: DotGrid, target: Target) -> bool:
    """Both sides in bfloat16, and whole pairs."""
    both = grid.a.dtype is bfloat16 and grid.b.dtype is bfloat16 and grid.acc_dtype is float32
    return target.bfloat16_pairs and both and parity(grid.k.extent) == 0


def in_pairs(grid: DotGrid) -> DotGrid:
    """The contraction with int32 operands, a pair each, over half as many k."""
    half = Axis(f"{grid.k.name}.pair", grid.k.extent // 2)

    def pair(e: E) -> E:
        first, second = (
            cast(bitcast(Substitution({grid.k.name: 2 * half.var + n}).expr(e), uint16), int32)
            for n in range(2)
        )
        return first << 16 | second

    return replace(grid, k=half, a=pair(grid.a), b=pair(grid.b))


def multiply_pairs(b: ir.IRBuilder, x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
    """total + x.high * y.high + x.low * y.low in every lane; x and y as float vectors."""
    pairs = ir.VectorType(_Bfloat(), 2 * PAIR_LANES)
    args = [total, b.bitcast(x, pairs), b.bitcast(y, pairs)]
    return intrinsic(b, f"llvm.x86.avx512bf16.dpbf16ps.{32 * PAIR_LANES}", total.type, args)


class _Bfloat(ir.Type):
    """LLVM's bfloat, which llvmlite has no type for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bfloat)

    def __hash__(self) -> int:
        return hash(_Bfloat)
