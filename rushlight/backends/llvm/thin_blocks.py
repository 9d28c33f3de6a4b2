"""Contractions with few rows of a on a CPU with tile registers: the sums that tiles would give.

As thin.py, but for the order: blocks of 32 k, two chains from 0 in each (even and odd steps), their
sum added to the total. So a row has the same bits alone and among many, which are multiplied in
tiles (tile_ops.py) - but for subnormal numbers, which tiles take for 0.
"""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from rushlight.backends.llvm.context import Env, i64
from rushlight.backends.llvm.ops import constant
from rushlight.backends.llvm.pack import in_vectors, min_value
from rushlight.backends.llvm.schedule import ThinSchedule
from rushlight.backends.llvm.thin import ThinEmitter

BLOCK = 32
# Three sums for each output: fewer columns stay in the first cache.
MOST_COLUMNS = 512


def in_blocks(s: ThinSchedule) -> ThinSchedule:
    """The schedule, with sweeps that end where blocks do."""
    unroll = next((n for n in (4, 8, 16) if n >= s.unroll), BLOCK)
    return replace(s, nc=min(s.nc, MOST_COLUMNS), unroll=unroll)


class ThinBlockEmitter(ThinEmitter):
    # Totals, even steps, odd steps.
    ARRAYS = 3

    def _chains(self, k: ir.Value, column: ir.Value, unroll: int) -> list[list[ir.Value]]:
        b = self.ctx.builder
        first = b.and_(k, i64(1))
        numbers = [first] if unroll == 1 else [i64(0), i64(1)]
        return [[self._part(number, row, column) for row in range(self.rows)] for number in numbers]

    def _part(self, number: ir.Value, row: int, column: ir.Value) -> ir.Value:
        """The address of a sum of even (0) or odd (1) steps."""
        b = self.ctx.builder
        at = b.add(b.mul(b.add(number, i64(1)), i64(self.rows)), i64(row))
        return self._sum(at, column)

    def _straight(self, env: Env, n0: ir.Value, count: ir.Value, k: ir.Value) -> None:
        ctx, b, unroll = self.ctx, self.ctx.builder, self.schedule.unroll
        self._clear()
        with ctx.for_range(b, i64(0), k, BLOCK) as block:
            left = min_value(b, b.sub(k, block), i64(BLOCK))
            end = b.add(block, left)
            whole = b.add(block, b.mul(b.sdiv(left, i64(unroll)), i64(unroll)))
            with ctx.for_range(b, block, whole, unroll) as at:
                self._sweep(env, n0, count, at, unroll)
            with ctx.for_range(b, whole, end) as at:
                self._sweep(env, n0, count, at, 1)
            self._join(count)

    def _join(self, count: ir.Value) -> None:
        """A block is over: its two sums go to the total."""
        ctx, b, size = self.ctx, self.ctx.builder, self.grid.acc_dtype.itemsize
        kind = self.shape.vector
        zero = constant(kind, 0)

        def body(column: ir.Value, mask: ir.Value | None) -> None:
            for row in range(self.rows):
                parts = [self._part(i64(number), row, column) for number in range(2)]
                even, odd = (b.load(p, typ=kind, align=size) for p in parts)
                place = self._sum(i64(row), column)
                total = b.fadd(b.load(place, typ=kind, align=size), b.fadd(even, odd))
                b.store(total, place, align=size)
                for part in parts:
                    b.store(zero, part, align=size)

        in_vectors(ctx, b, count, self.schedule.lanes, body)

    def _vector_of_columns(
        self, env: Env, n: ir.Value, left: ir.Value, k: ir.Value
    ) -> list[ir.Value]:
        ctx, b, s = self.ctx, self.ctx.builder, self.schedule
        zeros = [constant(self.shape.vector, 0)] * self.rows
        with ctx.for_loop(b, i64(0), k, BLOCK, carried=zeros) as blocks:
            here = min_value(b, b.sub(k, blocks.index), i64(BLOCK))
            end = b.add(blocks.index, here)
            whole = b.add(blocks.index, b.mul(b.sdiv(here, i64(s.lanes)), i64(s.lanes)))
            chains = self._square_blocks(env, n, left, blocks.index, whole, [zeros, zeros])
            even, odd = self._single_steps(env, n, left, whole, end, chains)
            added = zip(blocks.carried, even, odd, strict=True)
            blocks.set_next([b.fadd(total, b.fadd(x, y)) for total, x, y in added])
        return blocks.results
